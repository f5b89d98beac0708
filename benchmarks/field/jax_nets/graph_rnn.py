"""Message passing and recurrent cells.

Shared by the molecule encoder (graph part) and by the trajectory decoder (recurrent part).
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def segment_softmax(logits, segment_ids, num_segments):
    """Softmax over the edges that share a segment id.

    Args:
        logits: [num_edges, num_heads]
        segment_ids: [num_edges] int, not necessarily sorted
        num_segments: static number of segments
    """
    top = jax.ops.segment_max(logits, segment_ids, num_segments)
    e = jnp.exp(logits - top[segment_ids])
    return e / jax.ops.segment_sum(e, segment_ids, num_segments)[segment_ids]


def _segsm_fwd(logits, segment_ids, num_segments):
    p = segment_softmax(logits, segment_ids, num_segments)
    return p, (p, segment_ids)


def _segsm_bwd(num_segments, res, g):
    p, segment_ids = res
    pg = p * g
    return pg - p * jax.ops.segment_sum(pg, segment_ids, num_segments)[segment_ids], None


segment_softmax.defvjp(_segsm_fwd, _segsm_bwd)


def mean_aggregate(nodes, senders, receivers):
    """GraphSAGE mean aggregator: every node receives the mean of its in-neighbours.

    nodes is [N, F]; senders and receivers are the int edge lists [E].
    Nodes without incoming edges receive zeros.
    """
    n = nodes.shape[0]

    def degree(index):
        return jnp.maximum(jnp.bincount(index, length=n), 1).astype(nodes.dtype)[:, None]

    @jax.custom_gradient
    def aggregate(x):
        out = jax.ops.segment_sum(x[senders], receivers, n) / degree(receivers)

        def pullback(g):
            return jax.ops.segment_sum(g[receivers], senders, n) / degree(senders)

        return out, pullback

    return aggregate(nodes)


class GRUParams(NamedTuple):
    wx: jax.Array   # [I, 3H]
    wh: jax.Array   # [H, 3H]
    bx: jax.Array   # [3H]
    bh: jax.Array   # [3H]


def _gru_parts(params, h, x):
    xr, xz, xn = jnp.split(x @ params.wx + params.bx, 3, axis=-1)
    hr, hz, hn = jnp.split(h @ params.wh + params.bh, 3, axis=-1)
    r = jax.nn.sigmoid(xr + hr)
    z = jax.nn.sigmoid(xz + hz)
    n = jnp.tanh(xn + r * hn)
    return r, z, n, hn


@jax.custom_vjp
def gru_cell(params: GRUParams, h, x):
    """One GRU step (cuDNN variant, reset gate after the matmul).

    :param params: GRUParams
    :param h: previous state, batch x hidden
    :param x: input, batch x features
    :return: next state, batch x hidden
    """
    _, z, n, _ = _gru_parts(params, h, x)
    return (1.0 - z) * n + z * h


def _gru_fwd(params, h, x):
    r, z, n, hn = _gru_parts(params, h, x)
    return (1.0 - z) * n + z * h, (params, h, x, r, z, n, hn)


def _gru_bwd(res, g):
    params, h, x, r, z, n, hn = res
    dn = g * (1.0 - z) * (1.0 - n * n)
    dz = g * (h - n) * z * (1.0 - z)
    dr = dn * hn * r * (1.0 - r)
    dgx = jnp.concatenate([dr, dz, dn], axis=-1)
    dgh = jnp.concatenate([dr, dz, dn * r], axis=-1)
    dparams = GRUParams(wx=x.T @ dgx, wh=h.T @ dgx, bx=dgx.sum(0), bh=dgh.sum(0))
    return dparams, g * z + dgh @ params.wh.T, dgx @ params.wx.T


gru_cell.defvjp(_gru_fwd, _gru_bwd)


def init_gru(key, features, hidden):
    k1, k2 = jax.random.split(key)
    return GRUParams(
        wx=jax.random.normal(k1, (features, 3 * hidden)) / jnp.sqrt(features),
        wh=jax.random.normal(k2, (hidden, 3 * hidden)) / jnp.sqrt(hidden),
        bx=jnp.zeros(3 * hidden),
        bh=jnp.zeros(3 * hidden),
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def lstm_cell(params, state, x, forget_bias=1.0):
    # params {"kernel": [I + H, 4H], "bias": [4H], "peephole": [3, H]}, state (h, c)
    return _lstm_fwd(params, state, x, forget_bias)[0]


def _lstm_fwd(params, state, x, forget_bias):
    h, c = state
    xh = jnp.concatenate([x, h], axis=-1)
    gates = xh @ params["kernel"] + params["bias"]
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    pi, pf, po = params["peephole"]
    i = jax.nn.sigmoid(i + pi * c)
    f = jax.nn.sigmoid(f + pf * c + forget_bias)
    g = jnp.tanh(g)
    c2 = f * c + i * g
    o = jax.nn.sigmoid(o + po * c2)
    tc = jnp.tanh(c2)
    h2 = o * tc
    return (h2, c2), (params, xh, c, i, f, g, o, c2, tc)


def _lstm_bwd(forget_bias, res, ct):
    params, xh, c, i, f, g, o, c2, tc = res
    dh2, dc2 = ct
    n_in = xh.shape[-1] - c.shape[-1]
    pi, pf, po = params["peephole"]
    do = dh2 * tc * o * (1 - o)
    dc2 = dc2 + dh2 * o * (1 - tc * tc) + do * po
    di = dc2 * g * i * (1 - i)
    df = dc2 * c * f * (1 - f)
    dg = dc2 * i * (1 - g * g)
    dc = dc2 * f + di * pi + df * pf
    dgates = jnp.concatenate([di, df, dg, do], axis=-1)
    dxh = dgates @ params["kernel"].T
    grads = {
        "kernel": xh.T @ dgates,
        "bias": dgates.sum(0),
        "peephole": jnp.stack([(di * c).sum(0), (df * c).sum(0), (do * c2).sum(0)]),
    }
    return grads, (dxh[:, n_in:], dc), dxh[:, :n_in]


lstm_cell.defvjp(_lstm_fwd, _lstm_bwd)


def _scan(a, b, h0, reverse):
    def step(h, ab):
        h = ab[0] * h + ab[1]
        return h, h
    return jax.lax.scan(step, h0, (a, b), reverse=reverse)[1]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def linear_recurrence(a, b, h0, reverse=False):
    """Diagonal linear recurrence ``h[t] = a[t] * h[t-1] + b[t]`` over the leading axis.

    Parameters
    ----------
    a, b : (T, D)
    h0 : (D,) initial state
    reverse : bool
        Run from the last step to the first instead.

    Returns
    -------
    (T, D) all states
    """
    return _scan(a, b, h0, reverse)


def _lr_fwd(a, b, h0, reverse):
    h = _scan(a, b, h0, reverse)
    return h, (a, h, h0)


def _lr_bwd(reverse, res, g):
    a, h, h0 = res

    def step(carry, inp):
        a_t, g_t = inp
        lam = g_t + carry
        return a_t * lam, lam

    dh0, lam = jax.lax.scan(step, jnp.zeros_like(h0), (a, g), reverse=not reverse)
    previous = jnp.concatenate([h0[None], h[:-1]], axis=0)
    return lam * previous, lam, dh0


linear_recurrence.defvjp(_lr_fwd, _lr_bwd)


def bidirectional_encode(a, b, h0):
    return jnp.concatenate(
        [linear_recurrence(a, b, h0, False), linear_recurrence(a, b, h0, True)], axis=-1)


def gat_layer(params, nodes, senders, receivers):
    """Single-head graph attention."""
    hidden = nodes @ params["w"]
    score = hidden[senders] @ params["a_src"] + hidden[receivers] @ params["a_dst"]
    alpha = segment_softmax(jax.nn.leaky_relu(score)[:, None], receivers, nodes.shape[0])
    return jax.ops.segment_sum(alpha * hidden[senders], receivers, nodes.shape[0])


if __name__ == "__main__":
    p = init_gru(jax.random.PRNGKey(1), 3, 5)
    h = jnp.zeros((2, 5))
    print(jax.grad(lambda p: gru_cell(p, h, jnp.ones((2, 3))).sum())(p).wx.shape)
