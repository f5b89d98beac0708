"""Building blocks of a network that reads dressage rides from video.

A ride is a sequence of key points of the horse.  Each frame is brought to a
common place and size, the footfall patterns of the fore and the hind legs are
looked up in one table, a few layers of local attention mix the frames, and the
figure being ridden is predicted for each frame that carries a label.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

HIDDEN = 0         # id of "legs behind the boards"
UNLABELLED = -1    # frames between two figures
_FAR = -1e9


class ReaderConfig(NamedTuple):
    heads: int = 4
    shared_heads: int = 2
    reach: int = 3
    eps: float = 1e-6


# --------------------------------------------------------------------------
# key points

@partial(jax.custom_vjp, nondiff_argnums=(2,))
def place_horse(points, seen, eps=1e-6):
    """Move the horse to the origin and scale the visible joints to unit size.

    Args:
        points: (..., joints, 2 or 3) coordinates of the key points.
        seen: (..., joints) booleans, False where the detector lost the joint.
        eps: added to the mean squared distance before the root.

    Returns:
        Coordinates of the same shape, zero where a joint is not seen.
    """
    return _place_fwd(points, seen, eps)[0]


def _place_fwd(points, seen, eps):
    m = seen.astype(points.dtype)[..., None]
    n = jnp.maximum(m.sum(axis=-2, keepdims=True), 1)
    centre = (m * points).sum(axis=-2, keepdims=True) / n
    d = m * (points - centre)
    size = jnp.sqrt((d * d).sum(axis=(-2, -1), keepdims=True) / n + eps)
    y = d / size
    return y, (y, m, n, size)


def _place_bwd(eps, res, g):
    y, m, n, size = res
    g = g * m
    mean_g = g.sum(axis=-2, keepdims=True) / n
    along = (g * y).sum(axis=(-2, -1), keepdims=True) / n
    return m * (g - mean_g - y * along) / size, None


place_horse.defvjp(_place_fwd, _place_bwd)


# --------------------------------------------------------------------------
# footfalls

@jax.custom_vjp
def footfall_pair(table, fore, hind, engagement):
    """Blend of the two footfall vectors of each frame.

    table (patterns, width); fore and hind (batch, frames) integer ids; engagement
    (width,) says how much of the hind legs is taken in each feature.  A pair of
    legs with the id HIDDEN adds nothing.
    """
    return _pair_fwd(table, fore, hind, engagement)[0]


def _legs(table, ids):
    return jnp.where((ids != HIDDEN)[..., None], table[ids], 0)


def _pair_fwd(table, fore, hind, engagement):
    lv, rv = _legs(table, fore), _legs(table, hind)
    return lv * (1 - engagement) + rv * engagement, (table, fore, hind, engagement)


def _pair_bwd(res, g):
    table, fore, hind, engagement = res
    gl = jnp.where((fore != HIDDEN)[..., None], g * (1 - engagement), 0)
    gr = jnp.where((hind != HIDDEN)[..., None], g * engagement, 0)
    d_table = jnp.zeros_like(table).at[fore].add(gl).at[hind].add(gr)
    d_eng = (g * (_legs(table, hind) - _legs(table, fore))).sum(axis=(0, 1))
    return d_table, None, None, d_eng


footfall_pair.defvjp(_pair_fwd, _pair_bwd)


# --------------------------------------------------------------------------
# mixing frames

def _reach_mask(frames, reach):
    t = jnp.arange(frames)
    return jnp.abs(t[:, None] - t[None, :]) <= reach


def _weights(q, k, reach):
    copies = q.shape[1] // k.shape[1]
    kk = jnp.repeat(k, copies, axis=1)
    s = jnp.einsum("thd,shd->hts", q, kk) / q.shape[-1] ** 0.5
    s = jnp.where(_reach_mask(q.shape[0], reach), s, _FAR)
    return jax.nn.softmax(s, axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def neighbour_frames(q, k, v, reach):
    """Each frame looks at the frames at most ``reach`` away.

    q: frames x heads x dim.  k, v: frames x shared_heads x dim, where the
    number of heads is a multiple of shared_heads; consecutive heads share.
    The weights are not kept for the backward pass but computed again.
    """
    p = _weights(q, k, reach)
    vv = jnp.repeat(v, q.shape[1] // v.shape[1], axis=1)
    return jnp.einsum("hts,shd->thd", p, vv)


def _neighbour_fwd(q, k, v, reach):
    return neighbour_frames(q, k, v, reach), (q, k, v)


def _neighbour_bwd(reach, res, g):
    q, k, v = res
    frames, heads, dim = q.shape
    shared = k.shape[1]
    copies = heads // shared
    p = _weights(q, k, reach)
    vv = jnp.repeat(v, copies, axis=1)
    dv = jnp.einsum("hts,thd->shd", p, g)
    dp = jnp.einsum("thd,shd->hts", g, vv)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) / dim ** 0.5
    dq = jnp.einsum("hts,shd->thd", ds, jnp.repeat(k, copies, axis=1))
    dk = jnp.einsum("hts,thd->shd", ds, q)
    fold = lambda a: a.reshape(frames, copies, shared, -1).sum(axis=1)
    return dq, fold(dk), fold(dv)


neighbour_frames.defvjp(_neighbour_fwd, _neighbour_bwd)


# --------------------------------------------------------------------------
# loss

def make_figure_loss(allowed, smoothing=0.0):
    """Cross entropy over the figures that occur in the test.

    ``allowed`` is a boolean vector over all figures known.  ``smoothing`` is
    the share of the target that is spread evenly over the allowed figures.
    Frames labelled UNLABELLED do not count; the mean is over the others.
    """
    allowed = jnp.asarray(allowed)
    n_allowed = allowed.sum()

    def log_probs(logits):
        return jax.nn.log_softmax(jnp.where(allowed, logits, _FAR), axis=-1)

    @jax.custom_vjp
    def figure_loss(logits, labels):
        return forward(logits, labels)[0]

    def forward(logits, labels):
        lp = log_probs(logits)
        keep = labels != UNLABELLED
        count = jnp.maximum(keep.sum(), 1)
        hit = jnp.take_along_axis(lp, jnp.where(keep, labels, 0)[..., None], -1)[..., 0]
        even = jnp.where(allowed, lp, 0).sum(-1) / n_allowed
        per_frame = -(1 - smoothing) * hit - smoothing * even
        return jnp.where(keep, per_frame, 0).sum() / count, (lp, labels, keep, count)

    def backward(res, g):
        lp, labels, keep, count = res
        classes = lp.shape[-1]
        target = jax.nn.one_hot(labels, classes, dtype=lp.dtype)
        target = (1 - smoothing) * target + smoothing / classes
        d = jnp.where(allowed, jnp.exp(lp) - target, 0)
        return jnp.where(keep[..., None], d, 0) * (g / count), None

    figure_loss.defvjp(forward, backward)
    return figure_loss
