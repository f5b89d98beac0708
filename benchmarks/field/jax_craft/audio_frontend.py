"""
Audio front end: filters, spectrograms and dynamics as JAX functions.

Signals have time on the last axis unless a function says otherwise.
"""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


# ---------------------------------------------------------------------------
# recursive filter
# ---------------------------------------------------------------------------

def _delay(x, k):
    """x[..., t - k], zeros before the start (k may be negative: zeros after the end)."""
    if k == 0:
        return x
    z = jnp.zeros(x.shape[:-1] + (abs(k),), x.dtype)
    if k > 0:
        return jnp.concatenate([z, x], -1)[..., :x.shape[-1]]
    return jnp.concatenate([x, z], -1)[..., -k:]


def _all_pole(v, a, reverse=False):
    """y[t] = v[t] - a1 y[t-1] - a2 y[t-2]"""
    def tick(state, vt):
        y1, y2 = state
        y = vt - a[0] * y1 - a[1] * y2
        return (y, y1), y

    zero = jnp.zeros(v.shape[:-1], v.dtype)
    _, y = jax.lax.scan(tick, (zero, zero), jnp.moveaxis(v, -1, 0), reverse=reverse)
    return jnp.moveaxis(y, 0, -1)


@jax.custom_vjp
def biquad(x, b, a):
    """
    Second order section, direct form.

    x : (..., T)
    b : (3,) feed-forward taps
    a : (2,) feedback taps a1, a2 (a0 is one)
    """
    return _all_pole(b[0] * x + b[1] * _delay(x, 1) + b[2] * _delay(x, 2), a)


def _biquad_fwd(x, b, a):
    y = biquad(x, b, a)
    return y, (x, y, b, a)


def _biquad_bwd(res, g):
    x, y, b, a = res
    v = _all_pole(g, a, reverse=True)
    dx = b[0] * v + b[1] * _delay(v, -1) + b[2] * _delay(v, -2)
    db = jnp.stack([jnp.sum(v * _delay(x, k)) for k in (0, 1, 2)])
    da = jnp.stack([-jnp.sum(v * _delay(y, k)) for k in (1, 2)])
    return dx, db, da


biquad.defvjp(_biquad_fwd, _biquad_bwd)


def peaking_coefficients(f0, gain_db, q, sample_rate):
    """RBJ cookbook peaking EQ."""
    A = 10.0 ** (gain_db / 40.0)
    w0 = 2 * jnp.pi * f0 / sample_rate
    alpha = jnp.sin(w0) / (2 * q)
    a0 = 1 + alpha / A
    b = jnp.stack([1 + alpha * A, -2 * jnp.cos(w0), 1 - alpha * A]) / a0
    a = jnp.stack([-2 * jnp.cos(w0), 1 - alpha / A]) / a0
    return b, a


# ---------------------------------------------------------------------------
# power spectrogram
# ---------------------------------------------------------------------------

def _frame_index(length, n, hop):
    starts = np.arange(0, length - n + 1, hop)
    return starts[:, None] + np.arange(n)[None, :]


def _pad_centre(x, half, mode):
    return jnp.pad(x, ((0, 0), (half, half)), mode=mode)


def _unpad_centre(gp, half, mode):
    t = gp.shape[-1] - 2 * half
    core = gp[:, half:half + t]
    if mode == "constant" or half == 0:
        return core
    left, right = gp[:, :half], gp[:, half + t:]
    if mode == "reflect":
        core = core.at[:, 1:half + 1].add(left[:, ::-1])
        return core.at[:, t - 1 - half:t - 1].add(right[:, ::-1])
    if mode == "edge":
        core = core.at[:, 0].add(left.sum(-1))
        return core.at[:, -1].add(right.sum(-1))
    raise ValueError(f"pad mode {mode!r}")


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def power_spectrogram(x, window, hop, centre=True, pad_mode="reflect"):
    """
    |STFT|^2, one sided.

    x : (B, T);  window : (n,), n even;  hop : int
    centre : pad by n // 2 on both sides, with pad_mode 'reflect', 'constant' or 'edge'

    returns (B, frames, n // 2 + 1)
    """
    spec, _ = _spectrum(x, window, hop, centre, pad_mode)
    return spec.real ** 2 + spec.imag ** 2


def _spectrum(x, window, hop, centre, pad_mode):
    n = window.shape[0]
    if centre:
        x = _pad_centre(x, n // 2, pad_mode)
    frames = x[:, _frame_index(x.shape[-1], n, hop)]
    return jnp.fft.rfft(frames * window, axis=-1), frames


def _power_fwd(x, window, hop, centre, pad_mode):
    spec, frames = _spectrum(x, window, hop, centre, pad_mode)
    return spec.real ** 2 + spec.imag ** 2, (spec, frames, window, x)


def _power_bwd(hop, centre, pad_mode, res, g):
    spec, frames, window, x = res
    n = window.shape[0]
    # one sided on purpose: every output bin is its own sum over the frame
    full = jnp.zeros(spec.shape[:-1] + (n,), spec.dtype).at[..., :n // 2 + 1].set(g * spec)
    dframe = 2 * n * jnp.fft.ifft(full, axis=-1).real
    dwindow = jnp.sum(dframe * frames, axis=(0, 1))

    half = n // 2 if centre else 0
    length = x.shape[1] + 2 * half
    gp = jnp.zeros((frames.shape[0], length), frames.dtype)
    gp = gp.at[:, _frame_index(length, n, hop)].add(dframe * window)
    return (_unpad_centre(gp, half, pad_mode) if centre else gp), dwindow


power_spectrogram.defvjp(_power_fwd, _power_bwd)


# ---------------------------------------------------------------------------
# envelope follower
# ---------------------------------------------------------------------------

@jax.custom_vjp
def envelope(x, attack, release):
    """
    Peak follower of the rectified signal.

    e[t] = c e[t-1] + (1 - c) |x[t]|,  c = attack while the signal is above the
    envelope and release otherwise.

    x : (..., T);  attack, release : scalars in (0, 1)
    """
    return _follow(x, attack, release)[0]


def _follow(x, attack, release):
    level = jnp.moveaxis(jnp.abs(x), -1, 0)

    def tick(env, lv):
        rising = lv > env
        c = jnp.where(rising, attack, release)
        new = c * env + (1 - c) * lv
        return new, (new, env, rising)

    _, (out, before, rising) = jax.lax.scan(tick, jnp.zeros_like(level[0]), level)
    return jnp.moveaxis(out, 0, -1), (before, rising)


def _envelope_fwd(x, attack, release):
    out, saved = _follow(x, attack, release)
    return out, (x, attack, release, saved)


def _envelope_bwd(res, g):
    x, attack, release, (before, rising) = res
    level = jnp.moveaxis(jnp.abs(x), -1, 0)
    c = jnp.where(rising, attack, release)

    def tick(lam, inp):
        gt, ct = inp
        lam = lam + gt
        return ct * lam, lam

    _, lam = jax.lax.scan(tick, jnp.zeros_like(level[0]), (jnp.moveaxis(g, -1, 0), c), reverse=True)
    dlevel = jnp.moveaxis((1 - c) * lam, 0, -1)
    dc = lam * (before - level)
    d_rise = jnp.sum(jnp.where(rising, dc, 0.0))
    d_fall = jnp.sum(jnp.where(rising, 0.0, dc))
    return dlevel * jnp.sign(x), d_fall, d_rise


envelope.defvjp(_envelope_fwd, _envelope_bwd)


def compressor(x, threshold_db, ratio, attack, release):
    """Feed-forward compressor with a hard knee, x (..., T)."""
    env_db = 20 * jnp.log10(envelope(x, attack, release) + 1e-6)
    over = jnp.maximum(env_db - threshold_db, 0.0)
    return x * 10 ** (-over * (1 - 1 / ratio) / 20)


# ---------------------------------------------------------------------------
# dilated causal convolution (WaveNet)
# ---------------------------------------------------------------------------

def _shift_time(x, k):
    """(B, T, C): row t takes x[t - k]; negative k looks ahead."""
    return jnp.moveaxis(_delay(jnp.moveaxis(x, 1, -1), k), -1, 1)


class CausalConv:
    """Channels-last causal convolution, y[t] = bias + sum_k x[t - (K-1-k) * dilation] @ w[k]."""

    def __init__(self, channels_in, channels_out, kernel_size=2, dilation=1):
        self.shape = (kernel_size, channels_in, channels_out)
        self.dilation = dilation

    def init(self, key):
        k, cin, _ = self.shape
        return {"w": jax.random.normal(key, self.shape) / np.sqrt(k * cin), "b": jnp.zeros(self.shape[-1])}

    def __call__(self, params, x):
        return causal_conv(x, params["w"], params["b"], self.dilation)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def causal_conv(x, w, b, dilation=1):
    """x : (B, T, Cin), w : (K, Cin, Cout), b : (Cout,)"""
    size = w.shape[0]
    return b + sum(_shift_time(x, (size - 1 - k) * dilation) @ w[k] for k in range(size))


def _causal_conv_fwd(x, w, b, dilation):
    return causal_conv(x, w, b, dilation), (x, w)


def _causal_conv_bwd(dilation, res, g):
    x, w = res
    size = w.shape[0]
    dx = sum(_shift_time(g, -(size - 1 - k) * dilation) @ w[k].T for k in range(size))
    dw = jnp.stack([jnp.einsum("bti,bto->io", _shift_time(x, size - 1 - k), g) for k in range(size)])
    return dx, dw, g.sum((0, 1))


causal_conv.defvjp(_causal_conv_fwd, _causal_conv_bwd)


def wavenet_stack(params, x, dilations=(1, 2, 4)):
    """Residual tanh/sigmoid stack, x (B, T, C)."""
    for p, d in zip(params, dilations):
        h = causal_conv(x, p["w"], p["b"], d)
        filt, gate = jnp.split(h, 2, axis=-1)
        x = x + jnp.tanh(filt) * jax.nn.sigmoid(gate)
    return x
