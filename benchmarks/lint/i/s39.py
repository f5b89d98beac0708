import jax
import jax.numpy as jnp
from jax.scipy.stats import norm


def squashed_sample(key, mean, log_std):
    std = jnp.exp(jnp.clip(log_std, -5.0, 2.0))
    pre = mean + std * jax.random.normal(key, mean.shape)
    action = jnp.tanh(pre)
    log_prob = norm.logpdf(pre, mean, std)
    log_prob -= jnp.log(1.0 - action**2)
    return action, log_prob.sum(axis=-1)
