import jax
from jax import numpy as jnp


def occupation(x):
    """Mean photon number for x = h nu / (k T), 1e-8 <= x <= 60."""
    boltz = jnp.exp(-x)
    return boltz / (1.0 - boltz)


def mean_energy(nu, temperature, ratio=4.799243e-11):
    x = ratio * nu / temperature
    return x * jax.vmap(occupation)(x)
