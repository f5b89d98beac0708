import jax
import jax.numpy as jnp


def sample_action(key, mean, log_std):
    std = jnp.exp(log_std)
    u = mean + std * jax.random.normal(key, mean.shape)
    return jnp.tanh(u), u


def log_prob_from_u(u, mean, log_std):
    """Log density of a = tanh(u) with u Gaussian, summed over action dimensions."""
    z = (u - mean) / jnp.exp(log_std)
    base = -0.5 * z ** 2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
    correction = 2.0 * (jnp.log(2.0) - u - jax.nn.softplus(-2.0 * u))
    return jnp.sum(base - correction, axis=-1)
