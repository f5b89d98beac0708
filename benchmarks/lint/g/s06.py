import jax
import jax.numpy as jnp

HALF_LOG_2PI = 0.9189385332046727


def squashed_sample(key, loc, log_scale):
    loc = jnp.clip(loc, -2.0, 2.0)
    scale = 0.5 * jax.nn.sigmoid(log_scale)
    eps = jnp.clip(jax.random.normal(key, loc.shape), -6.0, 6.0)
    u = loc + scale * eps
    a = jnp.tanh(u)
    base = -0.5 * eps ** 2 - jnp.log(0.5) - jax.nn.log_sigmoid(log_scale) - HALF_LOG_2PI
    ldj = jnp.log(1.0 - a ** 2)
    return a, jnp.sum(base - ldj, axis=-1)
