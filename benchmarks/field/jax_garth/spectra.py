"""Small spectral helpers for the separation front end."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def wiener_mask(target, residual, power=1.0, eps=1e-10):
    """target**power / (target**power + residual**power + eps).

    Nonnegative magnitudes of one shape, power >= 1.
    """
    tp = target**power
    return tp / (tp + residual**power + eps)


@wiener_mask.defjvp
def _wiener_mask_jvp(power, eps, primals, tangents):
    target, residual = primals
    d_target, d_residual = tangents
    tp, rp = target**power, residual**power
    total = tp + rp + eps
    by_target = power * target ** (power - 1.0) * (rp + eps) / total**2
    by_residual = -tp * residual ** (power - 1.0) / total**2
    return tp / total, by_target * d_target + by_residual * d_residual


def separate(mixture, target, residual, power=1.0):
    """Split a complex spectrogram with a soft mask."""
    mask = wiener_mask(target, residual, power)
    return mixture * mask, mixture * (1.0 - mask)


def make_octave_smoother(n_bins, fraction=3):
    """Smoother for power spectra (..., n_bins): mean over 1/fraction octave around each bin."""
    centre = np.arange(n_bins)
    half = 2.0 ** (0.5 / fraction)
    lo = np.floor(centre / half).astype(np.int32)
    hi = np.minimum(np.ceil(centre * half).astype(np.int32) + 1, n_bins)
    width = (hi - lo).astype(np.float32)

    @jax.custom_gradient
    def smooth(power):
        edge = [(0, 0)] * (power.ndim - 1) + [(1, 0)]
        below = jnp.pad(jnp.cumsum(power, axis=-1), edge)
        out = (below[..., hi] - below[..., lo]) / width.astype(power.dtype)

        def back(g):
            share = g / width.astype(g.dtype)
            jumps = jnp.zeros(g.shape[:-1] + (n_bins + 1,), g.dtype)
            jumps = jumps.at[..., lo].add(share).at[..., hi].add(-share)
            return jnp.cumsum(jumps, axis=-1)[..., :-1]

        return out, back

    return smooth


third_octave_smooth = make_octave_smoother(129, 3)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def hard_clip_soft_grad(x, ceiling=1.0, knee=0.1):
    """Clip to [-ceiling, ceiling].

    The tangent is a surrogate on purpose: that of a clip with logistic edges of
    width knee, so that overs still learn.
    """
    return jnp.clip(x, -ceiling, ceiling)


@hard_clip_soft_grad.defjvp
def _hard_clip_soft_grad_jvp(ceiling, knee, primals, tangents):
    (x,), (dx,) = primals, tangents
    gate = jax.nn.sigmoid((ceiling - jnp.abs(x)) / knee)
    return jnp.clip(x, -ceiling, ceiling), gate * dx


def loudness_to_gain(db):
    return jnp.exp(db * (math.log(10.0) / 20.0))


def master(x, gain_db, ceiling_db=-1.0):
    """Gain and brickwall."""
    ceiling = 10.0 ** (ceiling_db / 20.0)
    return hard_clip_soft_grad(x * loudness_to_gain(gain_db), ceiling)
