"""Growth and gear-selectivity building blocks for length-based stock assessment.

Both operators sit in the innermost loop of the likelihood (every haul, every iteration), so their
derivatives are written out instead of being taped.
"""
from __future__ import annotations

import math
from typing import Dict, Tuple

import tensorflow as tf

TWO_PI = 2.0 * math.pi


def _fit(grad: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Sum `grad` over whatever axes broadcasting gave to `like`."""
    target = tf.shape(like)
    _, reduce_axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(grad), s1=target)
    return tf.reshape(tf.reduce_sum(grad, axis=reduce_axes), target)


@tf.custom_gradient
def seasonal_length(age, linf, k, t0, amplitude, winter):
    r"""Length at age under the Somers (1988) seasonally oscillating von Bertalanffy curve.

    .. math::
        L(t) = L_\infty \left(1 - e^{-k(t - t_0) - S(t) + S(t_0)}\right), \qquad
        S(t) = \frac{C k}{2\pi} \sin 2\pi (t - t_s)

    Parameters
    ----------
    age : tf.Tensor, shape (..., n)
        Ages in years, all larger than ``t0``.
    linf, k, t0 : tf.Tensor
        Asymptotic length, growth rate and age at length zero.  Scalars, or anything that broadcasts
        against ``age`` (for example ``(stocks, 1)``).
    amplitude : tf.Tensor
        Seasonal amplitude ``C`` in [0, 1]; 0 gives the plain von Bertalanffy curve.
    winter : tf.Tensor
        ``t_s``, the phase of the oscillation as a fraction of the year.

    Returns
    -------
    tf.Tensor
        Lengths, in the unit of ``linf``, with the broadcast shape of all the arguments.
    """
    now = TWO_PI * (age - winter)
    origin = TWO_PI * (t0 - winter)
    swing = amplitude * k / TWO_PI
    exponent = k * (age - t0) + swing * (tf.sin(now) - tf.sin(origin))
    remaining = tf.exp(-exponent)
    length = linf * (1.0 - remaining)

    def grad(upstream):
        # dL/dq for the exponent q
        slope = upstream * linf * remaining
        season = amplitude * tf.cos(now)
        d_age = slope * k * (1.0 + season)
        d_linf = upstream * (1.0 - remaining)
        d_k = slope * exponent / k
        d_t0 = -slope * k
        d_amplitude = slope * k / TWO_PI * (tf.sin(now) - tf.sin(origin))
        d_winter = -slope * k * amplitude * (tf.cos(now) - tf.cos(origin))
        return (
            _fit(d_age, age),
            _fit(d_linf, linf),
            _fit(d_k, k),
            _fit(d_t0, t0),
            _fit(d_amplitude, amplitude),
            _fit(d_winter, winter),
        )

    return length, grad


def length_at_age(age, linf, k, t0=-0.1, amplitude=0.0, winter=0.0):
    """`seasonal_length` with the usual defaults, for plain numbers as well as tensors."""
    age = tf.convert_to_tensor(age)
    rest = [tf.convert_to_tensor(v, age.dtype) for v in (linf, k, t0, amplitude, winter)]
    return seasonal_length(age, *rest)


class DoubleNormalSelectivity:
    """Dome-shaped retention of a gear, one curve for each fleet.

    Args:
        floor: selectivity that is left far away from the plateau, in [0, 1).  The dome occupies
            the rest, ``floor + (1 - floor) * dome``.
    """

    PARAMETERS: Tuple[str, ...] = ("peak", "plateau", "ascend", "descend")

    def __init__(self, floor: float = 0.0):
        if not 0.0 <= floor < 1.0:
            raise ValueError(f"floor must lie in [0, 1), got {floor}")
        self.floor = float(floor)

    @tf.custom_gradient
    def at_length(self, lengths: tf.Tensor, params: Dict[str, tf.Tensor]):
        """Retention probability.

        Args:
            lengths: ``[bins]`` mid-points of the length bins.
            params: dict of ``[fleets]`` tensors.  ``peak`` is where the plateau begins,
                ``plateau`` (>= 0) how long it is, ``ascend`` and ``descend`` (> 0) are the standard
                deviations of the two limbs.

        Returns:
            ``[fleets, bins]`` probabilities.
        """
        left = params["peak"][:, None]
        right = left + params["plateau"][:, None]
        up = params["ascend"][:, None]
        down = params["descend"][:, None]
        short = tf.minimum(lengths[None, :] - left, 0.0)
        long = tf.maximum(lengths[None, :] - right, 0.0)
        # at most one of the two limbs is off the plateau at any length
        dome = tf.exp(-0.5 * (short / up) ** 2 - 0.5 * (long / down) ** 2)
        scale = 1.0 - self.floor

        def grad(upstream):
            through = upstream * scale * dome
            pull_up = through * short / up**2
            pull_down = through * long / down**2
            d_params = {
                "peak": tf.reduce_sum(pull_up + pull_down, axis=1),
                "plateau": tf.reduce_sum(pull_down, axis=1),
                "ascend": tf.reduce_sum(pull_up * short / up, axis=1),
                "descend": tf.reduce_sum(pull_down * long / down, axis=1),
            }
            d_lengths = -tf.reduce_sum(pull_up + pull_down, axis=0)
            return d_lengths, d_params

        return self.floor + scale * dome, grad


def catch_at_length_nll(counts, abundance, lengths, params, selectivity: DoubleNormalSelectivity):
    """Multinomial negative log-likelihood of a `[fleets, bins]` table of measured fish."""
    expected = selectivity.at_length(lengths, params) * abundance[None, :]
    share = expected / tf.reduce_sum(expected, axis=1, keepdims=True)
    return -tf.reduce_sum(counts * tf.math.log(share + 1e-12))
