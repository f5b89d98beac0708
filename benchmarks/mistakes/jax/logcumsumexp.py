"""Cumulative log-sum-exp of a vector."""
import jax
import jax.numpy as jnp
from jax import lax


@jax.custom_vjp
def logcumsumexp(x):
    """x: (n,). out[i] = log(sum(exp(x[: i + 1])))."""
    m = jnp.max(x)
    return jnp.log(jnp.cumsum(jnp.exp(x - m))) + m


def _lcse_fwd(x):
    y = logcumsumexp(x)
    return y, (x, y)


def _lcse_bwd(res, gy):
    x, y = res
    acc = lax.cumsum(gy * jnp.exp(-y))
    return (jnp.exp(x) * acc,)


logcumsumexp.defvjp(_lcse_fwd, _lcse_bwd)
