"""Differentiable bits of a small plucked-string synthesiser and its analysis chain."""
from __future__ import annotations

import functools
import math
from typing import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax


def _string(x: Array, gain: Array, damping: Array, delay: int) -> Array:
    near = gain * (1.0 - damping)
    far = gain * damping

    def tick(line, x_n):
        y_n = x_n + near * line[1] + far * line[0]
        return jnp.concatenate([line[1:], y_n[None]]), y_n

    line = jnp.zeros((delay + 1, x.shape[0]), x.dtype)
    _, y = lax.scan(tick, line, x.T)
    return y.T


def _delayed(y: Array, lag: int) -> Array:
    return jnp.pad(y, ((0, 0), (lag, 0)))[:, : y.shape[1]]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def pluck_loop(excitation: Array, gain: Array, damping: Array, delay: int = 32) -> Array:
    """Karplus-Strong string.

    Runs ``y[n] = x[n] + gain * ((1 - damping) * y[n - delay] + damping * y[n - delay - 1])``
    from rest.

    Args:
      excitation: (batch, time) burst that is fed into the loop.
      gain: (batch,) loop gain.
      damping: (batch,) weight of the older tap, 0.5 in the original algorithm.
      delay: loop length in samples, at least 1; may exceed the clip length.

    Returns:
      (batch, time) string signal.
    """
    return _string(excitation, gain, damping, delay)


def _pluck_fwd(excitation, gain, damping, delay):
    y = _string(excitation, gain, damping, delay)
    return y, (y, gain, damping)


def _pluck_bwd(delay, res, g):
    y, gain, damping = res
    # The adjoint of a causal recursion from rest is the same recursion run backwards in time.
    lam = _string(g[:, ::-1], gain, damping, delay)[:, ::-1]
    near = jnp.sum(lam * _delayed(y, delay), axis=1)
    far = jnp.sum(lam * _delayed(y, delay + 1), axis=1)
    return lam, (1.0 - damping) * near + damping * far, gain * (far - near)


pluck_loop.defvjp(_pluck_fwd, _pluck_bwd)


def _warp_matrix(alpha, order: int, n_in: int, dtype) -> Array:
    """Column n holds the first coefficients of ``((z + alpha) / (1 + alpha z)) ** n``."""

    def column(prev, _):
        def entry(carry, pair):
            above = carry
            diag, left = pair
            value = diag + alpha * (left - above)
            return value, value

        shifted = jnp.concatenate([jnp.zeros((1,), dtype), prev[:-1]])
        _, new = lax.scan(entry, jnp.zeros((), dtype), (shifted, prev))
        return new, prev

    first = jnp.zeros((order + 1,), dtype).at[0].set(1.0)
    _, columns = lax.scan(column, first, None, length=n_in)
    return columns.T


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def warp_cepstrum(cepstrum: Array, alpha: Array, order: int = 24) -> Array:
    """Frequency-warps cepstra with a first-order all-pass (the ``freqt`` of speech toolkits).

    Args:
      cepstrum: (..., n) cepstral coefficients, the zeroth first.
      alpha: scalar warping factor, -1 < alpha < 1.
      order: order of the warped cepstrum; the result is truncated there.

    Returns:
      (..., order + 1) warped coefficients.
    """
    a = _warp_matrix(alpha, order, cepstrum.shape[-1], cepstrum.dtype)
    return cepstrum @ a.T


def _warp_fwd(cepstrum, alpha, order):
    a = _warp_matrix(alpha, order, cepstrum.shape[-1], cepstrum.dtype)
    out = cepstrum @ a.T
    return out, (a, alpha, out)


def _warp_bwd(order, res, g):
    a, alpha, out = res
    # With F(z) = sum_m out[m] z**m the warp satisfies
    # (1 - alpha**2) dF/dalpha = (1 - z**2) dF/dz, hence no second pass over the input.
    m = jnp.arange(order + 1, dtype=out.dtype)
    edge = jnp.zeros(out.shape[:-1] + (1,), out.dtype)
    slope = m * out
    up = jnp.concatenate([slope[..., 1:], edge], axis=-1)
    down = jnp.concatenate([edge, slope[..., :-1]], axis=-1)
    alpha_bar = jnp.sum(g * (up - down)) / (1.0 - alpha**2)
    return g @ a, alpha_bar


warp_cepstrum.defvjp(_warp_fwd, _warp_bwd)


def _moments(power: Array, freqs: Array):
    total = power.sum(-1, keepdims=True)
    safe = jnp.where(total > 0, total, 1.0)
    centre = (power * freqs).sum(-1, keepdims=True) / safe
    var = (power * (freqs - centre) ** 2).sum(-1, keepdims=True) / safe
    return safe, centre, jnp.sqrt(var)


@jax.custom_vjp
def centroid_and_spread(power: Array, freqs: Array) -> tuple[Array, Array]:
    """Spectral centroid and bandwidth of each frame.

    A silent frame gives (0, 0) and takes no gradient. A frame with all its power in one bin has
    zero spread, whose derivative is taken as zero.

    Args:
      power: (..., bins) non-negative power spectra.
      freqs: (bins,) bin frequencies, may be learned.

    Returns:
      Centroid and standard deviation around it, both of shape (...).
    """
    _, centre, spread = _moments(power, freqs)
    return centre[..., 0], spread[..., 0]


def _centroid_fwd(power, freqs):
    total, centre, spread = _moments(power, freqs)
    return (centre[..., 0], spread[..., 0]), (power, freqs, total, centre, spread)


def _centroid_bwd(res, cts):
    power, freqs, total, centre, spread = res
    g_c, g_s = (c[..., None] for c in cts)
    dev = freqs - centre
    live = spread > 0
    inv = jnp.where(live, 1.0 / jnp.where(live, spread, 1.0), 0.0)
    sounding = power.sum(-1, keepdims=True) > 0
    power_bar = (g_c * dev + 0.5 * g_s * inv * (dev**2 - spread**2)) / total
    power_bar = jnp.where(sounding, power_bar, 0.0)
    per_frame = power * (g_c + g_s * inv * dev) / total
    return power_bar, per_frame.reshape(-1, freqs.shape[0]).sum(0)


centroid_and_spread.defvjp(_centroid_fwd, _centroid_bwd)


_HALF_PI = 0.5 * math.pi
_CURVES: dict[str, tuple[Callable, Callable]] = {
    # (gain of the incoming clip, its slope)
    "linear": (lambda t: t, jnp.ones_like),
    "power": (lambda t: jnp.sin(_HALF_PI * t), lambda t: _HALF_PI * jnp.cos(_HALF_PI * t)),
}


def make_crossfade(curve: str = "power"):
    """Builds ``fade(outgoing, incoming, position)`` for a gain curve.

    The position is an automation lane of shape (time,), common to the (batch, time) clips. Zero
    plays the outgoing clip, one the incoming; values below zero or above one hold the end point.

    Args:
      curve: "power" keeps the summed power constant, "linear" the summed amplitude.
    """
    gain, slope = _CURVES[curve]

    @jax.custom_gradient
    def fade(outgoing, incoming, position):
        t = jnp.clip(position, 0.0, 1.0)
        rise, fall = gain(t), gain(1.0 - t)

        def grad(g):
            d_t = g * (incoming * slope(t) - outgoing * slope(1.0 - t))
            return g * fall, g * rise, d_t.sum(axis=0)

        return outgoing * fall + incoming * rise, grad

    return fade


equal_power_crossfade = make_crossfade("power")


def match_pluck(target: Array, burst: Array, steps: int = 20, lr: float = 1e-2, delay: int = 32):
    """Fits gain and damping of a string to a recording."""

    def loss(theta):
        y = pluck_loop(burst, jax.nn.sigmoid(theta[0]), jax.nn.sigmoid(theta[1]), delay)
        return jnp.mean((y - target) ** 2)

    theta = jnp.zeros((2, burst.shape[0]))
    for _ in range(steps):
        theta = theta - lr * jax.grad(loss)(theta)
    return jax.nn.sigmoid(theta)
