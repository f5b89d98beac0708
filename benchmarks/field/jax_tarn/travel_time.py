"""Travel-time building blocks for layered and gridded velocity models.

The functions here sit in the inner loop of a tomography code.  They carry their own
derivatives so that the intermediate arrays (radicands, upwind switches, iteration
history) do not have to be stored on the tape.
"""

from __future__ import annotations

from functools import partial
from typing import Tuple

import jax
import jax.numpy as jnp

Array = jax.Array


def _first_difference(a: Array) -> Array:
    """``a[k] - a[k-1]`` along the last axis, with ``a[-1] := 0``."""
    return a - jnp.concatenate([jnp.zeros_like(a[..., :1]), a[..., :-1]], axis=-1)


def _first_difference_adjoint(g: Array) -> Array:
    return g - jnp.concatenate([g[..., 1:], jnp.zeros_like(g[..., :1])], axis=-1)


def _sum_to_shape(g: Array, shape: Tuple[int, ...]) -> Array:
    lead = g.ndim - len(shape)
    return g.sum(axis=tuple(range(lead))) if lead else g


# ---------------------------------------------------------------------------
# Dix
# ---------------------------------------------------------------------------


def _dix_parts(t0, vrms, vmin):
    dq = _first_difference(t0 * vrms**2)
    dt = _first_difference(t0)
    ratio = dq / dt
    return ratio, dt, jnp.sqrt(jnp.maximum(ratio, vmin**2))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def dix_interval_velocity(t0: Array, vrms: Array, vmin: float = 0.3) -> Array:
    r"""Interval velocities from RMS velocities (Dix, 1955).

    .. math::
        v_k^2 = \frac{t_k V_k^2 - t_{k-1} V_{k-1}^2}{t_k - t_{k-1}},\qquad t_{-1} = 0

    Parameters
    ----------
    t0 : array, shape (N,) or the shape of `vrms`
        Zero-offset two-way times, strictly increasing along the last axis, positive.
        A one-dimensional `t0` is shared by all the traces of `vrms`.
    vrms : array, shape (..., N)
        RMS velocities picked at `t0`, km/s.
    vmin : float
        Floor of the interval velocity.  Picks that are inconsistent (a radicand under
        ``vmin**2``) return `vmin`, and no gradient passes through such an interval.

    Returns
    -------
    array, shape (..., N)
        Interval velocities, km/s.
    """
    return _dix_parts(t0, vrms, vmin)[2]


def _dix_fwd(t0, vrms, vmin):
    ratio, dt, vint = _dix_parts(t0, vrms, vmin)
    return vint, (t0, vrms, ratio, dt, vint)


def _dix_bwd(vmin, res, g):
    t0, vrms, ratio, dt, vint = res
    g_ratio = jnp.where(ratio > vmin**2, 0.5 * g / vint, 0.0)
    g_q = _first_difference_adjoint(g_ratio / dt)
    g_t = _first_difference_adjoint(-g_ratio * ratio / dt) + g_q * vrms**2
    return _sum_to_shape(g_t, t0.shape), 2.0 * t0 * vrms * g_q


dix_interval_velocity.defvjp(_dix_fwd, _dix_bwd)


# ---------------------------------------------------------------------------
# Eikonal stencil
# ---------------------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def eikonal_update(tx: Array, ty: Array, slowness: Array, h: float = 1.0) -> Array:
    """Local Godunov solution of the 2-D eikonal equation on a square grid.

    Parameters
    ----------
    tx, ty : array
        Smallest arrival time of the two neighbours along x and along y.
    slowness : array
        Slowness at the node, positive, the same shape.
    h : float, optional
        Grid spacing.  Times come out in ``slowness * h`` units.

    Returns
    -------
    array
        Arrival time at the node.  When the two neighbours are further apart in time
        than ``slowness * h`` the wave comes along one axis only and the causal
        one-sided update ``min(tx, ty) + slowness * h`` is used.

    Notes
    -----
    The square root is guarded in the one-sided region, where its argument may be
    negative, so neither the value nor the tangent picks up NaNs.
    """
    sh = slowness * h
    gap = tx - ty
    two_sided = jnp.abs(gap) < sh
    root = jnp.sqrt(jnp.where(two_sided, 2.0 * sh**2 - gap**2, 1.0))
    return jnp.where(two_sided, 0.5 * (tx + ty + root), jnp.minimum(tx, ty) + sh)


@eikonal_update.defjvp
def _eikonal_update_jvp(h, primals, tangents):
    tx, ty, slowness = primals
    dtx, dty, ds = tangents
    sh = slowness * h
    gap = tx - ty
    two_sided = jnp.abs(gap) < sh
    root = jnp.sqrt(jnp.where(two_sided, 2.0 * sh**2 - gap**2, 1.0))
    out = jnp.where(two_sided, 0.5 * (tx + ty + root), jnp.minimum(tx, ty) + sh)

    along_x = (tx <= ty).astype(out.dtype)
    c_x = jnp.where(two_sided, 0.5 * (1.0 - gap / root), along_x)
    c_y = jnp.where(two_sided, 0.5 * (1.0 + gap / root), 1.0 - along_x)
    c_s = jnp.where(two_sided, sh * h / root, 1.0)
    return out, c_x * dtx + c_y * dty + c_s * ds


def sweep_row(above: Array, slowness: Array, t_left: float, h: float = 1.0) -> Array:
    """March one grid row from left to right, given the times of the row above."""

    def step(left, inp):
        up, s = inp
        t = eikonal_update(left, up, s, h)
        return t, t

    return jax.lax.scan(step, jnp.asarray(t_left, above.dtype), (above, slowness))[1]


# ---------------------------------------------------------------------------
# Robust epicentre
# ---------------------------------------------------------------------------


def _median_terms(x, points, weights, soft):
    d = x - points
    r = jnp.sqrt(jnp.sum(d * d, axis=-1) + soft**2)
    grad = jnp.sum((weights / r)[:, None] * d, axis=0)
    u = d / r[:, None]
    eye = jnp.eye(points.shape[-1], dtype=points.dtype)
    blocks = (weights / r)[:, None, None] * (eye - u[:, :, None] * u[:, None, :])
    return grad, blocks, u, r


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def geometric_median(points: Array, weights: Array, soft: float = 0.5) -> Array:
    r"""Weighted geometric median of a cloud of trial epicentres.

    Minimises :math:`\sum_i w_i \sqrt{\|x - p_i\|^2 + \epsilon^2}`.

    Parameters
    ----------
    points : array, shape (N, D)
        Locations, ``N > D``, not all on one line.
    weights : array, shape (N,)
        Positive weights; they need not sum to one.
    soft : float
        Softening length :math:`\epsilon > 0`, in the units of `points`, of the order of
        the location uncertainty.

    Returns
    -------
    array, shape (D,)

    Notes
    -----
    Weiszfeld iterations followed by a few guarded Newton steps.  The derivative comes
    from the optimality condition (implicit function theorem), so that it costs one
    ``D x D`` solve and does not depend on the number of iterations.
    """

    def weiszfeld(_, x):
        d = x - points
        c = weights / jnp.sqrt(jnp.sum(d * d, axis=-1) + soft**2)
        return c @ points / jnp.sum(c)

    def newton(_, x):
        grad, blocks, _, _ = _median_terms(x, points, weights, soft)
        trial = x - jnp.linalg.solve(blocks.sum(0), grad)
        trial_grad = _median_terms(trial, points, weights, soft)[0]
        better = jnp.sum(trial_grad**2) < jnp.sum(grad**2)
        return jnp.where(better, trial, x)

    x = weights @ points / jnp.sum(weights)
    x = jax.lax.fori_loop(0, 60, weiszfeld, x)
    return jax.lax.fori_loop(0, 8, newton, x)


def _median_fwd(points, weights, soft):
    x = geometric_median(points, weights, soft)
    return x, (x, points, weights)


def _median_bwd(soft, res, g):
    x, points, weights = res
    _, blocks, u, _ = _median_terms(x, points, weights, soft)
    lam = jnp.linalg.solve(blocks.sum(0), g)
    return jnp.einsum("nij,j->ni", blocks, lam), -(u @ lam)


geometric_median.defvjp(_median_fwd, _median_bwd)
