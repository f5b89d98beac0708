"""Detection chain of the coastal surveillance radar: integration, CFAR, detection budget."""
from __future__ import annotations

import dataclasses
import math

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class CfarWindow:
    """Sliding window around the cell under test, in range cells per side."""

    train: int = 8
    guard: int = 2

    def kernel(self, dtype):
        side = [1.0] * self.train
        hole = [0.0] * (2 * self.guard + 1)
        return tf.constant(side + hole + side, dtype=dtype)


def _sum_to(x, like):
    """Sums x over the axes along which `like` was broadcast."""
    extra = x.shape.rank - like.shape.rank
    if extra > 0:
        x = tf.reduce_sum(x, axis=list(range(extra)))
    ones = [k for k, n in enumerate(like.shape) if n == 1 and x.shape[k] != 1]
    return tf.reduce_sum(x, axis=ones, keepdims=True) if ones else x


def _slide(rows, kernel):
    """Zero-padded correlation of [..., R] with a symmetric kernel, same length."""
    half = kernel.shape[0] // 2
    pad = [[0, 0]] * (rows.shape.rank - 1) + [[half, half]]
    frames = tf.signal.frame(tf.pad(rows, pad), kernel.shape[0], 1, axis=-1)
    return tf.tensordot(frames, kernel, axes=1)


def make_cfar(window: CfarWindow = CfarWindow(), pfa: float = 1e-4):
    """Cell-averaging CFAR for square-law video.

    The returned function maps `power` [..., R] and `valid` [..., R] (False for blanked
    cells: sector blanking, interference flagged upstream) to the threshold [..., R] of each
    cell. Blanked cells do not enter the noise estimate, and the multiplier follows the
    number N of cells that do: T = (pfa ** (-1 / N) - 1) * sum(power of the N cells).
    Cells without any valid neighbour get a threshold of zero.
    """
    log_pfa = math.log(pfa)

    def multiplier(valid, kernel):
        count = _slide(valid, kernel)
        alpha = tf.math.expm1(-log_pfa / tf.maximum(count, 1.0))
        return tf.where(count > 0.5, alpha, tf.zeros_like(alpha))

    @tf.custom_gradient
    def threshold(power, valid):
        kernel = window.kernel(power.dtype)
        keep = tf.cast(valid, power.dtype)
        alpha = multiplier(keep, kernel)
        level = alpha * _slide(keep * power, kernel)

        def grad(upstream):
            # the window is symmetric, so the adjoint is the same correlation
            return _slide(alpha * upstream, kernel), None

        return level, grad

    return threshold


class VideoIntegrator:
    def __init__(self, taper, detector: str = "square"):
        if detector not in ("square", "linear"):
            raise ValueError(f"unknown detector {detector!r}")
        self.taper = tf.convert_to_tensor(taper)
        self.detector = detector

    def _video(self, i, q):
        power = i * i + q * q
        return power if self.detector == "square" else tf.sqrt(power)

    def __call__(self, i, q, taper=None):
        taper = self.taper if taper is None else taper

        @tf.custom_gradient
        def integrate(i, q, taper):
            video = self._video(i, q)
            total = tf.reduce_sum(taper)
            out = tf.einsum("...pr,p->...r", video, taper) / total

            def grad(dy):
                w = taper[:, None] / total
                spread = dy[..., None, :] * w
                d_video = video - out[..., None, :]
                d_taper = tf.einsum("...r,...pr->...p", dy, d_video) / total
                d_taper = tf.reshape(d_taper, [-1, taper.shape[0]])
                return 2.0 * i * spread, 2.0 * q * spread, tf.reduce_sum(d_taper, axis=0)

            return out, grad

        return integrate(i, q, taper)


REFERENCE_RANGE = 1.0e4
LOG_PFA = math.log(1e-6)


@tf.custom_gradient
def swerling_detection(slant_range, rcs, snr_ref):
    """Single-pulse detection probability of slowly fluctuating (Swerling I) targets.

    Args:
      slant_range: metres, > 0, e.g. [scans, targets].
      rcs: mean cross-section in m^2, >= 0, broadcastable against slant_range (e.g. [targets]).
      snr_ref: linear signal-to-noise ratio of 1 m^2 at REFERENCE_RANGE; broadcastable.

    Returns:
      pfa ** (1 / (1 + snr)), in the broadcast shape of the three.
    """
    gain = (REFERENCE_RANGE / slant_range) ** 4
    snr = snr_ref * rcs * gain
    inv = 1.0 / (1.0 + snr)
    pd = tf.exp(LOG_PFA * inv)

    def grad(upstream):
        d_snr = -LOG_PFA * upstream * pd * inv * inv
        d_range = -4.0 * d_snr * snr / slant_range
        d_rcs = d_snr * snr_ref * gain
        d_ref = d_snr * rcs * gain
        return _sum_to(d_range, slant_range), _sum_to(d_rcs, rcs), _sum_to(d_ref, snr_ref)

    return pd, grad


if __name__ == "__main__":
    cfar = make_cfar(CfarWindow(train=4, guard=1))
    print(cfar(tf.ones([2, 24]), tf.ones([2, 24], tf.bool))[0])
