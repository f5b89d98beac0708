"""Half-map statistics, sharpening and exposure weights for electron density maps."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class SharpenOptions(NamedTuple):
    from_halves: bool = True  # correlations come from half maps and are taken to the full map first
    floor: float = 0.0  # correlations at or below this count as no signal


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def sharpened(coeff, tensor, correlation, index, options=SharpenOptions()):
    """Coefficients after anisotropic sharpening and figure-of-merit weighting.

    :param coeff: (M, P) real coefficients of M maps
    :param tensor: (M, 6) displacement tensor xx, yy, zz, xy, xz, yz of each map, A^2
    :param correlation: (P,) correlation at each coefficient
    :param index: (P, 3) reciprocal vectors, 1/A
    :param options: see :class:`SharpenOptions`
    :returns: (M, P)
    """
    growth = jnp.exp(0.25 * _quadratic(tensor, index))
    return coeff * growth * _merit(correlation, options)[0]


def _quadratic(tensor, index):
    x, y, z = index.T
    diagonal = tensor[:, :3] @ jnp.stack([x * x, y * y, z * z])
    return diagonal + 2 * tensor[:, 3:] @ jnp.stack([x * y, x * z, y * z])


def _merit(correlation, options):
    """Weight and its derivative."""
    signal = correlation > options.floor
    f = jnp.where(signal, correlation, 1.0)
    full = 2 * f / (1 + f) if options.from_halves else f
    slope = 2 / (1 + f) ** 2 if options.from_halves else jnp.ones_like(f)
    root = jnp.sqrt(full)
    return jnp.where(signal, root, 0.0), jnp.where(signal, 0.5 * slope / root, 0.0)


@sharpened.defjvp
def _sharpened_jvp(options, primals, tangents):
    coeff, tensor, correlation, index = primals
    t_coeff, t_tensor, t_correlation, t_index = tangents
    growth = jnp.exp(0.25 * _quadratic(tensor, index))
    merit, merit_slope = _merit(correlation, options)
    x, y, z = index.T
    basis = jnp.stack([x * x, y * y, z * z, x * y, x * z, y * z])
    xx, yy, zz, xy, xz, yz = (tensor[:, i, None] for i in range(6))
    along = 2 * (
        (xx * x + xy * y + xz * z) * t_index[:, 0]
        + (xy * x + yy * y + yz * z) * t_index[:, 1]
        + (xz * x + yz * y + zz * z) * t_index[:, 2]
    )
    t_exponent = 0.25 * (t_tensor @ basis + along)
    out = coeff * growth * merit
    return out, growth * (merit * t_coeff + coeff * merit_slope * t_correlation) + out * t_exponent


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def ring_correlation(half_a, half_b, ring, num_rings):
    """Correlation of two half maps in rings of equal frequency.

    :param half_a: (P, 2) real and imaginary parts
    :param half_b: (P, 2)
    :param ring: (P,) ring number of each coefficient; numbers outside ``range(num_rings)`` are left out
    :param num_rings: length of the result
    :returns: (num_rings,); zero for a ring with no coefficients or no power
    """
    return _ring_terms(half_a, half_b, ring, num_rings)[0]


def _ring_terms(a, b, ring, num_rings):
    inside = (ring >= 0) & (ring < num_rings)
    slot = jnp.where(inside, ring, num_rings)

    def total(x):
        return jax.ops.segment_sum(x.sum(-1), slot, num_rings + 1)[:-1]

    power_a, power_b, cross = total(a * a), total(b * b), total(a * b)
    product = power_a * power_b
    live = product > 0
    norm = jnp.sqrt(jnp.where(live, product, 1.0))
    return jnp.where(live, cross / norm, 0.0), power_a, power_b, norm, live, inside


def _ring_fwd(half_a, half_b, ring, num_rings):
    corr, pa, pb, norm, live, inside = _ring_terms(half_a, half_b, ring, num_rings)
    return corr, (half_a, half_b, ring, corr, pa, pb, norm, live, inside)


def _ring_bwd(num_rings, res, g):
    a, b, ring, corr, pa, pb, norm, live, inside = res
    g = jnp.where(live, g, 0.0)
    pick = jnp.clip(ring, 0, num_rings - 1)

    def spread(x):
        return jnp.where(inside, x[pick], 0.0)[:, None]

    across = spread(g / norm)
    self_a = spread(g * corr / jnp.where(live, pa, 1.0))
    self_b = spread(g * corr / jnp.where(live, pb, 1.0))
    return across * b - self_a * a, across * a - self_b * b, None


ring_correlation.defvjp(_ring_fwd, _ring_bwd)


def _accumulated(dose, reference):
    total = jnp.cumsum(dose)
    return total - 0.5 * dose if reference == "mid" else total


def _critical(curve, freq):
    a, b, c = curve
    return a * freq**b + c


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def dose_filtered_sum(frames, dose, curve, freq, reference="end"):
    """Sum of movie frames, weighted for radiation damage and renormalised for the noise.

    :param frames: (F, P) coefficients of the aligned frames
    :param dose: (F,) exposure of each frame, e/A^2
    :param curve: (3,) a, b, c of the critical dose ``a * k**b + c``
    :param freq: (P,) spatial frequencies, above zero
    :param reference: "end" or "mid", the moment of a frame at which the accumulated dose is read
    :returns: (P,)
    """
    return _dose_fwd(frames, dose, curve, freq, reference)[0]


def _dose_fwd(frames, dose, curve, freq, reference):
    received = _accumulated(dose, reference)
    critical = _critical(curve, freq)
    q = jnp.exp(-0.5 * received[:, None] / critical)
    norm = jnp.sqrt((q * q).sum(0))
    out = (q * frames).sum(0) / norm
    return out, (frames, dose, curve, freq, received, critical, q, norm, out)


def _dose_bwd(reference, res, g):
    frames, dose, curve, freq, received, critical, q, norm, out = res
    a, b, _ = curve
    g_frames = g * q / norm
    g_q = g * (frames / norm - out * q / norm**2)
    g_exponent = g_q * q
    g_received = -0.5 * (g_exponent / critical).sum(1)
    g_dose = jnp.cumsum(g_received[::-1])[::-1]
    g_critical = 0.5 * (g_exponent * received[:, None]).sum(0) / critical**2
    power = freq**b
    g_curve = jnp.stack(
        [
            (g_critical * power).sum(),
            (g_critical * a * power * jnp.log(freq)).sum(),
            g_critical.sum(),
        ]
    )
    g_freq = g_critical * a * b * freq ** (b - 1)
    return g_frames, g_dose, g_curve, g_freq


dose_filtered_sum.defvjp(_dose_fwd, _dose_bwd)
