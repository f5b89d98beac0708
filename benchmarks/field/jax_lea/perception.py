from functools import partial

import jax
import jax.numpy as jnp


@jax.custom_vjp
def fuse_log_odds(grid, cells, evidence, lo=-4.0, hi=4.0):
    # cells: int (N,), -1 pads; a cell may be hit many times per sweep
    return _fuse_fwd(grid, cells, evidence, lo, hi)[0]


def _fuse_fwd(grid, cells, evidence, lo, hi):
    valid = cells >= 0
    idx = jnp.where(valid, cells, 0)
    raw = grid.at[idx].add(jnp.where(valid, evidence, 0.0))
    out = jnp.where(raw < lo, lo, jnp.where(raw > hi, hi, raw))
    return out, (valid, idx, raw, lo, hi)


def _fuse_bwd(res, g):
    valid, idx, raw, lo, hi = res
    under, over = raw < lo, raw > hi
    gg = jnp.where(under | over, 0.0, g)
    glo = jnp.where(under, g, 0.0).sum()
    ghi = jnp.where(over, g, 0.0).sum()
    return gg, None, jnp.where(valid, gg[idx], 0.0), glo, ghi


fuse_log_odds.defvjp(_fuse_fwd, _fuse_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def scan_to_world(ranges, bearings, pose, max_range=30.0):
    """ranges (N,), bearings (N,), pose (x, y, heading) -> points (N, 2)."""
    r = jnp.where(ranges > max_range, max_range, ranges)
    a = bearings + pose[2]
    return pose[:2] + r[:, None] * jnp.stack([jnp.cos(a), jnp.sin(a)], -1)


def _scan_fwd(ranges, bearings, pose, max_range):
    pts = scan_to_world(ranges, bearings, pose, max_range)
    return pts, (ranges, bearings, pose, pts)


def _scan_bwd(max_range, res, g):
    ranges, bearings, pose, pts = res
    a = bearings + pose[2]
    u = jnp.stack([jnp.cos(a), jnp.sin(a)], -1)
    n = jnp.stack([-u[:, 1], u[:, 0]], -1)
    r = jnp.minimum(ranges, max_range)
    g_ranges = jnp.where(ranges > max_range, 0.0, (g * u).sum(-1))
    g_bearings = r * (g * n).sum(-1)
    g_heading = jnp.sum(g[:, 1] * pts[:, 0] - g[:, 0] * pts[:, 1])
    return g_ranges, g_bearings, jnp.concatenate([g.sum(0), g_heading[None]])


scan_to_world.defvjp(_scan_fwd, _scan_bwd)


def _edge_flux(d, kappa, kind):
    s = (d / kappa) ** 2
    if kind == "exp":
        c = jnp.exp(-s)
        return d * c, c * (1 - 2 * s), 2 * s * c * d / kappa
    c = 1 / (1 + s)
    return d * c, (1 - s) * c**2, 2 * s * c**2 * d / kappa


def _div(f, axis):
    pad = [(0, 0)] * f.ndim
    pad[axis] = (1, 1)
    return jnp.diff(jnp.pad(f, pad), axis=axis)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def perona_malik_step(img, kappa, rate, kind="exp"):
    """One explicit step on (..., H, W), insulated borders. kind: "exp" or "rational"."""
    total = 0.0
    for ax in (-1, -2):
        total = total + _div(_edge_flux(jnp.diff(img, axis=ax), kappa, kind)[0], ax)
    return img + rate * total


def _pm_fwd(img, kappa, rate, kind):
    return perona_malik_step(img, kappa, rate, kind), (img, kappa, rate)


def _pm_bwd(kind, res, g):
    img, kappa, rate = res
    g_img, g_kappa, g_rate = g, 0.0, 0.0
    for ax in (-1, -2):
        flux, d_flux, k_flux = _edge_flux(jnp.diff(img, axis=ax), kappa, kind)
        gf = -jnp.diff(g, axis=ax)
        g_rate += jnp.sum(gf * flux)
        g_kappa += rate * jnp.sum(gf * k_flux)
        g_img = g_img - _div(rate * gf * d_flux, ax)
    return g_img, g_kappa, g_rate


perona_malik_step.defvjp(_pm_fwd, _pm_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def snap_heading(theta, bins=16):
    """Nearest of `bins` headings. Straight-through: the derivative is taken as 1."""
    step = 2 * jnp.pi / bins
    return step * jnp.round(theta / step)


@snap_heading.defjvp
def _snap_heading_jvp(bins, primals, tangents):
    return snap_heading(primals[0], bins), tangents[0]


def register(scan, bearings, pose, target, steps=20, lr=1e-2):
    loss = lambda p: jnp.mean((scan_to_world(scan, bearings, p) - target) ** 2)
    for _ in range(steps):
        pose = pose - lr * jax.grad(loss)(pose)
    return pose.at[2].set(snap_heading(pose[2]))
