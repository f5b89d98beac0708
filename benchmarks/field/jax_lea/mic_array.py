"""Array front end: beamformer weights, level tracking, timbre features."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@jax.custom_vjp
def mvdr_weights(R, d, loading):
    """w = (R + loading I)^-1 d / (d^T (R + loading I)^-1 d).

    R: (M, M), invertible after loading; lagged (non-symmetric) covariances are fine.
    d: (M,) steering vector. loading: scalar.
    """
    return _mvdr(R, d, loading)[0]


def _mvdr(R, d, loading):
    A = R + loading * jnp.eye(R.shape[0], dtype=R.dtype)
    y = jnp.linalg.solve(A, d)
    return y / (d @ y), (A, d, y)


def _mvdr_bwd(res, g):
    A, d, y = res
    den = d @ y
    s = (g @ y) / den**2
    v = jnp.linalg.solve(A, g / den - s * d)
    return -jnp.outer(v, y), v - s * y, -(v @ y)


mvdr_weights.defvjp(_mvdr, _mvdr_bwd)


@jax.custom_vjp
def peak_hold(x, decay):
    """Peak meter, y[t] = max(|x[t]|, decay * y[t-1]), y[-1] = 0.

    x: (T, C); decay: scalar or (C,), in [0, 1).
    """
    return _peak_hold_fwd(x, decay)[0]


def _peak_hold_fwd(x, decay):
    def step(y, xt):
        held = decay * y
        fresh = jnp.abs(xt) >= held
        y_new = jnp.where(fresh, jnp.abs(xt), held)
        return y_new, (y_new, fresh)

    _, (y, fresh) = jax.lax.scan(step, jnp.zeros_like(x[0]), x)
    return y, (jnp.sign(x), y, fresh, decay)


def _peak_hold_bwd(res, g):
    sgn, y, fresh, decay = res
    prev = jnp.roll(y, 1, axis=0).at[0].set(0.0)

    def step(carry, inp):
        gt, ft, pt, st = inp
        total = gt + carry
        through = jnp.where(ft, 0.0, total)
        return through * decay, (jnp.where(ft, total, 0.0) * st, through * pt)

    _, (gx, gd) = jax.lax.scan(step, jnp.zeros_like(g[0]), (g, fresh, prev, sgn), reverse=True)
    gd = gd.sum(0)
    return gx, gd if jnp.ndim(decay) else gd.sum()


peak_hold.defvjp(_peak_hold_fwd, _peak_hold_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def spectral_tilt(spec, freqs, weight, power=False, eps=1e-10):
    """Weighted LSQ slope of the level over log2(freq), dB/octave.

    spec: (..., K) magnitudes, or powers if `power`. freqs: (K,) > 0.
    weight: (K,) >= 0, constant.
    """
    return _tilt(_level(spec, power, eps), freqs, weight)[0]


def _level(spec, power, eps):
    return (10.0 if power else 20.0) * jnp.log10(spec + eps)


def _tilt(y, freqs, weight):
    w = weight / weight.sum()
    x = jnp.log2(freqs)
    xc = x - w @ x
    yc = y - (y @ w)[..., None]
    den = w @ xc**2
    slope = (yc * xc) @ w / den
    return slope, w, xc, yc, den


def _spectral_tilt_fwd(spec, freqs, weight, power, eps):
    slope, w, xc, yc, den = _tilt(_level(spec, power, eps), freqs, weight)
    return slope, (spec, freqs, weight, slope, w, xc, yc, den)


def _spectral_tilt_bwd(power, eps, res, g):
    spec, freqs, weight, slope, w, xc, yc, den = res
    gy = g[..., None] * w * xc / den
    gspec = gy * (20.0 / np.log(10.0)) / (spec + eps)
    gx = g[..., None] * w * (yc - 2.0 * slope[..., None] * xc) / den
    gx = gx.reshape(-1, gx.shape[-1]).sum(0)
    # weight only marks the usable band
    return gspec, gx / (freqs * np.log(2.0)), jnp.zeros_like(weight)


spectral_tilt.defvjp(_spectral_tilt_fwd, _spectral_tilt_bwd)


def tilt_loss(spec, target, freqs, lo=100.0, hi=8000.0):
    band = ((freqs >= lo) & (freqs <= hi)).astype(spec.dtype)
    return jnp.mean((spectral_tilt(spec, freqs, band) - target) ** 2)
