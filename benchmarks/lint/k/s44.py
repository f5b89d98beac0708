import jax
import jax.numpy as jnp


def linear_to_srgb(rgb):
    low = 12.92 * rgb
    high = 1.055 * jnp.power(rgb, 1 / 2.4) - 0.055
    return jnp.where(rgb <= 0.0031308, low, high)


def photometric_loss(rendered, target):
    rendered = jnp.clip(rendered, 0.0, 1.0)
    return jnp.mean((linear_to_srgb(rendered) - target) ** 2)


grad_fn = jax.grad(photometric_loss)
