"""Forward models of the receiver chain: scan simulation and beam forming.

Used by ``fit_offsets`` to solve for polarisation angles together with the map.
"""
from typing import Optional

import numpy as np
import tensorflow as tf


class PolarimeterScan:
    """Pointed observation of a pixelised I/Q/U sky.

    Args:
      pixels: int array ``(detectors, samples)``, the sky pixel that is hit. A pixel is
        usually hit many times.
      psi: float array ``(detectors, samples)``, parallactic angle in radians.
      flags: optional bool array ``(detectors, samples)``; flagged samples (glitches,
        turn-arounds) are written as zero in the timestream.
    """

    def __init__(self, pixels: np.ndarray, psi: np.ndarray, flags: Optional[np.ndarray] = None):
        self.pixels = tf.constant(pixels, tf.int32)
        self.psi = np.asarray(psi)
        self.good = None if flags is None else ~np.asarray(flags, bool)

    def _drop_flagged(self, samples: tf.Tensor) -> tf.Tensor:
        if self.good is None:
            return samples
        return tf.where(self.good, samples, tf.zeros_like(samples))

    @tf.custom_gradient
    def timestream(self, sky: tf.Tensor, efficiency: tf.Tensor, offset: tf.Tensor):
        """Detector samples ``I + eff * (Q cos 2a + U sin 2a)`` with ``a = psi + offset``.

        Args:
          sky: ``(pixels, 3)`` Stokes parameters.
          efficiency: ``(detectors,)`` polarisation efficiency.
          offset: ``(detectors,)`` angle of the detector in the focal plane, radians.

        Returns:
          ``(detectors, samples)`` timestream, zero in flagged samples.
        """
        angle = 2.0 * (tf.cast(self.psi, sky.dtype) + offset[:, None])
        c, s = tf.cos(angle), tf.sin(angle)
        stokes = tf.gather(sky, self.pixels)
        q, u = stokes[..., 1], stokes[..., 2]
        polarised = q * c + u * s
        tod = self._drop_flagged(stokes[..., 0] + efficiency[:, None] * polarised)

        def grad(dtod):
            dsignal = self._drop_flagged(dtod)
            dpol = dsignal * efficiency[:, None]
            dstokes = tf.stack([dsignal, dpol * c, dpol * s], axis=-1)
            dsky = tf.math.unsorted_segment_sum(
                tf.reshape(dstokes, [-1, 3]),
                tf.reshape(self.pixels, [-1]),
                num_segments=tf.shape(sky)[0],
            )
            defficiency = tf.reduce_sum(dsignal * polarised, axis=1)
            turn = u * c - q * s
            doffset = 2.0 * efficiency * tf.reduce_sum(dtod * turn, axis=1)
            return dsky, defficiency, doffset

        return tod, grad


class PhasedArray:
    """Digital phase shifters in front of a beam former.

    Args:
      bits: resolution of the phase shifters; the phase is rounded to the nearest
        multiple of ``2 pi / 2**bits``.
    """

    def __init__(self, bits: int = 4):
        if bits < 1:
            raise ValueError("bits must be at least 1")
        self.step = 2.0 * np.pi / 2**bits

    @tf.custom_gradient
    def taps(self, phase: tf.Tensor, taper: tf.Tensor):
        """In-phase and quadrature taps ``taper * (cos p, sin p)`` of the rounded phase ``p``.

        Rounding has no useful derivative. The gradient with respect to ``phase`` is a
        straight-through estimate: the rounding counts as the identity, and the derivative of
        cos / sin is taken at the rounded phase. The gradient with respect to ``taper`` is exact.

        Args:
          phase: ``(..., elements)`` commanded phase, radians.
          taper: ``(elements,)`` amplitude taper, shared by all leading dimensions.

        Returns:
          A pair ``(in_phase, quadrature)``, each of the shape of ``phase``.
        """
        step = tf.constant(self.step, phase.dtype)
        p = step * tf.round(phase / step)
        c, s = tf.cos(p), tf.sin(p)

        def grad(d_i, d_q):
            dphase = taper * (d_q * c - d_i * s)
            dtaper = d_i * c + d_q * s
            dtaper = tf.reduce_sum(tf.reshape(dtaper, [-1, tf.shape(taper)[0]]), axis=0)
            return dphase, dtaper

        return (taper * c, taper * s), grad

    def gain(self, phase, taper, steering_i, steering_q):
        """Power towards a direction with steering vector ``steering_i + 1j * steering_q``."""
        i, q = self.taps(phase, taper)
        re = tf.reduce_sum(i * steering_i - q * steering_q, axis=-1)
        im = tf.reduce_sum(i * steering_q + q * steering_i, axis=-1)
        return re**2 + im**2


def fit_offsets(scan: PolarimeterScan, tod, sky, efficiency, offset, lr=1e-2, steps=50):
    sky, offset = tf.Variable(sky), tf.Variable(offset)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            model = scan.timestream(
                tf.convert_to_tensor(sky), efficiency, tf.convert_to_tensor(offset)
            )
            loss = tf.reduce_mean(tf.square(model - tod))
        for var, g in zip((sky, offset), tape.gradient(loss, (sky, offset))):
            var.assign_sub(lr * g)
    return sky.numpy(), offset.numpy()
