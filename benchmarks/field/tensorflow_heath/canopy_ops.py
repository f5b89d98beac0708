"""Leaf and canopy gas-exchange primitives used by the flux-tower inversion.

All quantities are per unit leaf area unless noted.  Light is photosynthetically
active radiation in umol m-2 s-1, leaf area index is one sided (m2 m-2).
"""
from __future__ import annotations

import tensorflow as tf

_SENSOR_FRACTION = {"top": 0.0, "mid": 0.5, "bottom": 1.0}


def _sum_like(grad: tf.Tensor, ref: tf.Tensor) -> tf.Tensor:
    """Sum ``grad`` over the axes along which ``ref`` was broadcast."""
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(ref), s1=tf.shape(grad))
    return tf.reshape(tf.reduce_sum(grad, axis=axes), tf.shape(ref))


@tf.custom_gradient
def leaf_assimilation(irradiance, alpha, pmax, theta):
    r"""Gross assimilation from the non-rectangular hyperbola.

    The smaller root :math:`A` of

    .. math:: \theta A^2 - (\alpha I + P) A + \alpha I P = 0 .

    Parameters
    ----------
    irradiance : tf.Tensor
        Absorbed light, ``>= 0``.
    alpha : tf.Tensor
        Quantum yield, ``> 0``.
    pmax : tf.Tensor
        Light-saturated rate, ``> 0``.
    theta : tf.Tensor
        Curvature in ``[0, 1)``; zero is the Michaelis-Menten response.

    Returns
    -------
    tf.Tensor
        Assimilation with the broadcast shape of the four arguments (typically
        light ``[site, time, species]`` with traits ``[species]``).

    Notes
    -----
    The root is written as ``2 c / (b + r)`` so that small curvatures do not
    cancel, and the gradient comes from the quadratic itself: only the root and
    the discriminant are kept.
    """
    harvest = alpha * irradiance
    root = tf.sqrt(tf.square(harvest - pmax) + 4.0 * (1.0 - theta) * harvest * pmax)
    rate = 2.0 * harvest * pmax / (harvest + pmax + root)

    def grad(upstream):
        scaled = upstream / root
        d_harvest = scaled * (pmax - rate)
        return (
            _sum_like(d_harvest * alpha, irradiance),
            _sum_like(d_harvest * irradiance, alpha),
            _sum_like(scaled * (harvest - rate), pmax),
            _sum_like(scaled * tf.square(rate), theta),
        )

    return rate, grad


def make_light_profile(position: str = "mid", clumping: float = 1.0):
    """Beer-Lambert light at a fixed height within each canopy layer.

    Args:
        position: where inside a layer the light is evaluated: ``"top"``,
            ``"mid"`` or ``"bottom"``.
        clumping: foliage clumping index, multiplies the extinction.

    Returns:
        ``profile(incoming, lai, extinction)`` with ``incoming`` ``[batch]``,
        ``lai`` ``[batch, layer]`` (uppermost layer first) and ``extinction``
        ``[batch]``; gives the light ``[batch, layer]``.
    """
    if position not in _SENSOR_FRACTION:
        raise ValueError(f"position must be one of {sorted(_SENSOR_FRACTION)}, got {position!r}")
    frac = _SENSOR_FRACTION[position]

    @tf.custom_gradient
    def profile(incoming, lai, extinction):
        above = tf.cumsum(lai, axis=-1, exclusive=True) + frac * lai
        transmitted = tf.exp(-clumping * extinction[:, None] * above)

        def grad(upstream):
            d_incoming = tf.reduce_sum(upstream * transmitted, axis=-1)
            d_tau = -upstream * incoming[:, None] * transmitted
            d_extinction = clumping * tf.reduce_sum(d_tau * above, axis=-1)
            d_above = clumping * extinction[:, None] * d_tau
            # a layer shades everything underneath, and itself in part
            d_lai = tf.cumsum(d_above, axis=-1, reverse=True) - frac * d_above
            return d_incoming, d_lai, d_extinction

        return incoming[:, None] * transmitted, grad

    return profile


class CanopyPhotosynthesis(tf.Module):
    """Big-tree canopy: layered light, one leaf model, summed over layers."""

    def __init__(self, position="mid", clumping=0.9, name=None):
        super().__init__(name=name)
        self.alpha = tf.Variable(0.06, name="alpha")
        self.pmax = tf.Variable(25.0, name="pmax")
        self.theta = tf.Variable(0.7, name="theta")
        self._profile = make_light_profile(position, clumping)

    def __call__(self, par, lai, extinction):
        light = self._profile(par, lai, extinction)
        absorbed = light * extinction[:, None]
        leaf = leaf_assimilation(
            absorbed,
            tf.convert_to_tensor(self.alpha),
            tf.convert_to_tensor(self.pmax),
            tf.convert_to_tensor(self.theta),
        )
        return tf.reduce_sum(leaf * lai, axis=-1)
