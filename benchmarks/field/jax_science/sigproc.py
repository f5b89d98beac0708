"""
1-D signal processing blocks with hand-written adjoints.

Layout is channels first, (batch, channels, time), unless noted otherwise.
"""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


# Convolution -----------------------------------------------------------------

@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5))
def conv1d(x, w, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation along time.

    Args:
        x: (B, C_in, L)
        w: (C_out, C_in // groups, K)
        stride, padding, dilation, groups: ints, as in ``torch.nn.functional.conv1d``

    Returns:
        (B, C_out, T) with ``T = (L + 2*padding - dilation*(K-1) - 1) // stride + 1``
    """
    return lax.conv_general_dilated(
        x, w, window_strides=(stride,), padding=[(padding, padding)],
        rhs_dilation=(dilation,), feature_group_count=groups,
        dimension_numbers=("NCH", "OIH", "NCH"))


def _conv1d_fwd(x, w, stride, padding, dilation, groups):
    return conv1d(x, w, stride, padding, dilation, groups), (x, w)


def _conv1d_bwd(stride, padding, dilation, groups, res, g):
    x, w = res
    B, C, L = x.shape
    O, _, K = w.shape
    T = g.shape[-1]
    taps = stride * jnp.arange(T)[:, None] + dilation * jnp.arange(K)[None]  # (T, K)
    xp = jnp.pad(x, ((0, 0), (0, 0), (padding, padding)))
    frames = xp[:, :, taps].reshape(B, groups, C // groups, T, K)
    gg = g.reshape(B, groups, O // groups, T)
    wg = w.reshape(groups, O // groups, C // groups, K)

    dw = jnp.einsum("bgot,bgctk->gock", gg, frames).reshape(w.shape)
    dframes = jnp.einsum("bgot,gock->bgctk", gg, wg).reshape(B, C, T, K)
    dxp = jnp.zeros_like(xp).at[:, :, taps].add(dframes)
    return dxp[:, :, padding:padding + L], dw


conv1d.defvjp(_conv1d_fwd, _conv1d_bwd)


# Cumulative gain -------------------------------------------------------------

@partial(jax.custom_vjp, nondiff_argnums=(1,))
def cumulative_gain(x, axis=0):
    """Running product of positive gains along ``axis`` (any number of dimensions)."""
    return jnp.cumprod(x, axis=axis)


def _gain_fwd(x, axis):
    y = jnp.cumprod(x, axis=axis)
    return y, (x, y)


def _gain_bwd(axis, res, g):
    x, y = res
    acc = jnp.cumsum((g * y)[::-1], axis=axis)[::-1]
    return (acc / x,)


cumulative_gain.defvjp(_gain_fwd, _gain_bwd)


# Interpolation ---------------------------------------------------------------

@jax.custom_vjp
def lerp_table(x, xp, fp):
    """Piecewise-linear lookup, like ``np.interp``.

    ``x`` has any shape; ``xp`` (K,) is strictly increasing and ``fp`` is (K,).  Queries outside
    of the table are answered with the first/last value.
    """
    return jnp.interp(x, xp, fp)


def _lerp_fwd(x, xp, fp):
    i = jnp.clip(jnp.searchsorted(xp, x, side="right") - 1, 0, xp.shape[0] - 2)
    h = xp[i + 1] - xp[i]
    t = jnp.clip((x - xp[i]) / h, 0.0, 1.0)
    slope = (fp[i + 1] - fp[i]) / h
    return fp[i] + t * h * slope, (i, t, slope, xp, fp)


def _lerp_bwd(res, g):
    i, t, slope, xp, fp = res
    gx = g * slope
    gxp = jnp.zeros_like(xp).at[i].add(-gx * (1 - t)).at[i + 1].add(-gx * t)
    gfp = jnp.zeros_like(fp).at[i].add(g * (1 - t)).at[i + 1].add(g * t)
    return gx, gxp, gfp


lerp_table.defvjp(_lerp_fwd, _lerp_bwd)


# Spectrum --------------------------------------------------------------------

@jax.custom_vjp
def periodogram(frames, window):
    """One-sided periodogram |rfft(window * frame)|^2 / n.

    frames: (..., n) real, window: (n,)  ->  (..., n // 2 + 1)
    """
    X = jnp.fft.rfft(frames * window, axis=-1)
    return (X.real**2 + X.imag**2) / frames.shape[-1]


def _periodogram_fwd(frames, window):
    X = jnp.fft.rfft(frames * window, axis=-1)
    return (X.real**2 + X.imag**2) / frames.shape[-1], (frames, window, X)


def _periodogram_bwd(res, g):
    frames, window, X = res
    n = frames.shape[-1]
    # irfft counts the paired bins twice, the end bins once
    G = (g * X).at[..., 0].multiply(2.0).at[..., -1].multiply(2.0)
    gs = jnp.fft.irfft(G, n=n, axis=-1)
    g_window = (gs * frames).reshape(-1, n).sum(0)
    return gs * window, g_window


periodogram.defvjp(_periodogram_fwd, _periodogram_bwd)


class LearnedFrontend:
    """Log-spectrogram with a trainable window, followed by a grouped temporal convolution."""

    def __init__(self, frame=64, hop=16, kernel=3):
        self.frame, self.hop, self.kernel = frame, hop, kernel

    def init(self, key):
        bins = self.frame // 2 + 1
        return {
            "window": jnp.hanning(self.frame),
            "kernel": 0.1 * jax.random.normal(key, (bins, 1, self.kernel)),
        }

    def __call__(self, params, signal):
        # signal: (B, L)
        n = (signal.shape[-1] - self.frame) // self.hop + 1
        idx = self.hop * jnp.arange(n)[:, None] + jnp.arange(self.frame)
        spec = jnp.log1p(periodogram(signal[:, idx], params["window"]))
        spec = jnp.swapaxes(spec, 1, 2)
        return conv1d(spec, params["kernel"], 1, self.kernel // 2, 1, spec.shape[1])


if __name__ == "__main__":
    fe = LearnedFrontend()
    p = fe.init(jax.random.PRNGKey(0))
    s = jax.random.normal(jax.random.PRNGKey(1), (2, 400))
    print(fe(p, s).shape)
    print(jax.tree_util.tree_map(jnp.shape, jax.grad(lambda p: fe(p, s).sum())(p)))
