"""JAX: hooks, adoption, float runs, traces. Import the modules, not this package."""
