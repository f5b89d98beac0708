# Magnitude-preserving building blocks (NHWC unless an axis is passed).
from functools import partial

import jax
import jax.numpy as jnp


def _fit(g, ref):
    ref_shape = jnp.shape(ref)
    lead = g.ndim - len(ref_shape)
    if lead:
        g = g.sum(axis=tuple(range(lead)))
    ax = tuple(i for i, (n, m) in enumerate(zip(g.shape, ref_shape)) if m == 1 and n != 1)
    return g.sum(axis=ax, keepdims=True) if ax else g


def mp_silu(x):
    return jax.nn.silu(x) / 0.596


@jax.custom_gradient
def mp_sum(a, b, t):
    # a, b: broadcastable feature maps; t: blend in [0, 1], scalar or per channel (learned)
    d2 = (1.0 - t) ** 2 + t**2
    y = (a + t * (b - a)) * jax.lax.rsqrt(d2)

    def grad(g):
        gd = g * jax.lax.rsqrt(d2)
        gt = gd * (b - a) - g * y * (2.0 * t - 1.0) / d2
        return _fit(gd * (1.0 - t), a), _fit(gd * t, b), _fit(gt, t)

    return y, grad


def _cat_weights(na, nb, t):
    c = ((na + nb) / ((1.0 - t) ** 2 + t**2)) ** 0.5
    return c / na**0.5 * (1.0 - t), c / nb**0.5 * t


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def mp_cat(a, b, t=0.5, axis=-1):
    # joins skip and trunk so that both contribute t-balanced magnitude, whatever their widths
    wa, wb = _cat_weights(a.shape[axis], b.shape[axis], t)
    return jnp.concatenate([wa * a, wb * b], axis=axis)


def _mp_cat_fwd(a, b, t, axis):
    return mp_cat(a, b, t, axis), (b.shape[axis], a.shape[axis])


def _mp_cat_bwd(t, axis, widths, g):
    nb, na = widths
    ga, gb = jnp.split(g, [na], axis=axis)
    wa, wb = _cat_weights(nb, na, t)
    return wa * ga, wb * gb


mp_cat.defvjp(_mp_cat_fwd, _mp_cat_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def pixel_norm(x, axis=-1, eps=1e-4):
    # unit rms along `axis`: -1 for NHWC maps, 1 for NCHW maps and for [batch, heads, ...] queries
    rms = jnp.sqrt(jnp.mean(x * x, axis=axis, keepdims=True))
    return x / (eps + rms)


def _pixel_norm_fwd(x, axis, eps):
    rms = jnp.sqrt(jnp.mean(x * x, axis=axis, keepdims=True))
    return x / (eps + rms), (x, rms)


def _pixel_norm_bwd(axis, eps, res, g):
    x, rms = res
    n = x.shape[-1]
    s = eps + rms
    proj = jnp.sum(g * x, axis=axis, keepdims=True)
    safe = jnp.where(rms > 0, rms, 1.0)
    return (g / s - x * proj / (n * safe * s * s),)


pixel_norm.defvjp(_pixel_norm_fwd, _pixel_norm_bwd)


def _edm_weight(sigma, sigma_data):
    return (sigma**2 + sigma_data**2) / (sigma * sigma_data) ** 2


def _per_sample(denoised, clean, valid):
    m = valid[..., None].astype(denoised.dtype)
    n = jnp.maximum(valid.sum(axis=(1, 2)), 1) * denoised.shape[-1]
    diff = m * (denoised - clean)
    return diff, n, jnp.sum(diff * diff, axis=(1, 2, 3)) / n


@partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def uncertainty_loss(
    denoised,  # [B, H, W, C]
    clean,  # [B, H, W, C]
    valid,  # [B, H, W] bool; letterboxed pixels are False
    sigma,  # [B] noise level, > 0
    logvar,  # [B] predicted log variance
    sigma_data=0.5,
    reduction="mean",  # "mean" | "sum" | "none"
):
    _, _, mse = _per_sample(denoised, clean, valid)
    loss = _edm_weight(sigma, sigma_data) * jnp.exp(-logvar) * mse + logvar
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def _uncertainty_fwd(denoised, clean, valid, sigma, logvar, sigma_data, reduction):
    out = uncertainty_loss(denoised, clean, valid, sigma, logvar, sigma_data, reduction)
    diff, n, mse = _per_sample(denoised, clean, valid)
    return out, (diff, n, mse, sigma, logvar)


def _uncertainty_bwd(sigma_data, reduction, res, g):
    diff, n, mse, sigma, logvar = res
    batch = sigma.shape[0]
    gi = jnp.broadcast_to(g / batch if reduction == "mean" else g, (batch,))
    inv = jnp.exp(-logvar)
    w = _edm_weight(sigma, sigma_data) * inv
    gd = 2.0 * diff * (gi * w / n)[:, None, None, None]
    return gd, -gd, None, -2.0 * gi * inv * mse / sigma**3, gi * (1.0 - w * mse)


uncertainty_loss.defvjp(_uncertainty_fwd, _uncertainty_bwd)


def init_block(key, width, skip_width):
    k1, k2 = jax.random.split(key)
    return {
        "trunk": jax.random.normal(k1, (width + skip_width, width)),
        "emb": jax.random.normal(k2, (width, width)),
        "blend": jnp.full((width,), 0.3),
    }


def decoder_block(p, x, skip, emb, channels_first=False):
    axis = 1 if channels_first else -1
    h = mp_cat(x, skip, 0.5, axis)
    if channels_first:
        h = jnp.moveaxis(h, 1, -1)
        x = jnp.moveaxis(pixel_norm(x, axis), 1, -1)
    else:
        x = pixel_norm(x, axis)
    h = mp_silu(h) @ (p["trunk"] / jnp.linalg.norm(p["trunk"], axis=0))
    h = h * (1.0 + (emb @ p["emb"])[:, None, None, :])
    return mp_sum(x, mp_silu(h), p["blend"])
