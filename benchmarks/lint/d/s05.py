import jax.numpy as jnp


def heteroscedastic_loss(mu, raw, target):
    """Gaussian negative log likelihood with a learned noise level."""
    sigma = jnp.log(1 + jnp.exp(raw)) + 1e-3
    z = (target - mu) / sigma
    return jnp.mean(0.5 * z ** 2 + jnp.log(sigma))
