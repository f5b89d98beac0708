"""Ground truth for hail from a network of foam hailpads.

A hailpad is a square of extruded polystyrene under foil.  Every stone that
lands leaves a dent; the short axis of the dent is measured on a light table
and turned into a stone diameter through a calibration made by dropping steel
balls on the same batch of foam.  From the diameters follow the quantities
that insurers and radar people want: kinetic energy and ice mass per unit
area, and the tail of the size spectrum.

Calibrations, wind at impact and spectrum parameters are fitted jointly for a
whole swath with a gradient method, which is why the three steps below carry
their own derivatives (the tape of the plain graph is several times slower on
the 600-pad network).

Units: dents and diameters in millimetres, wind in m/s, energies in J/m2,
masses in kg/m2, spectrum intercepts in stones per m2 and mm.

A pad record is a row of dents padded with zeros to the widest pad of the
swath; a dent of zero means "no dent", and yields a stone of zero diameter.
"""

from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow as tf

GRAVITY = 9.81
ICE_DENSITY = 890.0          # kg/m3, slightly porous stones
AIR_DENSITY = 1.12           # kg/m3, at 800 m above the sea
PAD_AREA = 0.1089            # m2, 33 cm by 33 cm
KNEE_MM = 18.0               # dents wider than this reach the board backing
SMALLEST_STONE_MM = 5.0      # below this ice is graupel and is not counted
DEFAULT_DRAG = 0.55
MM = 1.0e-3

# Steel-ball calibrations of the foam batches in use: (a, b, c) of
# D = a + b s + c s^2 in mm, s the short dent axis as a multiple of KNEE_MM.
FOAM_BATCHES: Dict[str, Tuple[float, float, float]] = {
    "2019-A": (3.1, 17.3, 2.11),
    "2021-C": (2.7, 18.4, 1.65),
    "2023-B": (3.4, 16.4, 2.69),
}


class PadRecord(NamedTuple):
    """One exposed pad as it comes from the light table."""

    station: str
    foam: str
    dents_mm: Sequence[float]
    gust: float


class SwathBatch(NamedTuple):
    dents: tf.Tensor        # [pads, widest]
    calibration: tf.Tensor  # [pads, 3]
    gust: tf.Tensor         # [pads]
    stations: List[str]


def pack_swath(records: Sequence[PadRecord], dtype=tf.float32) -> SwathBatch:
    """Pad the dents of ``records`` with zeros to one rectangle."""
    widest = max(max(len(r.dents_mm) for r in records), 1)
    dents = np.zeros((len(records), widest))
    for row, record in enumerate(records):
        ordered = sorted(record.dents_mm, reverse=True)
        dents[row, : len(ordered)] = ordered
    calibration = np.array([FOAM_BATCHES[r.foam] for r in records])
    gust = np.array([r.gust for r in records])
    return SwathBatch(
        dents=tf.constant(dents, dtype),
        calibration=tf.constant(calibration, dtype),
        gust=tf.constant(gust, dtype),
        stations=[r.station for r in records],
    )


# ---------------------------------------------------------------------------
# dents -> diameters
# ---------------------------------------------------------------------------


def _calibration_basis(dents: tf.Tensor) -> tf.Tensor:
    """The three regressors of the calibration, ``[pads, widest, 3]``.

    The quadratic is continued along its tangent beyond the knee, where the
    foam bottoms out and the ball drops are too few to support curvature.
    """
    scaled = dents / tf.cast(KNEE_MM, dents.dtype)
    square = tf.where(scaled > 1.0, 2.0 * scaled - 1.0, tf.square(scaled))
    return tf.stack([tf.ones_like(scaled), scaled, square], axis=-1)


@tf.custom_gradient
def dent_to_diameter(dents, calibration):
    """Stone diameters of the measured dents.

    Args:
      dents: short axes of the dents in mm, one row per pad, zero-padded.
      calibration: coefficients (a, b, c) for the foam of each pad.

    Returns:
      Diameters in mm, same shape as ``dents``; zero where there is no dent.
    """
    basis = _calibration_basis(dents)
    present = dents > 0.0
    diameter = tf.einsum("pwk,pk->pw", basis, calibration)
    diameter = tf.where(present, diameter, tf.zeros_like(diameter))

    def grad(upstream):
        knee = tf.cast(KNEE_MM, dents.dtype)
        linear = calibration[:, 1:2]
        curved = calibration[:, 2:3]
        slope = (linear + 2.0 * curved * tf.minimum(dents / knee, 1.0)) / knee
        d_dents = tf.where(present, upstream * slope, tf.zeros_like(upstream))
        d_calibration = tf.einsum("pw,pwk->pk", upstream, basis)
        return d_dents, d_calibration

    return diameter, grad


def mean_diameter(dents: tf.Tensor, calibration: tf.Tensor) -> tf.Tensor:
    """Arithmetic mean diameter per pad; pads without dents give zero."""
    diameter = dent_to_diameter(dents, calibration)
    hits = tf.reduce_sum(tf.cast(dents > 0.0, diameter.dtype), axis=-1)
    return tf.reduce_sum(diameter, axis=-1) / tf.maximum(hits, 1.0)


# ---------------------------------------------------------------------------
# diameters -> energy and mass
# ---------------------------------------------------------------------------


def terminal_speed(diameter_mm, drag=DEFAULT_DRAG):
    """Fall speed in still air, m/s."""
    return tf.sqrt(
        4.0 * GRAVITY * ICE_DENSITY * diameter_mm * MM / (3.0 * drag * AIR_DENSITY)
    )


@tf.custom_gradient
def impact_energy_and_mass(diameter, gust, drag):
    """Kinetic energy and ice mass delivered to a pad, per square metre.

    diameter : (pads, widest) mm, zeros for empty slots
    gust : (pads,) horizontal wind at impact, taken up fully by every stone
    drag : scalar drag coefficient of the stones

    Returns two vectors over the pads.
    """
    dtype = diameter.dtype
    metres = diameter * tf.cast(MM, dtype)
    volume_factor = tf.cast(math.pi / 6.0 * ICE_DENSITY / PAD_AREA, dtype)
    fall_factor = tf.cast(4.0 * GRAVITY * ICE_DENSITY / (3.0 * AIR_DENSITY), dtype)

    mass = volume_factor * metres**3
    fall_squared = fall_factor * metres / drag
    gust_squared = tf.square(gust)[:, tf.newaxis]
    energy = 0.5 * mass * (fall_squared + gust_squared)

    def grad(d_energy, d_mass):
        up_e = d_energy[:, tf.newaxis]
        up_m = d_mass[:, tf.newaxis]
        mass_slope = 3.0 * volume_factor * metres**2
        through_mass = mass_slope * (up_m + 0.5 * up_e * (fall_squared + gust_squared))
        through_fall = 0.5 * up_e * mass * fall_factor / drag
        d_diameter = tf.cast(MM, dtype) * (through_mass + through_fall)
        d_gust = d_energy * gust * tf.reduce_sum(mass, axis=-1)
        d_drag = -tf.reduce_sum(0.5 * up_e * mass * fall_squared) / drag
        return d_diameter, d_gust, d_drag

    outputs = (tf.reduce_sum(energy, axis=-1), tf.reduce_sum(mass, axis=-1))
    return outputs, grad


def swath_energy(batch: SwathBatch, drag=DEFAULT_DRAG) -> tf.Tensor:
    diameter = dent_to_diameter(batch.dents, batch.calibration)
    energy, _ = impact_energy_and_mass(
        diameter, batch.gust, tf.cast(drag, batch.gust.dtype)
    )
    return energy


# ---------------------------------------------------------------------------
# size spectra
# ---------------------------------------------------------------------------


@tf.custom_gradient
def spectrum_tail(intercept, slope, threshold):
    """Moments of exponential spectra above a set of size thresholds.

    The spectrum of a swath segment is ``N(D) = intercept * exp(-slope * D)``
    for stones of at least ``SMALLEST_STONE_MM``; nothing smaller is counted,
    hence a threshold under that size (0 is customary for "all stones") is
    the same as the smallest size itself.

    Parameters
    ----------
    intercept, slope : tensors of shape (segments,)
    threshold : tensor of shape (thresholds,), mm

    Returns
    -------
    count, mean_size, ice_mass : tensors of shape (segments, thresholds)
        Stones per m2, their mean diameter in mm and their mass in kg/m2.
    """
    dtype = slope.dtype
    floor = tf.cast(SMALLEST_STONE_MM, dtype)
    sphere = tf.cast(math.pi / 6.0 * ICE_DENSITY * MM**3, dtype)

    cut = tf.maximum(threshold, floor)[tf.newaxis, :]
    n0 = intercept[:, tf.newaxis]
    lam = slope[:, tf.newaxis]
    decay = tf.exp(-lam * cut)

    cubic = cut**3 / lam + 3.0 * cut**2 / lam**2 + 6.0 * cut / lam**3 + 6.0 / lam**4
    count = n0 * decay / lam
    mean_size = cut + tf.ones_like(n0) / lam
    ice_mass = sphere * n0 * decay * cubic

    def grad(d_count, d_mean, d_mass):
        d_intercept = tf.reduce_sum(
            d_count * decay / lam + d_mass * sphere * decay * cubic, axis=1
        )
        quartic = (
            cut**4 / lam
            + 4.0 * cut**3 / lam**2
            + 12.0 * cut**2 / lam**3
            + 24.0 * cut / lam**4
            + 24.0 / lam**5
        )
        d_slope = tf.reduce_sum(
            -d_count * n0 * decay * (cut / lam + 1.0 / lam**2)
            - d_mean / lam**2
            - d_mass * sphere * n0 * decay * quartic,
            axis=1,
        )
        at_cut = n0 * decay
        d_threshold = tf.reduce_sum(
            d_mean - at_cut * (d_count + d_mass * sphere * cut**3), axis=0
        )
        return d_intercept, d_slope, d_threshold

    return (count, mean_size, ice_mass), grad


class SwathSpectrum(tf.Module):
    """Log-parametrised exponential spectra for the segments of one swath."""

    def __init__(self, segments: int, dtype=tf.float32, name=None):
        super().__init__(name=name)
        self.log_intercept = tf.Variable(tf.fill([segments], tf.cast(2.0, dtype)))
        self.log_slope = tf.Variable(tf.fill([segments], tf.cast(-1.2, dtype)))

    def __call__(self, threshold: tf.Tensor) -> Dict[str, tf.Tensor]:
        count, mean_size, ice_mass = spectrum_tail(
            tf.exp(self.log_intercept), tf.exp(self.log_slope), threshold
        )
        return {"count": count, "mean_size": mean_size, "ice_mass": ice_mass}

    def misfit(self, threshold, seen_count, seen_mass) -> tf.Tensor:
        """Squared log misfit of counts and masses above the thresholds."""
        tail = self(threshold)
        per_count = tf.math.squared_difference(
            tf.math.log1p(tail["count"]), tf.math.log1p(seen_count)
        )
        per_mass = tf.math.squared_difference(
            tf.math.log1p(tail["ice_mass"]), tf.math.log1p(seen_mass)
        )
        return tf.reduce_mean(per_count) + tf.reduce_mean(per_mass)


def empirical_tail(diameter: tf.Tensor, threshold: tf.Tensor):
    """Counts and masses above ``threshold`` from the pads themselves."""
    above = tf.cast(
        diameter[:, :, tf.newaxis] >= threshold[tf.newaxis, tf.newaxis, :],
        diameter.dtype,
    )
    stone = math.pi / 6.0 * ICE_DENSITY * (diameter * MM) ** 3
    count = tf.reduce_sum(above, axis=1) / PAD_AREA
    mass = tf.reduce_sum(above * stone[:, :, tf.newaxis], axis=1) / PAD_AREA
    return count, mass


def fit_spectra(batch: SwathBatch, threshold, steps: int = 150, rate: float = 0.03):
    """Plain Adam on the spectra, one segment per pad."""
    diameter = dent_to_diameter(batch.dents, batch.calibration)
    seen_count, seen_mass = empirical_tail(diameter, threshold)
    model = SwathSpectrum(diameter.shape[0], dtype=diameter.dtype)
    first = [tf.zeros_like(v) for v in model.trainable_variables]
    second = [tf.zeros_like(v) for v in model.trainable_variables]
    for step in range(1, steps + 1):
        with tf.GradientTape() as tape:
            loss = model.misfit(threshold, seen_count, seen_mass)
        grads = tape.gradient(loss, model.trainable_variables)
        for i, (var, g) in enumerate(zip(model.trainable_variables, grads)):
            first[i] = 0.9 * first[i] + 0.1 * g
            second[i] = 0.99 * second[i] + 0.01 * g * g
            m = first[i] / (1.0 - 0.9**step)
            v = second[i] / (1.0 - 0.99**step)
            var.assign_sub(rate * m / (tf.sqrt(v) + 1e-8))
    return model, loss


if __name__ == "__main__":
    rng = np.random.default_rng(4)
    swath = pack_swath(
        [
            PadRecord("Lleida-03", "2021-C", 4.0 + rng.gamma(2.0, 3.0, 23), 8.0),
            PadRecord("Lleida-07", "2021-C", 4.0 + rng.gamma(2.0, 4.5, 11), 12.5),
            PadRecord("Mollerussa-1", "2019-A", 4.0 + rng.gamma(2.0, 2.5, 31), 5.0),
        ]
    )
    print("mean diameter", mean_diameter(swath.dents, swath.calibration).numpy())
    print("energy J/m2", swath_energy(swath).numpy())
    fitted, last = fit_spectra(swath, tf.constant([8.0, 12.0, 18.0, 25.0]), steps=40)
    print("slope", np.exp(fitted.log_slope.numpy()), "misfit", float(last))
