import jax
import jax.numpy as jnp


def linear_to_srgb(c):
    low = 12.92 * c
    high = 1.055 * c ** (1.0 / 2.4) - 0.055
    return jnp.where(c <= 0.0031308, low, high)


@jax.jit
def photometric_loss(radiance, target):
    """Both images in [0, 1]; radiance is linear, target is encoded."""
    return jnp.mean(jnp.abs(linear_to_srgb(radiance) - target))
