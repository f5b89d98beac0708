"""Thermometer bank of the climate chamber: thermistors, platinum wires, bridges.

All quantities are float tensors whose last axis runs over the channels of one logger card.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

KELVIN = 273.15

# IEC 60751
PT_A = 3.9083e-3
PT_B = -5.775e-7
PT_C = -4.183e-12


def _sum_to(grad, shape):
    """Adds up `grad` over the axes along which a tensor of `shape` was broadcast."""
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=shape, s1=tf.shape(grad))
    return tf.reshape(tf.reduce_sum(grad, axes), shape)


@tf.custom_gradient
def steinhart_celsius(resistance, coef):
    """Steinhart-Hart temperature in degrees Celsius.

    Args:
      resistance: [..., C] ohm, positive.
      coef: [C, 3] or [3], the A, B, C of each channel (or of all of them).

    Returns:
      [..., C] temperatures.
    """
    logr = tf.math.log(resistance)
    a, b, c = tf.unstack(coef, axis=-1)
    kelvin = 1.0 / (a + logr * (b + c * logr * logr))

    def grad(upstream):
        dinv = -upstream * kelvin * kelvin
        dres = dinv * (b + 3.0 * c * logr * logr) / resistance
        parts = [dinv, dinv * logr, dinv * logr**3]
        dcoef = tf.stack([_sum_to(p, tf.shape(a)) for p in parts], axis=-1)
        return dres, dcoef

    return kelvin - KELVIN, grad


@tf.custom_gradient
def platinum_resistance(celsius, r_zero):
    """Callendar-Van Dusen, -200 to 850 degrees; r_zero broadcasts against celsius."""
    cold = tf.where(celsius < 0.0, PT_C * (celsius - 100.0) * celsius**3, tf.zeros_like(celsius))
    ratio = 1.0 + celsius * (PT_A + PT_B * celsius) + cold

    def grad(upstream):
        slope = PT_A + 2.0 * PT_B * celsius
        return (
            _sum_to(upstream * r_zero * slope, tf.shape(celsius)),
            _sum_to(upstream * ratio, tf.shape(r_zero)),
        )

    return r_zero * ratio, grad


@dataclass(frozen=True)
class BridgeReader:
    wires: int = 3
    gain: float = 64.0

    @property
    def lead_count(self):
        return {2: 2.0, 3: 1.0, 4: 0.0}[self.wires]

    def reader(self):
        n, gain = self.lead_count, self.gain

        @tf.custom_gradient
        def bridge_volts(sense, lead, reference, excitation):
            arm = sense + n * lead
            total = arm + reference
            share = arm / total

            def grad(upstream):
                up = gain * upstream
                darm = up * excitation * reference / (total * total)
                dref = -up * excitation * arm / (total * total)
                return (
                    _sum_to(darm, tf.shape(sense)),
                    _sum_to(darm, tf.shape(lead)),
                    _sum_to(dref, tf.shape(reference)),
                    _sum_to(up * (share - 0.5), tf.shape(excitation)),
                )

            return gain * excitation * (share - 0.5), grad

        return bridge_volts

    def __call__(self, sense, lead, reference, excitation):
        return self.reader()(sense, lead, reference, excitation)


@tf.custom_gradient
def fuse_channels(reading, log_var, valid):
    """Inverse-variance mean over the valid channels, and its log variance.

    Args:
      reading: [..., C].
      log_var: [C] or [..., C], log variance of each channel.
      valid: bool, same shape as reading. A scan without a valid channel gives (0, 0).

    Returns:
      (mean [...], log_variance [...])
    """
    lv = tf.broadcast_to(log_var, tf.shape(reading))
    score = tf.where(valid, -lv, tf.fill(tf.shape(lv), tf.constant(-1e30, lv.dtype)))
    some = tf.reduce_any(valid, axis=-1)
    weight = tf.where(valid, tf.nn.softmax(score, axis=-1), tf.zeros_like(lv))
    mean = tf.reduce_sum(weight * tf.where(valid, reading, tf.zeros_like(reading)), axis=-1)
    fused = tf.where(some, -tf.reduce_logsumexp(score, axis=-1), tf.zeros_like(mean))

    def grad(d_mean, d_fused):
        d_mean = d_mean[..., None]
        d_fused = d_fused[..., None]
        centred = tf.where(valid, reading - mean[..., None], tf.zeros_like(reading))
        dreading = d_mean * weight
        dlog = weight * (d_fused - d_mean * centred)
        return dreading, _sum_to(dlog, tf.shape(log_var)), None

    return (mean, fused), grad
