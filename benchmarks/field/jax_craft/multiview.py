"""Small differentiable multi-view toolbox: poses, cameras, sampling, ray compositing."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Camera(NamedTuple):
    focal: jax.Array    # (2,) fx, fy in pixels
    center: jax.Array   # (2,) cx, cy in pixels
    radial: jax.Array   # (2,) k1, k2


def hat(w):
    """Skew matrix of a 3-vector."""
    x, y, z = w[..., 0], w[..., 1], w[..., 2]
    o = jnp.zeros_like(x)
    rows = [jnp.stack(r, -1) for r in ((o, -z, y), (z, o, -x), (-y, x, o))]
    return jnp.stack(rows, -2)


def _rodrigues_coefficients(s):
    """sin(t)/t, (1-cos t)/t^2 and their slopes, as functions of s = t^2."""
    small = s < 1e-2
    s_ = jnp.where(small, 1.0, s)
    t = jnp.sqrt(s_)
    a = jnp.where(small, 1 - s / 6 + s**2 / 120 - s**3 / 5040, jnp.sin(t) / t)
    b = jnp.where(small, 0.5 - s / 24 + s**2 / 720 - s**3 / 40320, 2 * jnp.sin(t / 2) ** 2 / s_)
    da = jnp.where(small, -1 / 6 + s / 60 - s**2 / 1680, (jnp.cos(t) - a) / (2 * s_))
    db = jnp.where(small, -1 / 24 + s / 360 - s**2 / 13440, (a - 2 * b) / (2 * s_))
    return a, b, da, db


@jax.custom_gradient
def so3_exp(w):
    """Axis-angle (..., 3) to rotation matrix (..., 3, 3); smooth through zero."""
    a, b, da, db = (c[..., None, None] for c in _rodrigues_coefficients(jnp.sum(w * w, -1)))
    K = hat(w)
    KK = K @ K
    R = jnp.eye(3, dtype=w.dtype) + a * K + b * KK

    def pullback(G):
        Kt = jnp.swapaxes(K, -1, -2)
        dK = a * G + b * (G @ Kt + Kt @ G)
        ds = jnp.sum(G * (da * K + db * KK), axis=(-1, -2))
        dw = jnp.stack(
            [
                dK[..., 2, 1] - dK[..., 1, 2],
                dK[..., 0, 2] - dK[..., 2, 0],
                dK[..., 1, 0] - dK[..., 0, 1],
            ],
            axis=-1,
        )
        return dw + 2 * ds[..., None] * w

    return R, pullback


@jax.custom_vjp
def quat_rotate(q, v):
    """Rotate v (..., 3) by q (..., 4), wxyz. q is normalised here, so raw network outputs are fine."""
    return _quat_rotate_fwd(q, v)[0]


def _quat_rotate_fwd(q, v):
    u = q / jnp.linalg.norm(q, axis=-1, keepdims=True)
    w, r = u[..., :1], u[..., 1:]
    c = jnp.cross(r, v)
    return v + 2 * (w * c + jnp.cross(r, c)), (u, v, c)


def _quat_rotate_bwd(res, g):
    u, v, c = res
    w, r = u[..., :1], u[..., 1:]
    gr = jnp.cross(g, r)
    dw = 2 * jnp.sum(g * c, -1, keepdims=True)
    dr = 2 * (w * jnp.cross(v, g) + jnp.cross(c, g) + jnp.cross(v, gr))
    du = jnp.concatenate([dw, dr], -1)
    # stay tangent to the sphere
    dq = du - u * jnp.sum(u * du, -1, keepdims=True)
    dv = g + 2 * (w * gr + jnp.cross(r, jnp.cross(r, g)))
    return dq, dv


quat_rotate.defvjp(_quat_rotate_fwd, _quat_rotate_bwd)


@jax.custom_jvp
def project(points, cam):
    """Pinhole + two-term radial distortion; points (..., 3) in camera frame, z > 0 -> pixels (..., 2)."""
    xy = points[..., :2] / points[..., 2:]
    r2 = jnp.sum(xy * xy, -1, keepdims=True)
    k1, k2 = cam.radial
    return cam.focal * xy * (1 + k1 * r2 + k2 * r2**2) + cam.center


@project.defjvp
def _project_jvp(primals, tangents):
    points, cam = primals
    dpoints, dcam = tangents
    z = points[..., 2:]
    xy = points[..., :2] / z
    r2 = jnp.sum(xy * xy, -1, keepdims=True)
    k1, k2 = cam.radial
    scale = 1 + k1 * r2 + k2 * r2**2

    dxy = (dpoints[..., :2] - xy * dpoints[..., 2:]) / z
    dr2 = 2 * jnp.sum(xy * dxy, -1, keepdims=True)
    dscale = (k1 + 2 * k2 * r2) * dr2 + dcam.radial[0] * r2 + dcam.radial[1] * r2**2

    pix = cam.focal * xy * scale + cam.center
    dpix = dcam.focal * xy * scale + cam.focal * (dxy * scale + xy * dscale) + dcam.center
    return pix, dpix


def _corners(grid, size, align_corners):
    h, w = size
    span = jnp.array([w, h], grid.dtype)
    if align_corners:
        pix = (grid + 1) / 2 * (span - 1)
    else:
        pix = ((grid + 1) * span - 1) / 2
    lo = jnp.floor(pix)
    frac = pix - lo
    lo = lo.astype(jnp.int32)
    out = []
    for dy in (0, 1):
        for dx in (0, 1):
            ix, iy = lo[..., 0] + dx, lo[..., 1] + dy
            inside = (ix >= 0) & (ix < w) & (iy >= 0) & (iy < h)
            wx = frac[..., 0] if dx else 1 - frac[..., 0]
            wy = frac[..., 1] if dy else 1 - frac[..., 1]
            out.append((jnp.clip(iy, 0, h - 1), jnp.clip(ix, 0, w - 1), inside, wy, wx, 2 * dy - 1, 2 * dx - 1))
    return out


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def grid_sample(image, grid, align_corners=False):
    """Bilinear lookup of image (H, W, C) at grid (..., 2), xy in [-1, 1], zeros outside -> (..., C)."""
    out = 0.0
    for iy, ix, inside, wy, wx, _, _ in _corners(grid, image.shape[:2], align_corners):
        out += (wy * wx * inside)[..., None] * image[iy, ix]
    return out


def _grid_sample_fwd(image, grid, align_corners):
    return grid_sample(image, grid, align_corners), (image, grid)


def _grid_sample_bwd(align_corners, res, g):
    image, grid = res
    dimage = jnp.zeros_like(image)
    dx = dy = 0.0
    for iy, ix, inside, wy, wx, sy, sx in _corners(grid, image.shape[:2], align_corners):
        dimage = dimage.at[iy, ix].add((wy * wx * inside)[..., None] * g)
        dot = inside * jnp.sum(image[iy, ix] * g, -1)
        dx += sx * wy * dot
        dy += sy * wx * dot
    size = jnp.array(image.shape[:2], grid.dtype)
    half = (size - 1) / 2 if align_corners else size / 2
    return dimage, jnp.stack([dx, dy], -1) * half


grid_sample.defvjp(_grid_sample_fwd, _grid_sample_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def composite_rays(sigma, rgb, delta, t, white_background=False):
    """Volume rendering of R rays with S samples: sigma, delta, t (R, S), rgb (R, S, 3) -> color (R, 3), depth (R,), acc (R,)."""
    weights, _ = _ray_weights(sigma, delta)
    acc = weights.sum(-1)
    color = jnp.einsum("rs,rsc->rc", weights, rgb)
    if white_background:
        color = color + (1 - acc)[:, None]
    return color, jnp.sum(weights * t, -1), acc


def _ray_weights(sigma, delta):
    tau = sigma * delta
    before = jnp.exp(-(jnp.cumsum(tau, -1) - tau))
    return before * -jnp.expm1(-tau), before * jnp.exp(-tau)


def _composite_fwd(sigma, rgb, delta, t, white_background):
    return composite_rays(sigma, rgb, delta, t, white_background), (sigma, rgb, delta, t)


def _composite_bwd(white_background, res, cts):
    sigma, rgb, delta, t = res
    gc, gd, ga = cts
    weights, after = _ray_weights(sigma, delta)
    gw = jnp.einsum("rc,rsc->rs", gc, rgb) + gd[:, None] * t + ga[:, None]
    if white_background:
        gw = gw - gc.sum(-1)[:, None]
    gww = gw * weights
    behind = jnp.cumsum(gww[:, ::-1], -1)[:, ::-1] - gww
    dtau = gw * after - behind
    return dtau * delta, weights[..., None] * gc[:, None, :], dtau * sigma, weights * gd[:, None]


composite_rays.defvjp(_composite_fwd, _composite_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def box_loss(pred, target, weight, beta=1.0, reduction="mean"):
    """Weighted smooth-L1 on boxes (N, 4), weight (N,); 'mean' is over the total weight, 'sum', or 'none' -> (N,)."""
    d = jnp.abs(pred - target)
    per_box = weight * jnp.where(d < beta, 0.5 * d**2 / beta, d - 0.5 * beta).sum(-1)
    if reduction == "none":
        return per_box
    if reduction == "sum":
        return per_box.sum()
    return per_box.sum() / jnp.maximum(weight.sum(), 1e-6)


def _box_loss_fwd(pred, target, weight, beta, reduction):
    loss = box_loss(pred, target, weight, beta, reduction)
    return loss, (pred - target, weight, loss)


def _box_loss_bwd(beta, reduction, res, g):
    diff, weight, loss = res
    d = jnp.abs(diff)
    value = jnp.where(d < beta, 0.5 * d**2 / beta, d - 0.5 * beta).sum(-1)
    slope = weight[:, None] * jnp.clip(diff / beta, -1, 1)
    if reduction == "none":
        dpred, dweight = g[:, None] * slope, g * value
    elif reduction == "sum":
        dpred, dweight = g * slope, g * value
    else:
        dpred = g * slope / diff.shape[0]
        dweight = g * (value - loss) / jnp.maximum(weight.sum(), 1e-6)
    return dpred, -dpred, dweight


box_loss.defvjp(_box_loss_fwd, _box_loss_bwd)


def reprojection_error(poses, quats, points, cam, observed):
    """Bundle-adjustment residual: poses (V, 6) axis-angle + translation, quats (V, 4) rig correction, points (N, 3)."""
    R = so3_exp(poses[:, :3])
    local = jnp.einsum("vij,nj->vni", R, points) + poses[:, None, 3:]
    rig = jax.vmap(jax.vmap(quat_rotate, (None, 0)))(quats, local)
    return project(rig, cam) - observed


def feature_lookup(features, pixels):
    """Features (H, W, C) at pixel coordinates (N, 2)."""
    h, w, _ = features.shape
    grid = 2 * (pixels + 0.5) / jnp.array([w, h]) - 1
    return grid_sample(features, grid)
