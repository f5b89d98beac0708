"""Differentiable pieces of an OFDM receiver: offset removal, combining, demapping and quality figures.

All the complex arrays follow JAX's own convention for gradients of complex numbers.
"""
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

TWO_PI = 2.0 * np.pi


def qam_table(order):
    """Gray-labelled square QAM (4, 16 or 64) of unit mean power: points (M,) and bits (M, B)."""
    half = int(np.log2(order)) // 2
    side = 2 ** half
    levels = {}
    for i in range(side):
        gray = i ^ (i >> 1)
        levels[tuple(int(c) for c in format(gray, f"0{half}b"))] = 2 * i - side + 1
    labels = list(product((0, 1), repeat=2 * half))
    pts = np.array([levels[b[:half]] + 1j * levels[b[half:]] for b in labels])
    return pts / np.sqrt(np.mean(np.abs(pts) ** 2)), np.array(labels)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def carrier_rotate(samples, cfo, start, n_fft):
    """Take a carrier frequency offset off a burst of time samples.

    Parameters
    ----------
    samples : complex array, shape (..., n)
        Received baseband samples.
    cfo : real array, shape (...)
        Offset of each burst, in subcarrier spacings.
    start : int
        Index of the first sample, counted from the start of the frame.
    n_fft : int
        FFT length.

    Returns
    -------
    complex array, shape (..., n)
    """
    n = (jnp.arange(samples.shape[-1]) + start) / n_fft
    return samples * jnp.exp(-1j * TWO_PI * cfo[..., None] * n)


def _rotate_fwd(samples, cfo, start, n_fft):
    n = (jnp.arange(samples.shape[-1]) + start) / n_fft
    rot = jnp.exp(-1j * TWO_PI * cfo[..., None] * n)
    out = samples * rot
    return out, (out, rot, n)


def _rotate_bwd(start, n_fft, res, ct):
    out, rot, n = res
    slope = TWO_PI * n * jnp.imag(jnp.conj(ct) * out)
    return ct * rot, jnp.sum(slope, axis=-1)


carrier_rotate.defvjp(_rotate_fwd, _rotate_bwd)


@jax.custom_vjp
def mrc_equalise(rx, chan, noise_var):
    """Maximum-ratio combining of the antennas with an MMSE denominator.

    Parameters
    ----------
    rx : complex array, shape (symbols, antennas, subcarriers)
    chan : complex array, shape (antennas, subcarriers)
        Channel estimate, held for all the symbols of the slot.
    noise_var : real array, shape (subcarriers,)

    Returns
    -------
    complex array, shape (symbols, subcarriers)
    """
    return _combine_antennas(rx, chan, noise_var)[0]


def _combine_antennas(rx, chan, noise_var):
    den = jnp.sum(jnp.abs(chan) ** 2, axis=0) + noise_var
    return jnp.sum(jnp.conj(chan) * rx, axis=1) / den, den


def _mrc_fwd(rx, chan, noise_var):
    est, den = _combine_antennas(rx, chan, noise_var)
    return est, (rx, chan, est, den)


def _mrc_bwd(res, ct):
    rx, chan, est, den = res
    num_bar = ct / den
    den_bar = -jnp.sum(jnp.real(num_bar * est), axis=0)
    rx_bar = num_bar[:, None, :] * jnp.conj(chan)
    chan_bar = jnp.conj(jnp.einsum("sk,sak->ak", num_bar, rx)) + 2.0 * den_bar * jnp.conj(chan)
    return rx_bar, chan_bar, den_bar


mrc_equalise.defvjp(_mrc_fwd, _mrc_bwd)


@jax.custom_vjp
def soft_demap(sym, points, noise_var, bits):
    """Exact log-likelihood ratios of the bits of each symbol, log P(0)/P(1).

    Parameters
    ----------
    sym : complex array, shape (...)
    points : complex array, shape (M,)
        The constellation, which may be learned.
    noise_var : real array, shape (...)
    bits : int array, shape (M, B)
        Label of each point.

    Returns
    -------
    real array, shape (..., B)
    """
    return _demap_fwd(sym, points, noise_var, bits)[0]


def _demap_fwd(sym, points, noise_var, bits):
    gap = sym[..., None] - points
    metric = (-jnp.abs(gap) ** 2 / noise_var[..., None])[..., None]
    zeros = jnp.where(bits == 0, metric, -jnp.inf)
    ones = jnp.where(bits == 1, metric, -jnp.inf)
    llr = jax.nn.logsumexp(zeros, axis=-2) - jax.nn.logsumexp(ones, axis=-2)
    lean = jax.nn.softmax(zeros, axis=-2) - jax.nn.softmax(ones, axis=-2)
    return llr, (gap, lean, noise_var)


def _demap_bwd(res, ct):
    gap, lean, noise_var = res
    pull = jnp.einsum("...mb,...b->...m", lean, ct)
    gap_bar = -2.0 * pull * jnp.conj(gap) / noise_var[..., None]
    lead = tuple(range(gap.ndim - 1))
    noise_bar = jnp.sum(pull * jnp.abs(gap) ** 2, axis=-1) / noise_var ** 2
    return jnp.sum(gap_bar, axis=-1), -jnp.sum(gap_bar, axis=lead), noise_bar, None


soft_demap.defvjp(_demap_fwd, _demap_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def evm(sym, ref, active, norm):
    """Error vector magnitude of each OFDM symbol (a ratio, not per cent).

    Parameters
    ----------
    sym, ref : complex arrays, shape (..., subcarriers)
        Equalised symbols, and the points that they are held against; both are trained in the
        end-to-end link.
    active : bool array, shape (..., subcarriers)
        False on guard bands and on the DC carrier.
    norm : {"average", "peak"}
        Reference power: the mean over the active carriers, or the largest of them.

    Returns
    -------
    real array, shape (...)
    """
    return _evm_fwd(sym, ref, active, norm)[0]


def _evm_fwd(sym, ref, active, norm):
    m = active.astype(sym.real.dtype)
    n = jnp.sum(m, axis=-1)
    power = m * jnp.abs(ref) ** 2
    scale = jnp.sum(power, axis=-1) / n if norm == "average" else jnp.max(power, axis=-1)
    value = jnp.sqrt(jnp.sum(m * jnp.abs(sym - ref) ** 2, axis=-1) / n / scale)
    return value, (sym, ref, m, n, scale, value)


def _evm_bwd(norm, res, ct):
    sym, ref, m, n, scale, value = res
    err_bar = ct / (2.0 * value * scale)
    sym_bar = 2.0 * m * jnp.conj(sym - ref) * (err_bar / n)[..., None]
    ref_bar = -sym_bar
    if norm == "average":
        scale_bar = -ct * value / (2.0 * scale)
        ref_bar = ref_bar + 2.0 * m * jnp.conj(ref) * (scale_bar / n)[..., None]
    return sym_bar, ref_bar, None


evm.defvjp(_evm_fwd, _evm_bwd)


def receive(samples, cfo, chan, noise_var, points, bits, n_fft):
    """Samples (symbols, antennas, n_fft) to LLRs (symbols, n_fft, B); cfo is (symbols, antennas)."""
    grid = jnp.fft.fft(carrier_rotate(samples, cfo, 0, n_fft), axis=-1) / np.sqrt(n_fft)
    est = mrc_equalise(grid, chan, noise_var)
    return soft_demap(est, points, jnp.broadcast_to(noise_var, est.shape), bits)
