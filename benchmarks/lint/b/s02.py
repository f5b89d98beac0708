import jax
import jax.numpy as jnp

LOG_2PI = 1.8378770664093453


def squashed_sample(key, mean, log_std):
    """Tanh-squashed Gaussian policy, reparametrised."""
    log_std = jnp.clip(log_std, -5.0, 2.0)
    noise = jax.random.normal(key, mean.shape)
    u = mean + jnp.exp(log_std) * noise
    action = jnp.tanh(u)
    log_prob = -0.5 * noise ** 2 - log_std - 0.5 * LOG_2PI
    log_prob -= 2.0 * (jnp.log(2.0) - u - jax.nn.softplus(-2.0 * u))
    return action, log_prob.sum(axis=-1)
