from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def _frame_index(length, size, hop):
    count = 1 + (length - size) // hop
    return np.arange(count)[:, None] * hop + np.arange(size)[None, :]


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def stft_power(signal, window, hop=None):
    """Power spectrogram.

    :param signal: real, ``(..., samples)``; a tail shorter than a frame is dropped.
    :param window: real taper ``(size,)`` of any length, may be learned.
    :param hop: step between frames, half of the window by default.
    :return: ``(..., frames, size // 2 + 1)``.
    """
    return _stft_power_fwd(signal, window, hop)[0]


def _stft_power_fwd(signal, window, hop):
    size = window.shape[0]
    hop = hop or max(size // 2, 1)
    frames = signal[..., _frame_index(signal.shape[-1], size, hop)]
    spectrum = jnp.fft.rfft(frames * window, axis=-1)
    power = spectrum.real**2 + spectrum.imag**2
    return power, (signal, window, spectrum)


def _stft_power_bwd(hop, res, g):
    signal, window, spectrum = res
    size = window.shape[0]
    hop = hop or max(size // 2, 1)
    index = _frame_index(signal.shape[-1], size, hop)
    # the purely real bins have no mirror image in the half spectrum
    fold = np.ones(size // 2 + 1)
    fold[0] = fold[-1] = 2.0
    d_tapered = size * jnp.fft.irfft(g * spectrum * jnp.asarray(fold, g.dtype), n=size, axis=-1)
    d_signal = jnp.zeros_like(signal).at[..., index].add(d_tapered * window)
    frames = signal[..., index]
    d_window = jnp.sum(d_tapered * frames, axis=tuple(range(frames.ndim - 1)))
    return d_signal, d_window


stft_power.defvjp(_stft_power_fwd, _stft_power_bwd)


def _forward_differences(image):
    down = jnp.diff(image, axis=-2, append=image[..., -1:, :])
    across = jnp.diff(image, axis=-1, append=image[..., :, -1:])
    return down, across


def _negative_divergence(p, q):
    # p, q are zero wherever the forward difference has no right neighbour
    dp = jnp.roll(p.at[..., -1, :].set(0.0), 1, axis=-2) - p.at[..., -1, :].set(0.0)
    dq = jnp.roll(q.at[..., :, -1].set(0.0), 1, axis=-1) - q.at[..., :, -1].set(0.0)
    return dp + dq


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _tv(image, eps, isotropic):
    return _tv_fwd(image, eps, isotropic)[0]


def _tv_fwd(image, eps, isotropic):
    down, across = _forward_differences(image)
    if isotropic:
        mag = jnp.sqrt(down**2 + across**2 + eps**2)
        value = jnp.sum(mag - eps, axis=(-2, -1))
        return value, (down / mag, across / mag)
    mag_d, mag_a = jnp.sqrt(down**2 + eps**2), jnp.sqrt(across**2 + eps**2)
    value = jnp.sum(mag_d + mag_a - 2 * eps, axis=(-2, -1))
    return value, (down / mag_d, across / mag_a)


def _tv_bwd(eps, isotropic, res, g):
    p, q = res
    return (g[..., None, None] * _negative_divergence(p, q),)


_tv.defvjp(_tv_fwd, _tv_bwd)


def total_variation(image, *, eps=1e-3, isotropic=True):
    return _tv(image, float(eps), bool(isotropic))


def make_nudft(modes, isign=-1):
    """Direct non-uniform Fourier transform (type 1) for fixed modes.

    :param modes: integer or real frequencies ``(k, dim)``.
    :param isign: sign of the exponent, -1 or +1.
    :return: ``transform(points, values)`` with real ``points (n, dim)`` and real or complex
        ``values (..., n)``, giving ``sum_j values[..., j] exp(isign * 1j * modes @ points[j])``
        of shape ``(..., k)``.
    """
    modes = np.asarray(modes, dtype=np.float64)

    def kernel(points):
        phase = points @ jnp.asarray(modes, points.dtype).T
        return jnp.exp(isign * 1j * phase)

    @jax.custom_vjp
    def transform(points, values):
        return values @ kernel(points)

    def transform_fwd(points, values):
        return transform(points, values), (points, values)

    def transform_bwd(res, g):
        points, values = res
        basis = kernel(points)
        d_values = g @ basis.T
        if not jnp.iscomplexobj(values):
            d_values = d_values.real
        freq = jnp.asarray(modes, points.dtype)
        slopes = jnp.einsum("...k,kd,nk->...nd", g, freq, basis)
        moment = (isign * 1j * values[..., None] * slopes).real
        d_points = jnp.sum(moment, axis=tuple(range(moment.ndim - 2)))
        return d_points, d_values

    transform.defvjp(transform_fwd, transform_bwd)
    return transform
