"""Tanh approximation of GELU, elementwise on an array of any shape."""
import math

import jax
import jax.numpy as jnp

_C = math.sqrt(2.0 / math.pi)
_A = 0.044715


@jax.custom_jvp
def tanh_gelu(x):
    """x: any shape; returns an array of the same shape."""
    return 0.5 * x * (1.0 + jnp.tanh(_C * (x + _A * x**3)))


@tanh_gelu.defjvp
def _tanh_gelu_jvp(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    t = jnp.tanh(_C * (x + _A * x**3))
    inner = _C * (1.0 + _A * x**2)
    slope = 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t**2) * inner
    return 0.5 * x * (1.0 + t), slope * x_dot
