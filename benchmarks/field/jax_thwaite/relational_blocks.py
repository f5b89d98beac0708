from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class EdgeList(NamedTuple):
    src: jax.Array
    dst: jax.Array
    rel: jax.Array
    keep: jax.Array  # bool, False for padding


def _edge_norm(edges, num_nodes, num_rel, dtype):
    key = edges.dst * num_rel + edges.rel
    live = edges.keep.astype(dtype)
    degree = jax.ops.segment_sum(live, key, num_nodes * num_rel)
    return live / jnp.maximum(degree[key], 1.0)


@jax.custom_vjp
def basis_relational_conv(x, bases, coeffs, edges):
    """Relational graph convolution with basis decomposition.

    Each relation r has the matrix sum_b coeffs[r, b] * bases[b]; messages of one relation are averaged per receiver.

    Args:
      x: (nodes, fan_in).
      bases: (num_bases, fan_in, fan_out).
      coeffs: (relations, num_bases).
      edges: EdgeList of (edges,) arrays; padded edges have keep == False.

    Returns:
      (nodes, fan_out).
    """
    return _relational_fwd(x, bases, coeffs, edges)[0]


def _relational_fwd(x, bases, coeffs, edges):
    norm = _edge_norm(edges, x.shape[0], coeffs.shape[0], x.dtype)
    mix = coeffs[edges.rel] * norm[:, None]
    # gather (nodes, bases, fan_in) first: cheaper than projecting every edge
    spread = mix[:, :, None] * x[edges.src][:, None, :]
    pooled = jax.ops.segment_sum(spread, edges.dst, x.shape[0])
    out = jnp.einsum("nbi,bio->no", pooled, bases)
    return out, (x, bases, coeffs, edges, norm, pooled)


def _relational_bwd(res, g):
    x, bases, coeffs, edges, norm, pooled = res
    g_bases = jnp.einsum("nbi,no->bio", pooled, g)
    g_edge = jnp.einsum("no,bio->nbi", g, bases)[edges.dst]
    mix = coeffs[edges.rel] * norm[:, None]
    g_x = jax.ops.segment_sum(jnp.einsum("eb,ebi->ei", mix, g_edge), edges.src, x.shape[0])
    g_mix = jnp.einsum("ebi,ei->eb", g_edge, x[edges.src]) * norm[:, None]
    g_coeffs = jnp.zeros_like(coeffs).at[edges.rel].add(g_mix)
    return g_x, g_bases, g_coeffs, None


basis_relational_conv.defvjp(_relational_fwd, _relational_bwd)


def init_crossing(key, depth, width, rank):
    k1, k2 = jax.random.split(key)
    return {
        "down": jax.random.normal(k1, (depth, width, rank)) / width**0.5,
        "up": jax.random.normal(k2, (depth, rank, width)) / rank**0.5,
        "bias": jnp.zeros((depth, width)),
    }


# low-rank feature crossing: x_{l+1} = x_0 * (x_l down_l up_l + bias_l) + x_l
@jax.custom_vjp
def crossing_stack(x0, params):
    def layer(x, p):
        return x0 * (x @ p["down"] @ p["up"] + p["bias"]) + x, None

    return lax.scan(layer, x0, params)[0]


def _crossing_fwd(x0, params):
    def layer(x, p):
        return x0 * (x @ p["down"] @ p["up"] + p["bias"]) + x, x

    out, inputs = lax.scan(layer, x0, params)
    return out, (x0, params, inputs)


def _crossing_bwd(res, g):
    x0, params, inputs = res
    rows = tuple(range(x0.ndim - 1))

    def layer(carry, item):
        g_x, g_x0 = carry
        p, x = item
        low = x @ p["down"]
        gate = low @ p["up"] + p["bias"]
        g_gate = g_x * x0
        g_low = g_gate @ p["up"].T
        grads = {
            "down": jnp.tensordot(x, g_low, axes=(rows, rows)),
            "up": jnp.tensordot(low, g_gate, axes=(rows, rows)),
            "bias": jnp.sum(g_gate, axis=rows),
        }
        g_x0 = g_x * gate
        g_x = g_x + g_low @ p["down"].T
        return (g_x, g_x0), grads

    (g_x, g_x0), grads = lax.scan(layer, (g, jnp.zeros_like(x0)), (params, inputs), reverse=True)
    return g_x + g_x0, grads


crossing_stack.defvjp(_crossing_fwd, _crossing_bwd)


@dataclass(frozen=True)
class Knots:
    low: float = -2.0
    high: float = 2.0
    count: int = 9

    @property
    def step(self):
        return (self.high - self.low) / (self.count - 1)


def _locate(x, knots):
    u = jnp.clip((x - knots.low) / knots.step, 0.0, knots.count - 1.0)
    left = jnp.minimum(jnp.floor(u), knots.count - 2.0)
    return left.astype(jnp.int32), u - left


def _hats(x, knots):
    left, frac = _locate(x, knots)
    hot = partial(jax.nn.one_hot, num_classes=knots.count, dtype=x.dtype)
    return hot(left) * (1.0 - frac)[..., None] + hot(left + 1) * frac[..., None]


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def spline_edges(x, table, base, knots=Knots()):
    """Sum of per-edge broken lines plus a silu path; x (..., i), table (i, o, knots), base (i, o)."""
    return jnp.einsum("...ik,iok->...o", _hats(x, knots), table) + jax.nn.silu(x) @ base


def _spline_fwd(x, table, base, knots):
    return spline_edges(x, table, base, knots), (x, table, base)


def _spline_bwd(knots, res, g):
    x, table, base = res
    fan_in, fan_out = base.shape
    left, _ = _locate(x, knots)
    hot = jax.nn.one_hot(left, knots.count - 1, dtype=x.dtype)
    rise = jnp.einsum("...ik,iok,...o->...i", hot, jnp.diff(table, axis=-1), g) / knots.step
    inside = (x > knots.low) & (x < knots.high)
    s = jax.nn.sigmoid(x)
    g_x = jnp.where(inside, rise, 0.0) + (g @ base.T) * s * (1.0 + x * (1.0 - s))
    flat_g = g.reshape(-1, fan_out)
    g_table = jnp.einsum("nik,no->iok", _hats(x, knots).reshape(-1, fan_in, knots.count), flat_g)
    g_base = (x * s).reshape(-1, fan_in).T @ flat_g
    return g_x, g_table, g_base


spline_edges.defvjp(_spline_fwd, _spline_bwd)
