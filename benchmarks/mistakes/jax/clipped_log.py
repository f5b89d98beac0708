"""Logarithm with its argument kept above a floor."""
import jax
import jax.numpy as jnp

FLOOR = 0.05


@jax.custom_vjp
def clipped_log(x):
    """log(max(x, FLOOR)), elementwise."""
    return jnp.log(jnp.maximum(x, FLOOR))


def _clipped_log_fwd(x):
    return jnp.log(jnp.maximum(x, FLOOR)), x


def _clipped_log_bwd(x, dy):
    safe = jnp.maximum(x, FLOOR)
    dx = dy / safe
    return (dx,)


clipped_log.defvjp(_clipped_log_fwd, _clipped_log_bwd)
