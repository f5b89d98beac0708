import jax.numpy as jnp

H_OVER_K = 4.799243e-11


def occupation(nu, temperature):
    x = H_OVER_K * nu / temperature
    x = jnp.clip(x, 1e-20, 80.0)
    return 1.0 / jnp.expm1(x)


def mean_energy(nu, temperature):
    return H_OVER_K * nu * occupation(nu, temperature)
