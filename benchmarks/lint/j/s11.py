import math

import jax.numpy as jnp
from jax import lax

LOG_2PI = math.log(2.0 * math.pi)


def component_log_prob(x, means, log_scales):
    log_scales = jnp.clip(log_scales, -5.0, 5.0)
    z = (x[:, None] - means) * jnp.exp(-log_scales)
    return -0.5 * (z**2 + LOG_2PI) - log_scales


def mixture_log_likelihood(x, log_weights, means, log_scales):
    joint = log_weights + component_log_prob(x, means, log_scales)
    top = lax.stop_gradient(joint.max(axis=-1, keepdims=True))
    density = jnp.exp(joint - top).sum(axis=-1)
    return (jnp.log(density) + top[:, 0]).mean()
