from typing import Tuple

import tensorflow as tf


def _hat(v: tf.Tensor) -> tf.Tensor:
    x, y, z = tf.unstack(v, axis=-1)
    o = tf.zeros_like(x)
    rows = [
        tf.stack([o, -z, y], axis=-1),
        tf.stack([z, o, -x], axis=-1),
        tf.stack([-y, x, o], axis=-1),
    ]
    return tf.stack(rows, axis=-2)


def _vee_antisym(m: tf.Tensor) -> tf.Tensor:
    return tf.stack(
        [
            m[..., 2, 1] - m[..., 1, 2],
            m[..., 0, 2] - m[..., 2, 0],
            m[..., 1, 0] - m[..., 0, 1],
        ],
        axis=-1,
    )


def _rodrigues_coefficients(sq: tf.Tensor) -> Tuple[tf.Tensor, ...]:
    small = sq < 0.04
    safe = tf.where(small, tf.ones_like(sq), sq)
    t = tf.sqrt(safe)
    sin, cos = tf.sin(t), tf.cos(t)
    a = sin / t
    b = 2.0 * tf.square(tf.sin(0.5 * t)) / safe
    da = (cos - a) / safe
    db = (a - 2.0 * b) / safe
    a_s = 1 - sq / 6 * (1 - sq / 20 * (1 - sq / 42 * (1 - sq / 72)))
    b_s = 0.5 - sq / 24 * (1 - sq / 30 * (1 - sq / 56 * (1 - sq / 90)))
    da_s = -1 / 3 + sq / 30 * (1 - sq / 28 * (1 - sq / 54 * (1 - sq / 88)))
    db_s = -1 / 12 + sq / 180 * (1 - 3 * sq / 112 * (1 - sq / 67.5 * (1 - sq / 105.6)))
    return (
        tf.where(small, a_s, a),
        tf.where(small, b_s, b),
        tf.where(small, da_s, da),
        tf.where(small, db_s, db),
    )


@tf.custom_gradient
def so3_exp(omega: tf.Tensor):
    sq = tf.reduce_sum(tf.square(omega), axis=-1)
    a, b, da, db = _rodrigues_coefficients(sq)
    k = _hat(omega)
    kk = tf.matmul(k, k)
    eye = tf.eye(3, dtype=omega.dtype)
    rotation = eye + a[..., None, None] * k + b[..., None, None] * kk

    def grad(g: tf.Tensor) -> tf.Tensor:
        radial = da * tf.reduce_sum(g * k, axis=[-2, -1])
        radial += db * tf.reduce_sum(g * kk, axis=[-2, -1])
        gk = tf.matmul(g, k, transpose_b=True) + tf.matmul(k, g, transpose_a=True)
        direct = a[..., None] * _vee_antisym(g) + b[..., None] * _vee_antisym(gk)
        return radial[..., None] * omega + direct

    return rotation, grad


class CostVolume:
    """Correlation of two feature maps over a window of displacements.

    Parameters
    ----------
    max_displacement : int
        Largest displacement along either axis, in pixels.
    displacement_stride : int
        Step between neighbouring displacements.

    Notes
    -----
    The volume holds, for the displacement ``(dy, dx)``, the mean over channels of
    ``first[y, x] * second[y + dy, x + dx]``; outside of its frame `second` is zero.
    Displacements are in row-major order, from ``(-max, -max)``.
    """

    def __init__(self, max_displacement: int = 4, displacement_stride: int = 1):
        if max_displacement < 0 or displacement_stride < 1:
            raise ValueError("max_displacement must be >= 0 and displacement_stride >= 1")
        self.max_displacement = max_displacement
        self.displacement_stride = displacement_stride

    @property
    def displacements(self):
        steps = self.max_displacement // self.displacement_stride
        line = [i * self.displacement_stride for i in range(-steps, steps + 1)]
        return [(dy, dx) for dy in line for dx in line]

    def _windows(self, padded, height, width):
        m = self.max_displacement
        for dy, dx in self.displacements:
            yield (dy, dx), padded[:, m + dy : m + dy + height, m + dx : m + dx + width, :]

    def correlate(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Cost volume of two maps.

        Parameters
        ----------
        first, second : tf.Tensor
            Feature maps of shape ``[batch, height, width, channels]``.

        Returns
        -------
        tf.Tensor
            Volume of shape ``[batch, height, width, displacements]``.
        """
        m = self.max_displacement

        @tf.custom_gradient
        def _correlate(first, second):
            shape = tf.shape(first)
            height, width = shape[1], shape[2]
            scale = 1.0 / tf.cast(shape[3], first.dtype)
            padded = tf.pad(second, [[0, 0], [m, m], [m, m], [0, 0]])
            planes = [
                tf.reduce_sum(first * window, axis=-1)
                for _, window in self._windows(padded, height, width)
            ]

            def grad(upstream):
                upstream = tf.unstack(upstream * scale, axis=-1)
                d_first = tf.zeros_like(first)
                d_second = tf.zeros_like(second)
                for plane, ((dy, dx), window) in zip(
                    upstream, self._windows(padded, height, width)
                ):
                    plane = plane[..., None]
                    d_first += plane * window
                    d_second += tf.roll(plane * first, shift=[dy, dx], axis=[1, 2])
                return d_first, d_second

            return tf.stack(planes, axis=-1) * scale, grad

        return _correlate(tf.convert_to_tensor(first), tf.convert_to_tensor(second))

    __call__ = correlate
