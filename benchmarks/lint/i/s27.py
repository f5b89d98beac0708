import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

LOG2 = 0.6931471805599453


def squashed_sample(key, mean, log_std):
    std = jnp.exp(jnp.clip(log_std, -5.0, 2.0))
    pre = mean + std * jax.random.normal(key, mean.shape)
    action = jnp.tanh(pre)
    log_prob = norm.logpdf(pre, mean, std)
    log_prob -= 2.0 * (LOG2 - pre - jax.nn.softplus(-2.0 * pre))
    return action, log_prob.sum(axis=-1)
