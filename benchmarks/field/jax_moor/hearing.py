"""Psychoacoustic features: auditory filters, gated loudness, Teager energy."""

import math
from functools import partial
from typing import Sequence, Union

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array
Scalar = Union[float, Array]

_DB = 10.0 / math.log(10.0)


def erb(freq: Scalar) -> Scalar:
    """Equivalent rectangular bandwidth in Hz (Glasberg & Moore)."""
    return 24.7 * (4.37e-3 * freq + 1.0)


@jax.custom_jvp
def roex_filter(freq, centre, p_low, p_high, floor=0.0):
    """Rounded-exponential auditory filter weight.

    ``W = (1 - floor) (1 + p g) exp(-p g) + floor`` with the normalised
    deviation ``g = |freq - centre| / centre``; ``p`` is `p_low` below the
    centre and `p_high` above.

    Args:
        freq: Probe frequencies in Hz.
        centre: Centre frequencies in Hz, positive. Broadcasts against `freq`.
        p_low: Slope of the lower skirt, positive.
        p_high: Slope of the upper skirt, positive.
        floor: Dynamic-range limit of the filter, in [0, 1).

    Returns:
        Power weights in (0, 1], with the broadcast shape.
    """
    g = jnp.abs(freq - centre) / centre
    p = jnp.where(freq < centre, p_low, p_high)
    return (1.0 - floor) * (1.0 + p * g) * jnp.exp(-p * g) + floor


@roex_filter.defjvp
def _roex_jvp(primals, tangents):
    freq, centre, p_low, p_high, floor = primals
    t_freq, t_centre, t_low, t_high, t_floor = tangents
    below = freq < centre
    g = jnp.abs(freq - centre) / centre
    p = jnp.where(below, p_low, p_high)
    decay = jnp.exp(-p * g)
    skirt = (1.0 + p * g) * decay

    t_g = jnp.sign(freq - centre) * (t_freq / centre - freq * t_centre / centre**2)
    t_p = jnp.where(below, t_low, t_high)
    out = (1.0 - floor) * skirt + floor
    tangent = (
        -(1.0 - floor) * p**2 * g * decay * t_g
        - p * g**2 * decay * t_p
        + (1.0 - skirt) * t_floor
    )
    return out, tangent


def excitation(spectrum, freqs, centres, p_low, p_high, floor=0.0):
    """Excitation pattern ``(..., len(centres))`` of a power spectrum."""
    w = roex_filter(freqs[None, :], centres[:, None], p_low[:, None], p_high[:, None], floor)
    return jnp.einsum("...f,cf->...c", spectrum, w)


# -- loudness -----------------------------------------------------------------


def _block_index(num: int, block: int, hop: int) -> np.ndarray:
    starts = np.arange(0, num - block + 1, hop)
    return starts[:, None] + np.arange(block)[None, :]


def _gates(power, abs_gate, rel_gate):
    keep = power > 10.0 ** (abs_gate / 10.0)
    ref = jnp.sum(jnp.where(keep, power, 0.0), -1, keepdims=True)
    ref = ref / jnp.maximum(keep.sum(-1, keepdims=True), 1)
    return keep & (power > ref * 10.0 ** (rel_gate / 10.0))


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5))
def gated_loudness(signal, channel_gain, block, hop, abs_gate=-70.0, rel_gate=-10.0):
    """Integrated loudness with an absolute and a relative gate.

    The signal is cut in blocks, the gain-weighted mean square of every block
    is compared with the two gates, and the loudness is the level of the mean
    power over the blocks that pass both.  The choice of the blocks is piecewise
    constant and contributes no gradient.

    Args:
        signal: ``(..., channels, samples)``, already K-weighted.
        channel_gain: ``(channels,)`` power gains.
        block: Block length in samples.
        hop: Hop in samples; blocks overlap when it is less than `block`.
        abs_gate: Absolute gate in dB.
        rel_gate: Relative gate in dB below the mean of the first pass.

    Returns:
        Loudness in dB, shape ``(...)``; `abs_gate` where no block passes.
    """
    return _loudness(signal, channel_gain, block, hop, abs_gate, rel_gate)[0]


def _loudness(signal, channel_gain, block, hop, abs_gate, rel_gate):
    idx = _block_index(signal.shape[-1], block, hop)
    per_channel = jnp.mean(signal[..., idx] ** 2, axis=-1)  # (..., C, K)
    power = jnp.einsum("c,...ck->...k", channel_gain, per_channel)
    keep = _gates(power, abs_gate, rel_gate)
    count = keep.sum(-1)
    mean = jnp.sum(jnp.where(keep, power, 0.0), -1) / jnp.maximum(count, 1)
    any_kept = count > 0
    level = jnp.where(any_kept, _DB * jnp.log(jnp.where(any_kept, mean, 1.0)), abs_gate)
    return level, (signal, channel_gain, per_channel, keep, mean)


def _loudness_bwd(block, hop, abs_gate, rel_gate, res, g):
    signal, channel_gain, per_channel, keep, mean = res
    idx = _block_index(signal.shape[-1], block, hop)
    safe = jnp.where(mean > 0, mean, 1.0)
    g_mean = jnp.where(mean > 0, g * _DB / safe, 0.0)
    g_power = jnp.where(keep, g_mean[..., None] / keep.shape[-1], 0.0)  # (..., K)
    lead = tuple(range(g_power.ndim - 1))
    g_gain = jnp.sum(g_power[..., None, :] * per_channel, axis=lead + (-1,))
    g_block = channel_gain[:, None] * g_power[..., None, :]  # (..., C, K)
    contrib = (2.0 / block) * g_block[..., None] * signal[..., idx]
    g_signal = jnp.zeros_like(signal).at[..., idx].add(contrib)
    return g_signal, g_gain


gated_loudness.defvjp(_loudness, _loudness_bwd)


# -- Teager -------------------------------------------------------------------


def _ahead(x, lag, edge):
    """x[n + lag] along the last axis."""
    if edge == "wrap":
        return jnp.roll(x, -lag, axis=-1)
    pad = [(0, 0)] * (x.ndim - 1) + [(0, lag)]
    return jnp.pad(x, pad)[..., lag:]


def _behind(x, lag, edge):
    """x[n - lag] along the last axis."""
    if edge == "wrap":
        return jnp.roll(x, lag, axis=-1)
    pad = [(0, 0)] * (x.ndim - 1) + [(lag, 0)]
    return jnp.pad(x, pad)[..., : x.shape[-1]]


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def teager_energy(x, lag=1, edge="zero"):
    """Teager-Kaiser energy ``x[n]^2 - x[n-lag] x[n+lag]`` along the last axis.

    Args:
        x: Real signal ``(..., T)``.
        lag: Positive lag in samples.
        edge: ``"zero"`` takes samples outside as zero, ``"wrap"`` as periodic.
    """
    return x * x - _behind(x, lag, edge) * _ahead(x, lag, edge)


def _teager_fwd(x, lag, edge):
    return teager_energy(x, lag, edge), x


def _teager_bwd(lag, edge, x, g):
    gx = 2.0 * g * x
    gx = gx - _ahead(g * _ahead(x, lag, edge), lag, edge)
    gx = gx - _behind(g * _behind(x, lag, edge), lag, edge)
    return (gx,)


teager_energy.defvjp(_teager_fwd, _teager_bwd)


def teager_features(x: Array, lags: Sequence[int] = (1, 2, 4), eps: float = 1e-6) -> Array:
    """Log of the mean absolute Teager energy at a few lags."""
    feats = [jnp.log(jnp.mean(jnp.abs(teager_energy(x, k, "wrap")), -1) + eps) for k in lags]
    return jnp.stack(feats, axis=-1)
