"""Pair and MSA primitives for structure prediction models.

The blocks in this file are the parts of an Evoformer style trunk where plain
reverse mode keeps more intermediates alive than we can afford on long crops.
Every primitive keeps its inputs only and rebuilds what it needs on the way
back.

All functions act on a single example; use :func:`jax.vmap` for batches unless
leading axes are mentioned.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple, Optional

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float

__all__ = [
    "Frames",
    "TriangleMultiplication",
    "clamped_frame_error",
    "outer_product_mean",
    "triangle_update",
]


class Frames(NamedTuple):
    """Rigid frames: ``x_global = rots @ x_local + trans``."""

    rots: Float[Array, "f 3 3"]
    trans: Float[Array, "f 3"]


def _keep(mask, x):
    """Zero the entries of ``x`` that lie outside ``mask`` (mask lacks channels)."""
    return jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))


# --------------------------------------------------------------------------
# outer product mean
# --------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def outer_product_mean(
    left: Float[Array, "s i c"],
    right: Float[Array, "s j d"],
    left_mask: Bool[Array, "s i"],
    right_mask: Bool[Array, "s j"],
    eps: float = 1e-3,
) -> Float[Array, "i j c d"]:
    r"""Masked mean over sequences of the outer product of two projections.

    .. math::

        o_{ijcd} = \frac{\sum_s m_{si} n_{sj}\, l_{sic} r_{sjd}}
                        {\epsilon + \sum_s m_{si} n_{sj}}

    Parameters
    ----------
    left : Array, shape (s, i, c)
        Left projection of the alignment.
    right : Array, shape (s, j, d)
        Right projection. ``i`` and ``j`` differ when two chains are paired.
    left_mask, right_mask : Array of bool, shapes (s, i) and (s, j)
        Positions that are present. What lies under a ``False`` is ignored
        and may hold anything, NaN included.
    eps : float, optional
        Added to the pair count, positive.

    Returns
    -------
    Array, shape (i, j, c, d)
        Zero where no sequence covers both columns.

    Notes
    -----
    The ``(s, i, j, c, d)`` product is never built, neither forward nor
    backward, and the pair count is recomputed from the masks.
    """
    left = _keep(left_mask, left)
    right = _keep(right_mask, right)
    count = _pair_count(left_mask, right_mask, left.dtype) + eps
    total = jnp.einsum("sic,sjd->ijcd", left, right)
    return total / count[:, :, None, None]


def _pair_count(left_mask, right_mask, dtype):
    return jnp.einsum("si,sj->ij", left_mask.astype(dtype), right_mask.astype(dtype))


def _opm_fwd(left, right, left_mask, right_mask, eps):
    out = outer_product_mean(left, right, left_mask, right_mask, eps)
    return out, (left, right, left_mask, right_mask)


def _opm_bwd(eps, res, g):
    left, right, left_mask, right_mask = res
    count = _pair_count(left_mask, right_mask, g.dtype) + eps
    g = g / count[:, :, None, None]
    d_left = jnp.einsum("ijcd,sjd->sic", g, _keep(right_mask, right))
    d_right = jnp.einsum("ijcd,sic->sjd", g, _keep(left_mask, left))
    return _keep(left_mask, d_left), _keep(right_mask, d_right), None, None


outer_product_mean.defvjp(_opm_fwd, _opm_bwd)


# --------------------------------------------------------------------------
# triangle multiplication
# --------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def triangle_update(
    a: Float[Array, "*b n n c"],
    b: Float[Array, "*b n n c"],
    mask: Bool[Array, "*b n n"],
    outgoing: bool = True,
) -> Float[Array, "*b n n c"]:
    """Contraction of the triangle multiplicative update.

    Parameters
    ----------
    a, b : Array, shape (..., n, n, c)
        Gated projections of the pair representation.
    mask : Array of bool, shape (..., n, n)
        Edges that take part, applied to both ``a`` and ``b``. It need not be
        symmetric: templates with one sided contacts give directed edges.
    outgoing : bool, optional
        ``True`` (default) pairs the edges that leave ``i`` and ``j``,
        ``out[i, j] = sum_k a[i, k] * b[j, k]``; ``False`` pairs the edges
        that arrive, ``out[i, j] = sum_k a[k, i] * b[k, j]``.

    Returns
    -------
    Array, shape (..., n, n, c)

    Notes
    -----
    Only ``a``, ``b`` and the mask are kept. The incoming form is treated as
    the outgoing one on transposed edges, so both share the same two
    contractions on the way back.
    """
    a, b = _keep(mask, a), _keep(mask, b)
    if not outgoing:
        a, b = _flip(a), _flip(b)
    return jnp.einsum("...ikc,...jkc->...ijc", a, b)


def _flip(x):
    return jnp.swapaxes(x, -3, -2)


def _triangle_fwd(a, b, mask, outgoing):
    return triangle_update(a, b, mask, outgoing), (a, b, mask)


def _triangle_bwd(outgoing, res, g):
    a, b, mask = res
    a, b = _keep(mask, a), _keep(mask, b)
    if not outgoing:
        a, b = _flip(a), _flip(b)
    d_a = _keep(mask, jnp.einsum("...ijc,...jkc->...ikc", g, b))
    d_b = _keep(mask, jnp.einsum("...ijc,...ikc->...jkc", g, a))
    if not outgoing:
        d_a, d_b = _flip(d_a), _flip(d_b)
    return d_a, d_b, None


triangle_update.defvjp(_triangle_fwd, _triangle_bwd)


class TriangleMultiplication:
    """Triangle multiplicative update with parameters in a plain dict.

    Parameters
    ----------
    channels : int
        Channels of the pair representation.
    hidden : int
        Channels of the contraction.
    outgoing : bool
        Direction of the edges, see :func:`triangle_update`.
    """

    def __init__(self, channels: int, hidden: int, outgoing: bool = True):
        self.channels = channels
        self.hidden = hidden
        self.outgoing = outgoing

    def init(self, key: Array) -> dict:
        keys = jax.random.split(key, 5)
        shapes = {
            "proj_a": (self.channels, self.hidden),
            "proj_b": (self.channels, self.hidden),
            "gate_a": (self.channels, self.hidden),
            "gate_b": (self.channels, self.hidden),
            "out": (self.hidden, self.channels),
        }
        return {
            name: jax.random.normal(k, shape) / np.sqrt(shape[0])
            for k, (name, shape) in zip(keys, shapes.items())
        }

    def __call__(self, params: dict, pair: Array, mask: Array) -> Array:
        a = jax.nn.sigmoid(pair @ params["gate_a"]) * (pair @ params["proj_a"])
        b = jax.nn.sigmoid(pair @ params["gate_b"]) * (pair @ params["proj_b"])
        update = triangle_update(a, b, mask, self.outgoing)
        return pair + update @ params["out"]


# --------------------------------------------------------------------------
# frame aligned point error
# --------------------------------------------------------------------------


def _local_offsets(frames, points, target):
    rel = points[None, :, :] - frames.trans[:, None, :]
    # rots is orthogonal in use, but is differentiated as a free 3x3 matrix
    return jnp.einsum("fba,fnb->fna", frames.rots, rel) - target, rel


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6, 7))
def clamped_frame_error(
    frames: Frames,
    points: Float[Array, "n 3"],
    target: Float[Array, "f n 3"],
    frame_mask: Bool[Array, "f"],
    point_mask: Bool[Array, "n"],
    clamp: Optional[float] = 10.0,
    length_scale: float = 10.0,
    eps: float = 1e-4,
):
    """Frame aligned point error.

    Every point is expressed in every frame, ``rots.T @ (point - trans)``, and
    compared with its place in the reference structure.

    Parameters
    ----------
    frames : Frames
        ``(rots, trans)`` of the predicted residues, shapes (f, 3, 3), (f, 3).
    points : Array, shape (n, 3)
        Predicted atoms.
    target : Array, shape (f, n, 3)
        Reference atoms in the reference frames.
    frame_mask, point_mask : Array of bool, shapes (f,) and (n,)
        Which frames and which atoms count. All ``False`` gives zero.
    clamp : float or None, optional
        Errors are cut at this distance; ``None`` leaves them as they are.
    length_scale : float, optional
        Unit of the error.
    eps : float, optional
        Added to the squared distance before the root, positive.

    Returns
    -------
    loss : Array, shape ()
        Mean over the frames that count.
    per_frame : Array, shape (f,)
        Mean over the atoms that count, for every frame (also those that are
        masked).
    """
    diff, _ = _local_offsets(frames, points, target)
    dist = jnp.sqrt(jnp.sum(diff**2, axis=-1) + eps)
    if clamp is not None:
        dist = jnp.minimum(dist, clamp)
    n_points, n_frames = _counts(point_mask, frame_mask, dist.dtype)
    per_frame = jnp.sum(jnp.where(point_mask, dist, 0.0), axis=1) / (n_points * length_scale)
    loss = jnp.sum(jnp.where(frame_mask, per_frame, 0.0)) / n_frames
    return loss, per_frame


def _counts(point_mask, frame_mask, dtype):
    one = jnp.ones((), dtype)
    return (
        jnp.maximum(jnp.sum(point_mask.astype(dtype)), one),
        jnp.maximum(jnp.sum(frame_mask.astype(dtype)), one),
    )


def _frame_error_fwd(frames, points, target, frame_mask, point_mask, clamp, length_scale, eps):
    out = clamped_frame_error(
        frames, points, target, frame_mask, point_mask, clamp, length_scale, eps
    )
    return out, (frames, points, target, frame_mask, point_mask)


def _frame_error_bwd(clamp, length_scale, eps, res, cotangents):
    frames, points, target, frame_mask, point_mask = res
    g_loss, g_frame = cotangents
    diff, rel = _local_offsets(frames, points, target)
    dist = jnp.sqrt(jnp.sum(diff**2, axis=-1) + eps)
    n_points, n_frames = _counts(point_mask, frame_mask, dist.dtype)

    per_frame = g_frame + jnp.where(frame_mask, g_loss / n_frames, 0.0)
    g_dist = jnp.where(point_mask, per_frame[:, None] / (n_points * length_scale), 0.0)
    if clamp is not None:
        g_dist = jnp.where(dist < clamp, g_dist, 0.0)

    g_diff = (g_dist / dist)[..., None] * diff
    d_rots = jnp.einsum("fnb,fna->fba", rel, g_diff)
    g_rel = jnp.einsum("fba,fna->fnb", frames.rots, g_diff)
    d_frames = Frames(d_rots, -jnp.sum(g_rel, axis=1))
    return d_frames, jnp.sum(g_rel, axis=0), -g_diff, None, None


clamped_frame_error.defvjp(_frame_error_fwd, _frame_error_bwd)
