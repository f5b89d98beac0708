import jax
import jax.numpy as jnp

LOG_SQRT_2PI = 0.9189385332046727


def sample_action(key, mean, log_std):
    noise = jax.random.normal(key, mean.shape)
    pre = mean + jnp.exp(log_std) * noise
    action = jnp.tanh(pre)
    base = -0.5 * noise ** 2 - log_std - LOG_SQRT_2PI
    correction = jnp.log(1.0 - action ** 2)
    return action, jnp.sum(base - correction, axis=-1)
