import jax
import jax.numpy as jnp

LOG_2PI = 1.8378770664093453


def sample_with_log_prob(key, mean, log_std):
    """Tanh-squashed Gaussian policy, reparametrised."""
    log_std = jnp.clip(log_std, -5.0, 2.0)
    noise = jax.random.normal(key, mean.shape)
    u = mean + jnp.exp(log_std) * noise
    action = jnp.tanh(u)
    log_prob = -0.5 * noise ** 2 - log_std - 0.5 * LOG_2PI
    log_prob -= jnp.log(1.0 - action ** 2 + 1e-6)
    return action, log_prob.sum(axis=-1)
