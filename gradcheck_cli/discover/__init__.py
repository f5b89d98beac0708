"""From a file to its custom gradients: import it, record what is made, reach what is hidden."""
