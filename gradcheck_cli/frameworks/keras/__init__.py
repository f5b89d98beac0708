"""Keras: the gradients of the backend that this process runs on. Import the modules, not this package."""
