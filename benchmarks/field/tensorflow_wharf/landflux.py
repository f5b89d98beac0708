"""Land-surface flux closures used by the catchment calibration runs.

All functions work on ``(time, cell)`` fields.  The derivatives are written by
hand: the calibration evaluates them a few hundred thousand times and the
traced versions kept too many intermediates alive.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

VPD_FLOOR = 0.05  # kPa, below it the optimality closure is not defined
MOLAR_RATIO = 1.6  # H2O : CO2 diffusivity
KARMAN = 0.41
DISPLACEMENT = 2.0 / 3.0
ROUGHNESS = 0.1


@dataclasses.dataclass
class LandParameters:
    height: tf.Variable  # (cell,)   canopy height, m
    g0: tf.Variable  # (pft,)    residual conductance
    g1: tf.Variable  # (pft,)    kPa**0.5
    wilt: tf.Variable  # (layer,)
    critical: tf.Variable  # (layer,)
    roots: tf.Variable  # (layer,)  relative root mass

    def trainable(self):
        return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _like(grad, ref, other_shape):
    """Sum ``grad`` over the axes along which ``ref`` was broadcast."""
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(ref), s1=other_shape)
    return tf.reshape(tf.reduce_sum(grad, axis=axes), tf.shape(ref))


@tf.custom_gradient
def aerodynamic_conductance(wind, height, level):
    """Neutral aerodynamic conductance over a canopy.

    Parameters
    ----------
    wind : tf.Tensor, (time, cell) or broadcastable
        Wind speed at ``level``.
    height : tf.Tensor, scalar, (cell,) or (time, cell)
        Canopy height, 0 < height < level.
    level : tf.Tensor, scalar, (cell,) or (time, cell)
        Measurement height.

    Returns
    -------
    tf.Tensor
        ``k**2 u / ln((z - d) / z0)**2`` with ``d = 2/3 h`` and ``z0 = h / 10``.
    """
    free = level - DISPLACEMENT * height
    lg = tf.math.log(free / (ROUGHNESS * height))
    per_wind = KARMAN**2 / lg**2
    ga = per_wind * wind

    def grad(dy):
        full = tf.shape(dy)
        d_free = -2.0 * dy * ga / (lg * free)
        # level = free + d: both pieces of the logarithm over one denominator
        d_height = 2.0 * dy * ga * level / (lg * height * free)
        return (
            _like(dy * per_wind, wind, full),
            _like(d_height, height, full),
            _like(d_free, level, full),
        )

    return ga, grad


@tf.custom_gradient
def medlyn_conductance(assim, vpd, co2, g0, g1, pft):
    """Stomatal conductance (Medlyn et al. 2011) on a mosaic of plant types.

    Parameters
    ----------
    assim : tf.Tensor, (time, cell)
        Net assimilation.
    vpd : tf.Tensor, (time, cell)
        Vapour pressure deficit in kPa, any value >= 0.  Values under
        ``VPD_FLOOR`` are treated as ``VPD_FLOOR``.
    co2 : tf.Tensor, scalar
    g0, g1 : tf.Tensor, (pft,)
    pft : tf.Tensor of int, (cell,)
        Plant type of every cell.
    """
    deficit = tf.maximum(vpd, tf.cast(VPD_FLOOR, vpd.dtype))
    root = tf.sqrt(deficit)
    slope = tf.gather(g1, pft)
    ratio = assim / co2
    factor = MOLAR_RATIO * (1.0 + slope / root)
    n_pft = tf.shape(g0)[0]

    def grad(dy):
        d_assim = dy * factor / co2
        d_vpd = -0.5 * MOLAR_RATIO * dy * ratio * slope / (deficit * root)
        d_co2 = -tf.reduce_sum(dy * factor * ratio) / co2
        per_cell0 = tf.reduce_sum(dy, axis=0)
        per_cell1 = MOLAR_RATIO * tf.reduce_sum(dy * ratio / root, axis=0)
        d_g0 = tf.math.unsorted_segment_sum(per_cell0, pft, n_pft)
        d_g1 = tf.math.unsorted_segment_sum(per_cell1, pft, n_pft)
        return d_assim, d_vpd, d_co2, d_g0, d_g1, None

    return tf.gather(g0, pft) + factor * ratio, grad


def make_soil_stress(shape: str = "linear"):
    """Build the soil moisture stress function.

    ``shape`` is "linear", "square" or "cosine".  The returned function takes
    ``theta`` (..., layer), ``wilt``, ``critical`` and ``roots`` (layer,) and
    gives the root-weighted stress factor (...,) between 0 and 1.
    """
    if shape not in ("linear", "square", "cosine"):
        raise ValueError(f"unknown stress shape {shape!r}")

    @tf.custom_gradient
    def stress(theta, wilt, critical, roots):
        span = critical - wilt
        s = tf.clip_by_value((theta - wilt) / span, 0.0, 1.0)
        if shape == "linear":
            f, df = s, tf.ones_like(s)
        elif shape == "square":
            f, df = s * s, 2.0 * s
        else:
            f, df = 0.5 - 0.5 * tf.cos(np.pi * s), 0.5 * np.pi * tf.sin(np.pi * s)
        mass = tf.reduce_sum(roots)
        beta = (
            tf.linalg.matvec(f, roots) / mass
            if f.shape.rank > 1
            else tf.reduce_sum(f * roots) / mass
        )

        def grad(dy):
            dy = dy[..., tf.newaxis]
            inner = tf.cast((s > 0.0) & (s < 1.0), s.dtype)
            ds = dy * roots / mass * df * inner / span
            lead = list(range(s.shape.rank - 1))
            return (
                ds,
                tf.reduce_sum(ds * (s - 1.0), axis=lead),
                tf.reduce_sum(-ds * s, axis=lead),
                tf.reduce_sum(dy * (f - beta[..., tf.newaxis]), axis=lead) / mass,
            )

        return beta, grad

    return stress


@tf.custom_gradient
def closure_ratio(turbulent, available, seen):
    """Energy balance closure of every tower over the half-hours observed.

    Parameters
    ----------
    turbulent, available : tf.Tensor, (time, cell)
        H + LE and Rn - G.  Where ``seen`` is False any finite filler.
    seen : tf.Tensor of bool, (time, cell)

    Returns
    -------
    tf.Tensor, (cell,)
        Ratio of the two sums, zero for a tower that was never observed.
    """
    m = tf.cast(seen, turbulent.dtype)
    supply = tf.reduce_sum(m * available, axis=0)
    ratio = tf.math.divide_no_nan(tf.reduce_sum(m * turbulent, axis=0), supply)

    def grad(dy):
        scaled = tf.math.divide_no_nan(dy, supply)
        d_available = -tf.broadcast_to(scaled * ratio, tf.shape(available))
        return scaled * m, d_available, None

    return ratio, grad


def calibration_loss(p: LandParameters, forcing, pft, seen):
    stress = make_soil_stress("cosine")(forcing["theta"], p.wilt, p.critical, p.roots)
    gs = stress * medlyn_conductance(
        forcing["assim"], forcing["vpd"], forcing["co2"], p.g0, p.g1, pft
    )
    ga = aerodynamic_conductance(forcing["wind"], p.height, forcing["level"])
    latent = forcing["vpd"] * gs * ga / (gs + ga)
    closure = closure_ratio(latent + forcing["sensible"], forcing["available"], seen)
    return tf.reduce_mean((closure - 1.0) ** 2)
