"""Magma and fall-deposit relations used in the eruption source inversion."""
from functools import partial
import math

import jax
import jax.numpy as jnp

LN10 = math.log(10.0)
MAX_PACKING = 0.60


def _fold(ct, shape):
    """Reduce a cotangent to the (broadcast) shape of its primal."""
    extra = ct.ndim - len(shape)
    if extra:
        ct = ct.sum(axis=tuple(range(extra)))
    thin = tuple(i for i, n in enumerate(shape) if n == 1 and ct.shape[i] != 1)
    return ct.sum(axis=thin, keepdims=True) if thin else ct


def _vft_log10(a, b, c, temperature, crystals):
    melt = a + b / (temperature - c)
    return melt - 2.5 * jnp.log1p(-crystals / MAX_PACKING) / LN10


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def vft_viscosity(a, b, c, temperature, crystals, log10=True):
    """Vogel-Fulcher-Tammann melt viscosity with Einstein-Roscoe crystals.

    Args:
      a, b, c: VFT coefficients (Pa s in log10, K, K); any shapes that
        broadcast against ``temperature``, typically ``(melts,)``.
      temperature: kelvin, everywhere larger than ``c``.
      crystals: volume fraction in ``[0, MAX_PACKING)``, broadcastable too.
      log10: return the decimal logarithm (default) or the viscosity itself.

    Returns:
      array of the common broadcast shape.
    """
    y = _vft_log10(a, b, c, temperature, crystals)
    return y if log10 else jnp.exp(LN10 * y)


def _vft_fwd(a, b, c, temperature, crystals, log10):
    y = _vft_log10(a, b, c, temperature, crystals)
    out = y if log10 else jnp.exp(LN10 * y)
    return out, (a, b, c, temperature, crystals, out)


def _vft_bwd(log10, res, g):
    a, b, c, temperature, crystals, out = res
    if not log10:
        g = g * LN10 * out
    inv = 1.0 / (temperature - c)
    slope = b * inv * inv
    d_crystals = 2.5 / (LN10 * (MAX_PACKING - crystals))
    grads = (g, g * inv, g * slope, -g * slope, g * d_crystals)
    primals = (a, b, c, temperature, crystals)
    return tuple(_fold(d, jnp.shape(p)) for d, p in zip(grads, primals))


vft_viscosity.defvjp(_vft_fwd, _vft_bwd)


# --- fall deposits -------------------------------------------------------

def _segments(breaks, dtype):
    start = jnp.asarray(breaks, dtype)
    width = jnp.diff(start, append=jnp.inf)
    return start, width


def _isopach(t0, decay, root_area, breaks):
    start, width = _segments(breaks, root_area.dtype)
    run = jnp.clip(root_area[..., None] - start, 0.0, width)
    return t0 * jnp.exp(-(run * decay).sum(-1))


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def thickness_isopach(t0, decay, root_area, breaks=(0.0,)):
    """Continuous piecewise-exponential thinning of deposit thickness against sqrt(isopach area).

    t0: scalar; decay: (segments,) per km; root_area: any shape, >= 0; breaks: tuple of segment
    starts in km, the first one 0, as many as there are decays.
    """
    return _isopach(t0, decay, root_area, breaks)


def _isopach_fwd(t0, decay, root_area, breaks):
    thick = _isopach(t0, decay, root_area, breaks)
    return thick, (t0, decay, root_area, thick)


def _isopach_bwd(breaks, res, g):
    t0, decay, root_area, thick = res
    start, _ = _segments(breaks, root_area.dtype)
    seg = jnp.searchsorted(start, root_area, side="right") - 1
    gt = g * thick
    d_decay = jnp.zeros_like(decay).at[seg].add(-gt * (root_area - start[seg]))
    return gt.sum() / t0, d_decay, -gt * decay[seg]


thickness_isopach.defvjp(_isopach_fwd, _isopach_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def grain_mix_density(mass, density, axis=-1):
    return mass_mean(mass, density, axis)[0]


def mass_mean(mass, density, axis):
    mass, density = jnp.broadcast_arrays(mass, density)
    vol = (mass / density).sum(axis, keepdims=True)
    mix = mass.sum(axis, keepdims=True) / vol
    return jnp.squeeze(mix, axis), (mix, vol)


def _mix_fwd(mass, density, axis):
    out, (mix, vol) = mass_mean(mass, density, axis)
    return out, (mass, density, mix, vol)


def _mix_bwd(axis, res, g):
    mass, density, mix, vol = res
    g = jnp.expand_dims(g, axis) / vol
    share = mix / density
    return (_fold(g * (1.0 - share) + 0 * mass, mass.shape),
            _fold(g * share * mass / density, density.shape))


grain_mix_density.defvjp(_mix_fwd, _mix_bwd)
