"""TensorFlow: discovery, float runs, traces by tf2jax. Import the modules, not this package."""
