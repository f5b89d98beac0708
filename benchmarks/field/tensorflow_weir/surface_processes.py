"""Infiltration and bedload closures for the differentiable hillslope model.

Both closures sit in the inner loop of the calibration, so the backward pass is
written out by hand: Green-Ampt would otherwise unroll its Newton loop and the
bedload formula produces NaN from ``pow(0, 0.5)`` below the threshold of motion.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

GRAVITY = 9.81
_NEWTON_STEPS = 25


def _reduce_like(value: tf.Tensor, ref: tf.Tensor) -> tf.Tensor:
    """Sum ``value`` over the axes along which ``ref`` was broadcast."""
    _, axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(value), s1=tf.shape(ref))
    return tf.reshape(tf.reduce_sum(value, axis=axes), tf.shape(ref))


def _green_ampt_newton(supply, storage):
    """Solve ``F - S log(1 + F/S) = supply`` for F, elementwise."""
    depth = supply + tf.sqrt(2.0 * supply * storage)
    for _ in range(_NEWTON_STEPS):
        residual = depth - storage * tf.math.log1p(depth / storage) - supply
        depth = depth - residual * (storage + depth) / depth
    return depth


@tf.custom_gradient
def green_ampt_infiltration(time, conductivity, suction, deficit):
    """Cumulative infiltration depth under ponding (Green & Ampt, 1911).

    Parameters
    ----------
    time : tf.Tensor
        Time since ponding [h], strictly positive.
    conductivity : tf.Tensor
        Saturated hydraulic conductivity [cm/h], positive.
    suction : tf.Tensor
        Wetting front suction head [cm], positive.
    deficit : tf.Tensor
        Initial moisture deficit [-], in (0, 1).

    All four broadcast against each other, e.g. ``time`` of shape ``(T,)`` with
    soil parameters of shape ``(cells, 1)``.

    Returns
    -------
    tf.Tensor
        Infiltrated depth F [cm], of the broadcast shape.

    Notes
    -----
    F is the positive root of ``F - S log(1 + F / S) = K t`` with
    ``S = suction * deficit``; the gradient uses the implicit function theorem
    at the root.
    """
    time = tf.convert_to_tensor(time)
    conductivity = tf.convert_to_tensor(conductivity)
    suction = tf.convert_to_tensor(suction)
    deficit = tf.convert_to_tensor(deficit)

    storage = suction * deficit
    depth = _green_ampt_newton(conductivity * time + tf.zeros_like(storage), storage)

    def grad(upstream):
        # phi(F, S) = F - S log1p(F / S);  phi_F = F / (S + F)
        lam = upstream * (storage + depth) / depth
        ratio = depth / storage
        phi_s = ratio / (1.0 + ratio) - tf.math.log1p(ratio)
        d_storage = -lam * phi_s
        return (
            _reduce_like(lam * conductivity, time),
            _reduce_like(lam * time, conductivity),
            _reduce_like(d_storage * deficit, suction),
            _reduce_like(d_storage * suction, deficit),
        )

    return depth, grad


@dataclass(frozen=True)
class BedloadModel:
    """Fractional Meyer-Peter & Mueller transport with an optional hiding function.

    Attributes
    ----------
    critical_shields : float
        Dimensionless critical stress of the reference grain.
    reference_diameter : float
        Reference grain size [m] (the D50 of the bed, held fixed).
    hiding_exponent : float
        Exponent ``gamma`` of the hiding function
        ``theta_c(d) = critical_shields * (d / reference_diameter) ** -gamma``.
        0 (default) gives every class the same critical Shields number, 1 gives
        equal mobility.
    submerged_gravity : float
        ``rho_s / rho - 1``.
    density : float
        Density of water [kg/m3].
    """

    critical_shields: float = 0.047
    reference_diameter: float = 0.01
    hiding_exponent: float = 0.0
    submerged_gravity: float = 1.65
    density: float = 1000.0

    def threshold(self, diameter):
        rel = diameter / self.reference_diameter
        return self.critical_shields * tf.pow(rel, -self.hiding_exponent)

    @tf.custom_gradient
    def capacity(self, stress, diameter, fraction):
        """Volumetric transport per unit width and class [m2/s].

        Parameters
        ----------
        stress : tf.Tensor, shape (cells,)
            Bed shear stress [Pa], non-negative.
        diameter : tf.Tensor, shape (classes,)
            Grain diameter of each class [m].
        fraction : tf.Tensor, shape (cells, classes)
            Surface fraction of each class.

        Returns
        -------
        tf.Tensor, shape (cells, classes)
            Zero where the stress does not exceed the threshold of the class.
            Differentiable in all three arguments.
        """
        weight = self.submerged_gravity * GRAVITY
        shields = stress[:, None] / (self.density * weight * diameter)
        excess = tf.nn.relu(shields - self.threshold(diameter))
        scale = tf.sqrt(weight * diameter**3)
        unit = 8.0 * excess * tf.sqrt(excess) * scale

        def grad(upstream):
            d_unit = upstream * fraction
            d_excess = d_unit * 12.0 * tf.sqrt(excess) * scale
            d_stress = tf.reduce_sum(d_excess / (self.density * weight * diameter), axis=1)
            d_diameter = -d_excess * shields / diameter + 1.5 * d_unit * unit / diameter
            return d_stress, tf.reduce_sum(d_diameter, axis=0), upstream * unit

        return unit * fraction, grad


def bed_flux_misfit(model: BedloadModel, stress, log_diameter, fraction, observed):
    """Relative squared misfit of the summed flux against trap samples."""
    total = tf.reduce_sum(model.capacity(stress, tf.exp(log_diameter), fraction), axis=-1)
    return tf.reduce_mean(tf.square((total - observed) / (observed + 1e-8)))
