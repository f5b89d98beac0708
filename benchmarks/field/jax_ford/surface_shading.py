"""Paint, triangles and bloom."""
from functools import partial

import jax
import jax.numpy as jnp


@jax.custom_gradient
def kubelka_munk_mix(conc, absorb, scatter):
    """Reflectance (batch, band) of an opaque paint film from positive pigment concentrations (batch, pigment) and positive K, S (pigment, band)."""
    k = conc @ absorb
    s = conc @ scatter
    a = k / s
    root = jnp.sqrt(a * (a + 2.0))
    refl = 1.0 / (1.0 + a + root)

    def grad(g):
        ga = -g * refl / root
        gk = ga / s
        gs = -ga * a / s
        return gk @ absorb.T + gs @ scatter.T, conc.T @ gk, conc.T @ gs

    return refl, grad


def _hit_system(origin, direction, tri, normalize):
    d = direction
    if normalize:
        d = d / jnp.linalg.norm(d, axis=-1, keepdims=True)
    e1 = tri[:, 1] - tri[:, 0]
    e2 = tri[:, 2] - tri[:, 0]
    m = jnp.stack([-d, e1, e2], axis=-1)
    flat = jnp.abs(jnp.linalg.det(m)) < 1e-12
    m = jnp.where(flat[:, None, None], jnp.eye(3, dtype=m.dtype), m)
    x = jnp.linalg.solve(m, (origin - tri[:, 0])[..., None])[..., 0]
    inside = (x[:, 1] >= 0) & (x[:, 2] >= 0) & (x[:, 1] + x[:, 2] <= 1) & (x[:, 0] > 0)
    return d, m, x, inside & ~flat


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def ray_triangle_hit(origin, direction, tri, normalize=False):
    """Intersect rays with triangles, one triangle per ray.

    Solves ``o + t d = v0 + u (v1 - v0) + v (v2 - v0)`` for each ray.

    Args:
        origin: ray origins, (N, 3).
        direction: ray directions, (N, 3), non-zero.
        tri: triangle corners, (N, 3, 3), the middle axis runs over corners.
        normalize: scale the directions to unit length first, so that ``t`` is a
            distance. Otherwise ``t`` is in units of the given direction.

    Returns:
        A tuple ``(t, uv, hit)`` of shapes (N,), (N, 2) and (N,). Rays that miss
        (or run parallel to the plane, or point away) have ``t = u = v = 0``,
        ``hit = False`` and pass no gradient. Visibility changes at the edges
        are not differentiated.
    """
    _, _, x, hit = _hit_system(origin, direction, tri, normalize)
    x = jnp.where(hit[:, None], x, 0.0)
    return x[:, 0], x[:, 1:], hit


def _hit_fwd(origin, direction, tri, normalize):
    d, m, x, hit = _hit_system(origin, direction, tri, normalize)
    length = jnp.linalg.norm(direction, axis=-1, keepdims=True)
    y = jnp.where(hit[:, None], x, 0.0)
    return (y[:, 0], y[:, 1:], hit), (d, length, m, x, hit)


def _hit_bwd(normalize, res, cot):
    d, length, m, x, hit = res
    g_t, g_uv, _ = cot
    g = jnp.where(hit[:, None], jnp.concatenate([g_t[:, None], g_uv], axis=1), 0.0)
    lam = jnp.linalg.solve(jnp.swapaxes(m, 1, 2), g[..., None])[..., 0]
    lam = jnp.where(hit[:, None], lam, 0.0)
    g_d = lam * x[:, :1]
    if normalize:
        g_d = (g_d - d * jnp.sum(d * g_d, axis=-1, keepdims=True)) / length
    g_e1, g_e2 = -lam * x[:, 1:2], -lam * x[:, 2:3]
    g_tri = jnp.stack([-lam - g_e1 - g_e2, g_e1, g_e2], axis=1)
    return lam, g_d, g_tri


ray_triangle_hit.defvjp(_hit_fwd, _hit_bwd)


@jax.custom_jvp
def soft_knee_bright_pass(rgb, threshold, knee):
    """Bloom prefilter on (..., 3): keep what exceeds scalar threshold, with a quadratic knee of half-width knee > 0."""
    b = jnp.max(rgb, axis=-1, keepdims=True)
    soft = jnp.clip(b - threshold + knee, 0.0, 2.0 * knee) ** 2 / (4.0 * knee)
    return rgb * jnp.maximum(soft, b - threshold) / jnp.maximum(b, 1e-4)


@soft_knee_bright_pass.defjvp
def _bright_jvp(primals, tangents):
    rgb, threshold, knee = primals
    d_rgb, d_thr, d_knee = tangents
    top = jnp.argmax(rgb, axis=-1, keepdims=True)
    b = jnp.take_along_axis(rgb, top, axis=-1)
    d_b = jnp.take_along_axis(d_rgb, top, axis=-1)

    s = jnp.clip(b - threshold + knee, 0.0, 2.0 * knee)
    soft = s**2 / (4.0 * knee)
    kept = jnp.maximum(soft, b - threshold)
    d_soft = s / (2.0 * knee) * (d_b - d_thr + d_knee) - (s / (2.0 * knee)) ** 2 * d_knee
    d_kept = jnp.where(b > threshold, d_b - d_thr, d_soft)

    floor = jnp.maximum(b, 1e-4)
    d_floor = jnp.where(b > 1e-4, d_b, 0.0)
    out = rgb * kept / floor
    return out, (d_rgb * kept + rgb * d_kept) / floor - out * d_floor / floor


@jax.custom_gradient
def circumcentre(tri):
    e = tri[..., 1:, :] - tri[..., :1, :]
    a = 2.0 * e
    rel = jnp.linalg.solve(a, jnp.sum(e * e, axis=-1, keepdims=True))[..., 0]

    def grad(g):
        lam = jnp.linalg.solve(a, g[..., None])
        g_e = 2.0 * lam * (e - rel[..., None, :])
        g_0 = g - jnp.sum(g_e, axis=-2)
        return jnp.concatenate([g_0[..., None, :], g_e], axis=-2)

    return tri[..., 0, :] + rel, grad


def delaunay_energy(points, faces):
    """Spread of circumcentres around face centroids, used to relax a mesh."""
    tri = points[faces]
    return jnp.sum((circumcentre(tri) - tri.mean(axis=1)) ** 2)
