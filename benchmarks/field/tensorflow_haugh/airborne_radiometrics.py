"""Airborne gamma-ray windows (K, U, Th): stripping, height, efficiency and limits."""

from typing import NamedTuple

import tensorflow as tf

STP_KELVIN = 273.15
STP_HPA = 1013.25
K_95 = 1.645


class WindowCalibration(NamedTuple):
    background: tf.Tensor  # [w] cps
    ratios: tf.Tensor  # [w, w], unit diagonal; row i: what the sources put into window i
    sensitivity: tf.Tensor  # [w] cps per unit of ground concentration


def pad_ratios(alpha, beta, gamma, a=0.0):
    """Stripping matrix in the order K, U, Th from the usual Greek letters."""
    rows = [[1.0, gamma, beta], [0.0, 1.0, alpha], [0.0, a, 1.0]]
    return tf.stack([tf.stack([tf.cast(v, tf.float64) for v in r]) for r in rows])


@tf.custom_gradient
def strip_windows(counts, background, ratios, sensitivity):
    """Ground concentrations [..., w] from gross window rates [..., w]."""
    unmix = tf.linalg.inv(ratios)
    stripped = tf.einsum("ij,...j->...i", unmix, counts - background)

    def grad(g):
        width = tf.shape(counts)[-1]
        u = g / sensitivity
        lam = tf.einsum("ij,...j->...i", unmix, u)
        flat_lam = tf.reshape(lam, [-1, width])
        flat_x = tf.reshape(stripped, [-1, width])
        d_ratios = -tf.matmul(flat_lam, flat_x, transpose_a=True)
        d_sens = -tf.reduce_sum(tf.reshape(u * stripped / sensitivity, [-1, width]), axis=0)
        return lam, -tf.reduce_sum(flat_lam, axis=0), d_ratios, d_sens

    return stripped / sensitivity, grad


def ground_concentrations(counts, calibration: WindowCalibration):
    return strip_windows(
        counts, calibration.background, calibration.ratios, calibration.sensitivity
    )


def make_photopeak_efficiency(reference_kev=661.7):
    """Log-log polynomial efficiency curves, one for each detector.

    The returned function maps ``energies`` [n, p] (keV; entries <= 0 are padding and give
    efficiency 0), ``coefs`` [detectors, k] (``coefs[d, j]`` multiplies ``ln(E / reference)**j``)
    and ``detector_ids`` [n] (repeats allowed) to full-energy-peak efficiencies [n, p].
    """

    @tf.custom_gradient
    def efficiency(energies, coefs, detector_ids):
        present = energies > 0
        safe = tf.where(present, energies, tf.ones_like(energies) * reference_kev)
        u = tf.math.log(safe / reference_kev)
        rows = tf.gather(coefs, detector_ids)
        k = coefs.shape[-1]
        value, slope = tf.zeros_like(u), tf.zeros_like(u)
        for j in reversed(range(k)):
            slope = slope * u + value
            value = value * u + rows[:, j : j + 1]
        eff = tf.where(present, tf.exp(value), tf.zeros_like(value))

        def grad(g):
            ge = g * eff
            power = tf.ones_like(u)
            columns = []
            for _ in range(k):
                columns.append(tf.reduce_sum(ge * power, axis=-1))
                power = power * u
            d_coefs = tf.math.unsorted_segment_sum(
                tf.stack(columns, axis=-1), detector_ids, tf.shape(coefs)[0]
            )
            return ge * slope / safe, d_coefs, None

        return eff, grad

    return efficiency


def height_corrected(net, mu, height, temperature, pressure, nominal=80.0, max_height=300.0):
    @tf.custom_gradient
    def correct(net, mu, height, temperature, pressure):
        kelvin = temperature + STP_KELVIN
        air = STP_KELVIN * pressure / (kelvin * STP_HPA)
        equivalent = height * air
        used = tf.minimum(equivalent, max_height)
        factor = tf.exp(mu * (used - nominal)[:, None])
        out = net * factor

        def grad(g):
            g_out = g * out
            d_mu = tf.reduce_sum(g_out * (used - nominal)[:, None], axis=0)
            d_used = tf.reduce_sum(g_out * mu, axis=-1)
            d_eq = tf.where(equivalent < max_height, d_used, tf.zeros_like(d_used))
            return (
                g * factor,
                d_mu,
                d_eq * air,
                -d_eq * equivalent / kelvin,
                d_eq * height * air / pressure,
            )

        return out, grad

    return correct(net, mu, height, temperature, pressure)


def currie_limit(background, t_gross, t_background, efficiency, k=K_95, paired=False):
    """Detection limit as an activity.

    background: counts (> 0) seen in ``t_background`` seconds; t_gross: seconds of the sample
    count; efficiency: counts per decay; all of one shape. With ``paired`` the blank is counted
    along with the sample, so its counts are taken as they stand, without scaling by the times.
    """

    @tf.custom_gradient
    def limit(background, t_gross, t_background, efficiency):
        ratio = t_gross / t_background
        if paired:
            variance = 2.0 * background
        else:
            variance = background * ratio * (1.0 + ratio)
        sigma = tf.sqrt(variance)
        detectable = k * k + 2.0 * k * sigma
        per_count = 1.0 / (efficiency * t_gross)

        def grad(g):
            d_var = g * per_count * k / sigma
            d_ratio = d_var * background * (1.0 + 2.0 * ratio)
            d_background = d_var * ratio * (1.0 + ratio)
            activity = detectable * per_count
            d_gross = d_ratio / t_background - g * activity / t_gross
            return (
                d_background,
                d_gross,
                -d_ratio * ratio / t_background,
                -g * activity / efficiency,
            )

        return detectable * per_count, grad

    return limit(background, t_gross, t_background, efficiency)
