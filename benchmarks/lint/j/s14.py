import jax
import jax.numpy as jnp


def gaussian_log_prob(u, mean, log_std):
    z = (u - mean) * jnp.exp(-log_std)
    return -0.5 * z**2 - log_std - 0.9189385332046727


def sample_action(key, mean, log_std):
    log_std = jnp.clip(log_std, -5.0, 2.0)
    noise = jax.random.normal(key, mean.shape)
    u = mean + jnp.exp(log_std) * noise
    action = jnp.tanh(u)
    logp = gaussian_log_prob(u, mean, log_std)
    logp -= 2.0 * (0.6931471805599453 - u - jax.nn.softplus(-2.0 * u))
    return action, logp.sum(-1)
