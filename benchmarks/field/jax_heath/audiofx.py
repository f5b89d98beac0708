"""Differentiable audio effects and detectors.

Everything here works on float arrays whose last axis is time.
"""
import functools
import math

import jax
import jax.numpy as jnp

_LOG2 = math.log(2.0)


def _logcosh(u):
    return jnp.logaddexp(u, -u) - _LOG2


def _previous(u):
    """Delay by one sample, silence before the first one."""
    return jnp.concatenate([jnp.zeros_like(u[..., :1]), u[..., :-1]], axis=-1)


# ---------------------------------------------------------------------------
# saturation
# ---------------------------------------------------------------------------

ADAA_TOL = 1e-2


@jax.custom_jvp
def adaa_tanh(x, drive=1.0):
    """tanh waveshaper with first-order antiderivative anti-aliasing.

    Instead of ``tanh(drive * x[n])`` the mean of tanh over the straight line
    from ``drive * x[n-1]`` to ``drive * x[n]`` is returned (Parker et al.,
    DAFx 2016).  Where two neighbouring samples are closer than ``ADAA_TOL``
    the waveshaper is evaluated at their midpoint.

    Parameters
    ----------
    x : array, shape (..., T)
    drive : float or array that broadcasts against ``x`` without enlarging it
        Input gain.

    Returns
    -------
    array, shape (..., T)
    """
    u = drive * x
    v = _previous(u)
    gap = u - v
    close = jnp.abs(gap) < ADAA_TOL
    quotient = (_logcosh(u) - _logcosh(v)) / jnp.where(close, 1.0, gap)
    return jnp.where(close, jnp.tanh(0.5 * (u + v)), quotient)


@adaa_tanh.defjvp
def _adaa_tanh_jvp(primals, tangents):
    x, drive = primals
    x_dot, drive_dot = tangents
    y = adaa_tanh(x, drive)
    u = drive * x
    u_dot = drive * x_dot + drive_dot * x
    v, v_dot = _previous(u), _previous(u_dot)
    gap = u - v
    close = jnp.abs(gap) < ADAA_TOL
    far = ((jnp.tanh(u) - y) * u_dot - (jnp.tanh(v) - y) * v_dot) / jnp.where(close, 1.0, gap)
    near = 0.5 * (1.0 - y * y) * (u_dot + v_dot)
    return y, jnp.where(close, near, far)


# ---------------------------------------------------------------------------
# tone detection
# ---------------------------------------------------------------------------

def _phasors(n, freqs, sample_rate, dtype):
    ang = 2.0 * jnp.pi * jnp.arange(n)[:, None] * jnp.asarray(freqs) / sample_rate
    return jnp.cos(ang).astype(dtype), jnp.sin(ang).astype(dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def goertzel_power(frames, lengths, freqs, sample_rate=8000.0):
    """Power of each frame at a handful of frequencies (DTMF style).

    The power at ``f`` is ``|sum_t x[t] exp(-2 pi i f t / sr)|^2 / n^2`` with
    the sum over the ``n`` valid samples of the frame, so a unit sine gives
    about 0.25 however long its frame is.

    Args:
        frames: (..., T) samples, right padded.
        lengths: (...) integers, valid samples per frame, 1 <= length <= T.
        freqs: tuple of K frequencies in Hz.
        sample_rate: in Hz.

    Returns:
        (..., K) powers.
    """
    return _goertzel_fwd(frames, lengths, freqs, sample_rate)[0]


def _goertzel_fwd(frames, lengths, freqs, sample_rate):
    n = frames.shape[-1]
    valid = jnp.arange(n) < lengths[..., None]
    c, s = _phasors(n, freqs, sample_rate, frames.dtype)
    x = jnp.where(valid, frames, 0.0)
    re, im = x @ c, x @ s
    count = lengths[..., None].astype(frames.dtype)
    return (re * re + im * im) / count**2, (re, im, valid)


def _goertzel_bwd(freqs, sample_rate, res, g):
    re, im, valid = res
    n = valid.shape[-1]
    c, s = _phasors(n, freqs, sample_rate, g.dtype)
    dx = 2.0 * ((g * re) @ c.T + (g * im) @ s.T) / n**2
    return jnp.where(valid, dx, 0.0), None


goertzel_power.defvjp(_goertzel_fwd, _goertzel_bwd)


# ---------------------------------------------------------------------------
# stereo image
# ---------------------------------------------------------------------------

def make_stereo_widener(law="linear"):
    """Build ``widen(stereo, width)``.

    ``law`` is ``"linear"`` (side channel times width) or ``"power"``, where mid
    and side gains move on a circle and ``width=1`` leaves the signal as it is.
    """
    if law not in ("linear", "power"):
        raise ValueError(f"unknown law {law!r}")

    def gains(width):
        if law == "linear":
            return jnp.ones_like(width), width, jnp.zeros_like(width), jnp.ones_like(width)
        a = 0.25 * jnp.pi * width
        r = math.sqrt(2.0)
        return r * jnp.cos(a), r * jnp.sin(a), -r * 0.25 * jnp.pi * jnp.sin(a), r * 0.25 * jnp.pi * jnp.cos(a)

    @jax.custom_gradient
    def widen(stereo, width):
        """stereo: (..., 2, T); width: a scalar or (...), one per clip."""
        width = jnp.asarray(width, stereo.dtype)
        gm, gs, dgm, dgs = (k[..., None] for k in gains(width))
        left, right = stereo[..., 0, :], stereo[..., 1, :]
        mid, side = 0.5 * (left + right), 0.5 * (left - right)
        out = jnp.stack([gm * mid + gs * side, gm * mid - gs * side], axis=-2)

        def grad(g):
            gl, gr = g[..., 0, :], g[..., 1, :]
            g_mid, g_side = gl + gr, gl - gr
            # the 0.5 of the mid/side matrix comes back here
            a, b = 0.5 * gm * g_mid, 0.5 * gs * g_side
            d_stereo = jnp.stack([a + b, a - b], axis=-2)
            d_width = jnp.sum(dgm * mid * g_mid + dgs * side * g_side, axis=-1)
            if width.ndim == 0:
                d_width = jnp.sum(d_width)
            return d_stereo, d_width

        return out, grad

    return widen


stereo_widen = make_stereo_widener("power")


def tone_loss(params, clip, lengths, target, freqs=(697.0, 770.0, 852.0)):
    """Match the tone levels of a saturated, widened clip (..., 2, T)."""
    wet = adaa_tanh(stereo_widen(clip, params["width"]), params["drive"])
    level = goertzel_power(wet[..., 0, :], lengths, freqs, 8000.0)
    return jnp.mean((level - target) ** 2)
