"""PyTorch: discovery, float runs, traces by torchax. Import the modules, not this package."""
