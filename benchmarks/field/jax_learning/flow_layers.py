"""Bijectors and noise schedules."""
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


# ---------------------------------------------------------------- coupling
def _soft_clamp(raw, bound):
    return bound * jnp.tanh(raw / bound)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def masked_affine(x, raw_scale, shift, mask, bound=1.0):
    r"""
    Masked affine coupling with a soft-clamped scale.

    Parameters
    ----------
    x : array, (batch, dim)
    raw_scale, shift : array, (batch, dim)
        Conditioner outputs. The log-scale is ``bound * tanh(raw_scale / bound)``.
    mask : bool array, (dim,)
        True for the coordinates which pass unchanged.
    bound : float
        Largest log-scale; 1 to 5 are in use.

    Returns
    -------
    y : array, (batch, dim)
    logdet : array, (batch,)
    """
    s = _soft_clamp(raw_scale, bound)
    y = jnp.where(mask, x, x * jnp.exp(s) + shift)
    return y, jnp.sum(jnp.where(mask, 0.0, s), axis=-1)


def _masked_affine_fwd(x, raw_scale, shift, mask, bound):
    return masked_affine(x, raw_scale, shift, mask, bound), (
        x, _soft_clamp(raw_scale, bound), mask)


def _masked_affine_bwd(bound, res, cts):
    x, s, mask = res
    gy, gld = cts
    live = jnp.where(mask, 0.0, gy)
    es = jnp.exp(s)
    gs = live * x * es + jnp.where(mask, 0.0, gld[:, None])
    gx = jnp.where(mask, gy, gy * es)
    return gx, gs * (1.0 - s * s), live, np.zeros(mask.shape, jax.dtypes.float0)


masked_affine.defvjp(_masked_affine_fwd, _masked_affine_bwd)


@dataclass
class CouplingLayer:
    """RealNVP block; ``params`` is a dict with w1, b1, w2, b2."""
    mask: np.ndarray
    bound: float = 1.0

    def __call__(self, params, x):
        h = jnp.tanh(jnp.where(self.mask, x, 0.0) @ params["w1"] + params["b1"])
        raw, shift = jnp.split(h @ params["w2"] + params["b2"], 2, axis=-1)
        return masked_affine(x, raw, shift, self.mask, self.bound)


# ---------------------------------------------------------------- rotations
def _reflect(x, v):
    return x - 2.0 * (x @ v)[..., None] * v / (v @ v)


@jax.custom_vjp
def householder_chain(x, vs):
    """
    Apply a product of Householder reflections.

    Volume preserving. Inputs of the single reflections are not stored; they are
    recovered from the output, every reflection being its own inverse.

    Parameters
    ----------
    x : array, (batch, dim)
    vs : array, (n_reflections, dim)
        Need not be normalised; rows must be nonzero.

    Returns
    -------
    array, (batch, dim)
    """
    y, _ = lax.scan(lambda h, v: (_reflect(h, v), None), x, vs)
    return y


def _hh_fwd(x, vs):
    y = householder_chain(x, vs)
    return y, (y, vs)


def _hh_bwd(res, gy):
    y, vs = res

    def undo(carry, v):
        h, g = carry
        n = v @ v
        x_in = _reflect(h, v)
        xv, gv = x_in @ v, g @ v
        dv = -2.0 / n * (gv @ x_in + xv @ g) + 4.0 * (xv @ gv) / n**2 * v
        return (x_in, _reflect(g, v)), dv

    (_, gx), dvs = lax.scan(undo, (y, gy), vs, reverse=True)
    return gx, dvs


householder_chain.defvjp(_hh_fwd, _hh_bwd)


# ---------------------------------------------------------------- 1x1 conv
@jax.custom_vjp
def conv1x1_flow(x, weight):
    """
    Invertible 1x1 convolution (Glow).

    Parameters
    ----------
    x : array, (N, H, W, C)
    weight : array, (C, C)
        Acts on channels as ``x @ weight``.

    Returns
    -------
    z : array, (N, H, W, C)
    logdet : scalar
        Log-determinant for one image, the same for all of them.
    """
    pixels = x.shape[1] * x.shape[2]
    return x @ weight, pixels * jnp.linalg.slogdet(weight)[1]


def _conv1x1_fwd(x, weight):
    return conv1x1_flow(x, weight), (x, weight)


def _conv1x1_bwd(res, g):
    x, weight = res
    gz, gld = g
    n, h = x.shape[:2]
    c = weight.shape[0]
    gw = x.reshape(-1, c).T @ gz.reshape(-1, c)
    gw = gw + gld * (n * h) * jnp.linalg.inv(weight).T
    return gz @ weight.T, gw


conv1x1_flow.defvjp(_conv1x1_fwd, _conv1x1_bwd)


# ---------------------------------------------------------------- schedules
@jax.custom_jvp
def cosine_logsnr(t, logsnr_min, logsnr_max):
    """
    Cosine log-SNR schedule, truncated to ``[logsnr_min, logsnr_max]``.

    Parameters
    ----------
    t : array
        Times in [0, 1]; t = 0 is the clean end.
    logsnr_min, logsnr_max : scalar
        End points, possibly trained.

    Returns
    -------
    array, like ``t``
    """
    b = jnp.arctan(jnp.exp(-0.5 * logsnr_max))
    a = jnp.arctan(jnp.exp(-0.5 * logsnr_min)) - b
    return -2.0 * jnp.log(jnp.tan(a * t + b))


@cosine_logsnr.defjvp
def _cosine_logsnr_jvp(primals, tangents):
    t, lo, hi = primals
    dt, dlo, dhi = tangents
    e_hi, e_lo = jnp.exp(-0.5 * hi), jnp.exp(-0.5 * lo)
    b = jnp.arctan(e_hi)
    a = jnp.arctan(e_lo) - b
    # d arctan(e^{-x/2}) / dx
    db = -0.5 * e_hi / (1.0 + e_hi**2) * dhi
    da = -0.5 * e_lo / (1.0 + e_lo**2) * dlo
    angle = a * t + b
    d_angle = a * dt + t * da + db
    out = -2.0 * jnp.log(jnp.tan(angle))
    return out, -4.0 / jnp.sin(2.0 * angle) * d_angle


def diffuse(x0, noise, t, logsnr_min=-15.0, logsnr_max=15.0):
    """Noised sample at times ``t`` of shape (batch,)."""
    l = cosine_logsnr(t, logsnr_min, logsnr_max)
    shape = t.shape + (1,) * (x0.ndim - 1)
    alpha = jnp.sqrt(jax.nn.sigmoid(l)).reshape(shape)
    sigma = jnp.sqrt(jax.nn.sigmoid(-l)).reshape(shape)
    return alpha * x0 + sigma * noise


# ---------------------------------------------------------------- DDPM
def _cumulative(betas):
    alphas = 1.0 - betas
    bar = jnp.cumprod(alphas)
    bar_prev = jnp.concatenate([jnp.ones_like(bar[:1]), bar[:-1]])
    return alphas, bar, bar_prev


@jax.custom_vjp
def posterior_mean(x0, xt, steps, betas):
    """
    Mean of q(x_{t-1} | x_t, x_0).

    Parameters
    ----------
    x0, xt : array, (batch, dim)
    steps : int array, (batch,)
        Indices into ``betas``.
    betas : array, (n_steps,)
        Noise variances in (0, 1); trained in some of our runs.

    Returns
    -------
    array, (batch, dim)
    """
    alphas, bar, prev = _cumulative(betas)
    k0 = (jnp.sqrt(prev) * betas / (1.0 - bar))[steps]
    kt = (jnp.sqrt(alphas) * (1.0 - prev) / (1.0 - bar))[steps]
    return k0[:, None] * x0 + kt[:, None] * xt


def _posterior_fwd(x0, xt, steps, betas):
    return posterior_mean(x0, xt, steps, betas), (x0, xt, steps, betas)


def _posterior_bwd(res, g):
    x0, xt, steps, betas = res
    alphas, bar, prev = _cumulative(betas)
    den = 1.0 - bar
    c0 = jnp.sqrt(prev) * betas / den
    ct = jnp.sqrt(alphas) * (1.0 - prev) / den

    zeros = jnp.zeros_like(betas)
    h0 = zeros.at[steps].add(jnp.sum(g * x0, axis=1))
    ht = zeros.at[steps].add(jnp.sum(g * xt, axis=1))

    d_beta = h0 * jnp.sqrt(prev) / den
    d_alpha = ht * 0.5 / jnp.sqrt(alphas) * (1.0 - prev) / den
    d_bar = (h0 * c0 + ht * ct) / den
    d_prev = h0 * 0.5 * betas / (jnp.sqrt(prev) * den) - ht * jnp.sqrt(alphas) / den
    d_bar = d_bar.at[:-1].add(d_prev[1:])
    d_alpha = d_alpha + jnp.cumsum((d_bar * bar)[::-1])[::-1] / alphas
    return c0[steps][:, None] * g, ct[steps][:, None] * g, None, d_beta - d_alpha


posterior_mean.defvjp(_posterior_fwd, _posterior_bwd)
