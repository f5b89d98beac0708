"""The worker's side: a file, its gradients, their findings."""
