"""Curves, meshes, implicit shapes and shading for the inverse rendering experiments."""
from functools import partial

import jax
import jax.numpy as jnp


# ----------------------------------------------------------------- meshes


def _umbrella(verts, neighbors):
    """Mean of the neighbours minus the vertex. Rows of ``neighbors`` are padded with -1."""
    valid = neighbors >= 0
    count = jnp.maximum(valid.sum(axis=1), 1)
    ring = jnp.where(valid[..., None], verts[jnp.where(valid, neighbors, 0)], 0.0)
    isolated = ~valid.any(axis=1)
    delta = ring.sum(axis=1) / count[:, None] - verts
    return jnp.where(isolated[:, None], 0.0, delta)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def umbrella_smooth(verts, neighbors, lam, steps: int = 1):
    """Laplacian mesh smoothing with the uniform ("umbrella") weights.

    Args:
        verts: (V, 3) vertex positions.
        neighbors: (V, K) integer table of one-ring neighbours, every edge listed from
            both ends, short rows padded with -1. Vertices may have different valence and
            isolated vertices do not move.
        lam: scalar step, usually 0 < lam < 1.
        steps: number of explicit iterations.

    Returns:
        (V, 3) smoothed positions.
    """
    for _ in range(steps):
        verts = verts + lam * _umbrella(verts, neighbors)
    return verts


def _umbrella_smooth_fwd(verts, neighbors, lam, steps):
    deltas = []
    for _ in range(steps):
        delta = _umbrella(verts, neighbors)
        deltas.append(delta)
        verts = verts + lam * delta
    return verts, (deltas, neighbors, lam)


def _umbrella_smooth_bwd(steps, res, ct):
    deltas, neighbors, lam = res
    d_lam = jnp.zeros_like(lam)
    for delta in reversed(deltas):
        d_lam = d_lam + jnp.vdot(ct, delta)
        # edges are undirected, so the smoothing operator is applied again
        ct = ct + lam * _umbrella(ct, neighbors)
    return ct, None, d_lam


umbrella_smooth.defvjp(_umbrella_smooth_fwd, _umbrella_smooth_bwd)


# ----------------------------------------------------------------- curves


def _cubic_weights(u):
    w0 = (1.0 - u) ** 3 / 6.0
    w1 = (3.0 * u**3 - 6.0 * u**2 + 4.0) / 6.0
    w2 = (-3.0 * u**3 + 3.0 * u**2 + 3.0 * u + 1.0) / 6.0
    w3 = u**3 / 6.0
    return jnp.stack([w0, w1, w2, w3], axis=-1)


def _cubic_weight_slopes(u):
    return jnp.stack(
        [
            -0.5 * (1.0 - u) ** 2,
            1.5 * u**2 - 2.0 * u,
            -1.5 * u**2 + u + 0.5,
            0.5 * u**2,
        ],
        axis=-1,
    )


def _locate(t, n, closed):
    if closed:
        span = jnp.floor(t)
        idx = (span.astype(jnp.int32)[..., None] + jnp.arange(4)) % n
    else:
        span = jnp.clip(jnp.floor(t), 0, n - 4)
        idx = span.astype(jnp.int32)[..., None] + jnp.arange(4)
    return idx, t - span


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def bspline_curve(ctrl, t, closed=False):
    """Points of a uniform cubic B-spline.

    ``ctrl`` is (N, D). An open curve (N >= 4) is parametrised over [0, N - 3]; a closed one wraps around with
    period N, takes any real ``t``, and may have as few as one control point. ``t`` has any shape, the
    result is ``t.shape + (D,)``.
    """
    idx, u = _locate(t, ctrl.shape[0], closed)
    return jnp.einsum("...k,...kd->...d", _cubic_weights(u), ctrl[idx])


def _bspline_fwd(ctrl, t, closed):
    return bspline_curve(ctrl, t, closed), (ctrl, t)


def _bspline_bwd(closed, res, ct):
    ctrl, t = res
    idx, u = _locate(t, ctrl.shape[0], closed)
    d_ctrl = jnp.zeros_like(ctrl).at[idx].add(_cubic_weights(u)[..., None] * ct[..., None, :])
    tangent = jnp.einsum("...k,...kd->...d", _cubic_weight_slopes(u), ctrl[idx])
    return d_ctrl, jnp.sum(ct * tangent, axis=-1)


bspline_curve.defvjp(_bspline_fwd, _bspline_bwd)


# ----------------------------------------------------------------- implicit shapes


class SmoothCSG:
    """Smooth boolean operations on signed distances.

    Shapes are stacked along the leading axis. The blend radius is a scalar or an array that broadcasts
    against one distance map, and is positive.
    """

    def __init__(self, blend=0.1):
        self.blend = jnp.asarray(blend)

    @staticmethod
    @jax.custom_vjp
    def union(dist, blend):
        """-blend * log(sum(exp(-dist / blend))) over the shapes."""
        return -blend * jax.nn.logsumexp(-dist / blend, axis=0)

    def intersection(self, dist):
        return -SmoothCSG.union(-dist, self.blend)

    def difference(self, base, holes):
        return -SmoothCSG.union(jnp.concatenate([-base[None], holes]), self.blend)

    def __call__(self, dist):
        return SmoothCSG.union(dist, self.blend)


def _sum_to(x, shape):
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=axes, keepdims=True) if axes else x


def _union_fwd(dist, blend):
    out = SmoothCSG.union(dist, blend)
    return out, (dist, blend, out)


def _union_bwd(res, ct):
    dist, blend, out = res
    share = jnp.exp((out - dist) / blend)
    d_dist = share * ct
    d_blend = ct * (out - jnp.sum(share * dist, axis=0)) / blend
    return d_dist, _sum_to(d_blend, jnp.shape(blend))


SmoothCSG.union.defvjp(_union_fwd, _union_bwd)


# ----------------------------------------------------------------- shading


def _roughness_terms(sigma):
    s2 = sigma * sigma
    return 1.0 - 0.5 * s2 / (s2 + 0.33), 0.45 * s2 / (s2 + 0.09)


@jax.custom_jvp
def oren_nayar(nl, nv, lv, sigma, albedo):
    """Qualitative Oren-Nayar diffuse shading.

    nl, nv, lv are the cosines between normal and light, normal and view, light and view (front-facing:
    nl, nv > 0); sigma is the facet slope deviation in radians and albedo the reflectance. All
    arguments have the same shape. The retro-reflective lobe is divided by ``max(nl, nv)`` when
    light and viewer are on the same side.
    """
    a, b = _roughness_terms(sigma)
    s = lv - nl * nv
    t = jnp.where(s > 0.0, jnp.maximum(nl, nv), 1.0)
    return albedo * nl * (a + b * s / t)


@oren_nayar.defjvp
def _oren_nayar_jvp(primals, tangents):
    nl, nv, lv, sigma, albedo = primals
    nl_t, nv_t, lv_t, sigma_t, albedo_t = tangents
    a, b = _roughness_terms(sigma)
    s2 = sigma * sigma
    a_t = -0.33 * sigma / (s2 + 0.33) ** 2 * sigma_t
    b_t = 0.45 * 2.0 * 0.09 * sigma / (s2 + 0.09) ** 2 * sigma_t

    s = lv - nl * nv
    s_t = lv_t - nl_t * nv - nl * nv_t
    same_side = s > 0.0
    t = jnp.where(same_side, jnp.maximum(nl, nv), 1.0)
    t_t = jnp.where(same_side, nl_t, 0.0)

    lobe = a + b * s / t
    lobe_t = a_t + b_t * s / t + b * (s_t - s * t_t / t) / t
    out = albedo * nl * lobe
    out_t = albedo_t * nl * lobe + albedo * nl_t * lobe + albedo * nl * lobe_t
    return out, out_t


def fit_roughness(nl, nv, lv, target, sigma0=0.3, lr=0.05, iters=50):
    """Plain gradient descent for one roughness and one albedo shared by all pixels."""

    def loss(theta):
        sigma = jnp.broadcast_to(theta[0], nl.shape)
        albedo = jnp.broadcast_to(theta[1], nl.shape)
        return jnp.mean((oren_nayar(nl, nv, lv, sigma, albedo) - target) ** 2)

    theta = jnp.array([sigma0, 0.5])
    step = jax.jit(jax.grad(loss))
    for _ in range(iters):
        theta = theta - lr * step(theta)
    return theta
