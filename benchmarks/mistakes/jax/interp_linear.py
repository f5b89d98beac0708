"""Piecewise linear interpolation on a uniform grid over [0, 1]."""
import jax
import jax.numpy as jnp


def _locate(xq, cells):
    pos = xq * cells
    i = jnp.clip(jnp.floor(pos).astype(jnp.int32), 0, cells - 1)
    return i, pos - i


@jax.custom_vjp
def interp_linear(xq, values):
    """xq: (q,) query points, values: (k,) nodal values. Returns (q,)."""
    i, t = _locate(xq, values.shape[0] - 1)
    return (1.0 - t) * values[i] + t * values[i + 1]


def interp_linear_fwd(xq, values):
    i, t = _locate(xq, values.shape[0] - 1)
    lo, hi = values[i], values[i + 1]
    return (1.0 - t) * lo + t * hi, (i, t, values)


def interp_linear_bwd(saved, g_out):
    i, t, values = saved
    cells = values.shape[0] - 1
    g_xq = g_out * (values[i + 1] - values[i]) * cells
    g_values = jnp.zeros_like(values)
    g_values = g_values.at[i].add(g_out * t).at[i + 1].add(g_out * (1.0 - t))
    return g_xq, g_values


interp_linear.defvjp(interp_linear_fwd, interp_linear_bwd)
