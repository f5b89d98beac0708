"""Scaled complementary error function exp(x^2) erfc(x)."""
import math

import jax
import jax.numpy as jnp
from jax.scipy.special import erfc


@jax.custom_jvp
def erfcx(x):
    """Elementwise, moderate |x|."""
    return jnp.exp(x * x) * erfc(x)


@erfcx.defjvp
def _erfcx_jvp(primals, tangents):
    (x,) = primals
    (xt,) = tangents
    y = erfcx(x)
    dydx = 2.0 * x * y + 2.0 / math.sqrt(math.pi)
    return y, dydx * xt
