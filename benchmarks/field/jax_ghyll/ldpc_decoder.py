"""Message passing layers of a neural belief-propagation decoder for LDPC codes.

Messages from variables to checks are laid out per check: ``(batch, checks,
degree)`` with a boolean table ``mask`` of shape ``(checks, degree)`` that marks
the slots in use.  Messages on the variable side are flat, ``(batch, edges)``.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Tanner(NamedTuple):
    edge_var: np.ndarray      # (edges,) variable of an edge
    table: np.ndarray         # (checks, degree) edge in a slot, 0 where unused
    mask: np.ndarray          # (checks, degree)


def tanner_from_matrix(h):
    """Edge tables of a parity-check matrix ``h`` (checks, variables)."""
    rows, cols = np.nonzero(h)
    degree = int(np.asarray(h).sum(1).max())
    table = np.zeros((h.shape[0], degree), dtype=np.int32)
    mask = np.zeros((h.shape[0], degree), dtype=bool)
    for r in range(h.shape[0]):
        edges = np.flatnonzero(rows == r)
        table[r, :edges.size] = edges
        mask[r, :edges.size] = True
    return Tanner(cols.astype(np.int32), table, mask)


# ------------------------------------------------------------ variable side


@jax.custom_vjp
def variable_to_check(channel, incoming, previous, damping, edge_var):
    """Extrinsic variable messages with damping.

    :param channel: channel LLRs, ``(batch, variables)``
    :param incoming: check messages, ``(batch, edges)``
    :param previous: variable messages of the last iteration, ``(batch, edges)``
    :param damping: share of the last message that is kept, scalar or ``(edges,)``
    :param edge_var: integer ``(edges,)``, variable at the end of every edge
    :returns: ``(batch, edges)``
    """
    return _v2c_fwd(channel, incoming, previous, damping, edge_var)[0]


def _v2c_fwd(channel, incoming, previous, damping, edge_var):
    damping = jnp.asarray(damping, channel.dtype)
    total = channel.at[:, edge_var].add(incoming)
    extrinsic = total[:, edge_var] - incoming
    out = (1.0 - damping) * extrinsic + damping * previous
    return out, (extrinsic, previous, damping, edge_var, channel.shape)


def _v2c_bwd(res, g):
    extrinsic, previous, damping, edge_var, shape = res
    ge = g * (1.0 - damping)
    d_channel = jnp.zeros(shape, g.dtype).at[:, edge_var].add(ge)
    d_incoming = d_channel[:, edge_var] - ge
    d_damping = (g * (previous - extrinsic)).sum(0)
    if damping.ndim == 0:
        d_damping = d_damping.sum()
    return d_channel, d_incoming, g * damping, d_damping, None


variable_to_check.defvjp(_v2c_fwd, _v2c_bwd)


# --------------------------------------------------------------- check side


def _leave_out_products(t):
    """Products over the last axis without slot i, and without slots i and j."""
    d = t.shape[-1]
    eye = jnp.eye(d, dtype=bool)
    one = jnp.prod(jnp.where(eye, 1.0, t[..., None, :]), axis=-1)
    skip = eye[:, None, :] | eye[None, :, :]
    two = jnp.prod(jnp.where(skip, 1.0, t[..., None, None, :]), axis=-1)
    return one, two


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def check_to_variable(llr, mask, clip=8.0):
    """Sum-product check messages, 2 atanh of the leave-one-out product of tanh(llr / 2).

    Punctured bits may enter with an LLR of zero.  LLRs are limited to
    ``[-clip, clip]``; a check with one edge answers ``clip``.
    """
    return _c2v_fwd(llr, mask, clip)[0]


def _c2v_fwd(llr, mask, clip):
    t = jnp.where(mask, jnp.tanh(jnp.clip(llr, -clip, clip) / 2.0), 1.0)
    one, _ = _leave_out_products(t)
    top = float(np.tanh(clip / 2.0))
    one = jnp.clip(one, -top, top)
    return jnp.where(mask, 2.0 * jnp.arctanh(one), 0.0), (llr, t, one, mask)


def _c2v_bwd(clip, res, g):
    llr, t, one, mask = res
    _, two = _leave_out_products(t)
    g = jnp.where(mask, g / (1.0 - one * one), 0.0)
    off = ~jnp.eye(t.shape[-1], dtype=bool)
    pull = jnp.einsum("...i,...ij->...j", g, jnp.where(off, two, 0.0))
    free = mask & (jnp.abs(llr) < clip)
    return jnp.where(free, pull * (1.0 - t * t), 0.0), None


check_to_variable.defvjp(_c2v_fwd, _c2v_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def min_sum_check(llr, mask, scale, offset=0.0):
    """Normalised (and offset) min-sum check messages.

    :param llr: ``(batch, checks, degree)``
    :param mask: boolean ``(checks, degree)``, two slots or more per check
    :param scale: learned factor of every check, ``(checks,)``
    :param offset: subtracted from the magnitudes, which stay non-negative
    """
    return _minsum_fwd(llr, mask, scale, offset)[0]


def _two_smallest(mag):
    first = jnp.argmin(mag, axis=-1)
    hide = jax.nn.one_hot(first, mag.shape[-1], dtype=bool)
    second = jnp.argmin(jnp.where(hide, jnp.inf, mag), axis=-1)
    return first, second, hide


def _minsum_fwd(llr, mask, scale, offset):
    mag = jnp.where(mask, jnp.abs(llr), jnp.inf)
    sign = jnp.where(mask & (llr < 0), -1.0, 1.0).astype(llr.dtype)
    first, second, hide = _two_smallest(mag)
    m1 = jnp.take_along_axis(mag, first[..., None], -1)
    m2 = jnp.take_along_axis(mag, second[..., None], -1)
    least = jnp.where(hide, m2, m1)
    others = jnp.prod(sign, axis=-1, keepdims=True) * sign
    unit = jnp.where(mask, others * jnp.maximum(least - offset, 0.0), 0.0)
    alive = mask & (least > offset)
    return unit * scale[:, None], (unit, others, alive, sign, first, second, hide, scale)


def _minsum_bwd(offset, res, g):
    unit, others, alive, sign, first, second, hide, scale = res
    d_scale = (g * unit).sum(axis=(0, 2))
    gm = jnp.where(alive, g * others * scale[:, None], 0.0)
    lead = jnp.take_along_axis(sign, first[..., None], -1)[..., 0]
    to_second = jnp.where(hide, gm, 0.0).sum(-1)
    to_first = gm.sum(-1) - to_second
    d = g.shape[-1]
    d_llr = (jax.nn.one_hot(first, d, dtype=g.dtype) * (lead * to_first)[..., None]
             + jax.nn.one_hot(second, d, dtype=g.dtype) * (lead * to_second)[..., None])
    return d_llr, None, d_scale


min_sum_check.defvjp(_minsum_fwd, _minsum_bwd)


def decode(channel, graph: Tanner, params, iterations=5, min_sum=True):
    """Run a few unrolled iterations and return the posterior LLRs."""
    v2c = channel[:, graph.edge_var]
    c2v = jnp.zeros_like(v2c)
    for _ in range(iterations):
        rows = jnp.where(graph.mask, v2c[:, graph.table], 0.0)
        rows = (min_sum_check(rows, graph.mask, params["scale"], 0.0) if min_sum
                else check_to_variable(rows, graph.mask, 8.0))
        where = np.where(graph.mask, graph.table, v2c.shape[1])
        c2v = jnp.zeros_like(v2c).at[:, where].set(rows, mode="drop")
        v2c = variable_to_check(channel, c2v, v2c, params["damping"], graph.edge_var)
    return channel.at[:, graph.edge_var].add(c2v)
