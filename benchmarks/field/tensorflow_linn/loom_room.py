"""Fabric engineering terms for the sett optimiser."""

import math

import tensorflow as tf

GRID_LIMIT = 28.0


def yarn_diameter_mm(count_ne):
    return 25.4 / (28.0 * tf.sqrt(count_ne))


@tf.custom_gradient
def cloth_cover(count_ne, warp_yarn, weft_yarn, ends, picks):
    """Pierce cloth cover factor of each article from the yarn stock list."""
    warp_count = tf.gather(count_ne, warp_yarn)
    weft_count = tf.gather(count_ne, weft_yarn)
    k1 = ends * tf.math.rsqrt(warp_count)
    k2 = picks * tf.math.rsqrt(weft_count)
    cover = k1 + k2 - k1 * k2 / GRID_LIMIT

    def grad(upstream):
        g1 = upstream * (1.0 - k2 / GRID_LIMIT)
        g2 = upstream * (1.0 - k1 / GRID_LIMIT)
        d_count = tf.tensor_scatter_nd_update(
            tf.zeros_like(count_ne),
            warp_yarn[..., tf.newaxis],
            -0.5 * g1 * k1 / warp_count,
        )
        d_count = tf.tensor_scatter_nd_add(
            d_count,
            weft_yarn[..., tf.newaxis],
            -0.5 * g2 * k2 / weft_count,
        )
        return (
            d_count,
            None,
            None,
            g1 * tf.math.rsqrt(warp_count),
            g2 * tf.math.rsqrt(weft_count),
        )

    return cover, grad


def make_drape_coefficient(plate_radius=15.0, disc_radius=9.0, axis=-1):
    ring = math.pi * (plate_radius**2 - disc_radius**2)

    @tf.custom_gradient
    def drape_coefficient(radius):
        n = radius.shape[axis]
        wedge = 0.5 * math.sin(2.0 * math.pi / n)
        nxt = tf.roll(radius, shift=-1, axis=axis)
        area = wedge * tf.reduce_sum(radius * nxt, axis=axis)

        def grad(upstream):
            prev = tf.roll(radius, shift=1, axis=axis)
            return tf.expand_dims(upstream, axis) * (wedge / ring) * (nxt + prev)

        return (area - math.pi * disc_radius**2) / ring, grad

    return drape_coefficient


class SettPlan(tf.Module):
    """Trainable ends and picks per inch for a list of articles."""

    def __init__(self, ends, picks, name=None):
        super().__init__(name=name)
        self.ends = tf.Variable(ends, dtype=tf.float32)
        self.picks = tf.Variable(picks, dtype=tf.float32)

    def __call__(self, count_ne, warp_yarn, weft_yarn):
        return cloth_cover(
            count_ne,
            warp_yarn,
            weft_yarn,
            tf.convert_to_tensor(self.ends),
            tf.convert_to_tensor(self.picks),
        )
