"""Shading terms of the inverse renderer: coat tables and indexed colour."""

from typing import Optional

import numpy as np
import tensorflow as tf


class ClearcoatTable:
    """A table of clear coats, looked up by a material id per sample.

    Attributes:
        min_roughness: roughness below this is clamped by the caller, not here.
        energy_scale: global multiplier of the lobe.
    """

    def __init__(self, energy_scale: float = 1.0, min_roughness: float = 0.03):
        self.energy_scale = energy_scale
        self.min_roughness = min_roughness

    @tf.custom_gradient
    def evaluate(self, table, material, n_dot_h, v_dot_h):
        """GGX distribution times Schlick Fresnel.

        Args:
            table: dict of per-material parameters, ``{"f0": [M], "roughness": [M]}``, with f0 in [0, 1] and
                roughness in (0, 1].
            material: int tensor [S], material of each sample, in ``[0, M)``.
            n_dot_h: [S] cosine between normal and half vector, in [0, 1].
            v_dot_h: [S] cosine between view and half vector, in [0, 1].

        Returns:
            [S] value of the specular lobe.
        """
        f0 = tf.gather(table["f0"], material)
        rough = tf.gather(table["roughness"], material)
        a2 = tf.square(rough)
        t = tf.square(n_dot_h) * (a2 - 1.0) + 1.0
        lobe = self.energy_scale * a2 / (np.pi * tf.square(t))
        grazing = 1.0 - v_dot_h
        g4 = tf.square(tf.square(grazing))
        fresnel = f0 + (1.0 - f0) * g4 * grazing
        count = tf.shape(table["f0"])[0]

        def grad(upstream):
            dfresnel = upstream * lobe
            dlobe = upstream * fresnel * lobe
            df0 = tf.math.unsorted_segment_sum(dfresnel * (1.0 - g4 * grazing), material, count)
            drough = 2.0 * dlobe * (1.0 / rough - 2.0 * rough * tf.square(n_dot_h) / t)
            drough = tf.tensor_scatter_nd_update(
                tf.zeros_like(table["roughness"]), material[:, None], drough
            )
            dn = -4.0 * dlobe * n_dot_h * (a2 - 1.0) / t
            dv = -5.0 * dfresnel * (1.0 - f0) * g4
            return {"f0": df0, "roughness": drough}, None, dn, dv

        return lobe * fresnel, grad

    def clamp(self, table):
        return {**table, "roughness": tf.maximum(table["roughness"], self.min_roughness)}

    def __call__(self, table, material, n_dot_h, v_dot_h):
        return self.evaluate(self.clamp(table), material, n_dot_h, v_dot_h)


def make_palette_snap(keep: Optional[np.ndarray] = None):
    """Replace every pixel by the nearest colour of a palette.

    `keep` is an optional boolean array [height, width]: pixels where it is true pass through unchanged.

    The lookup is flat almost everywhere in the image, so on purpose the image does not receive the derivative of the
    forward pass: it receives the upstream gradient unchanged (straight-through estimator), for snapped and kept
    pixels alike. The palette receives the ordinary gradient, the sum of upstream over the pixels that it coloured.
    """

    @tf.custom_gradient
    def snap(image, palette):
        colours = palette.shape[0]
        distance = tf.reduce_sum(tf.square(image[..., None, :] - palette), axis=-1)
        index = tf.argmin(distance, axis=-1, output_type=tf.int32)
        out = tf.gather(palette, index)
        if keep is not None:
            out = tf.where(keep[..., None], image, out)

        def grad(upstream):
            painted = upstream
            if keep is not None:
                painted = tf.where(keep[..., None], tf.zeros_like(upstream), upstream)
            dpalette = tf.math.unsorted_segment_sum(
                tf.reshape(painted, [-1, palette.shape[1]]), tf.reshape(index, [-1]), colours
            )
            return upstream, dpalette

        return out, grad

    return snap


palette_snap = make_palette_snap()


def texture_loss(image, palette, target, keep=None):
    """Mean squared error of the indexed texture."""
    snap = palette_snap if keep is None else make_palette_snap(keep)
    return tf.reduce_mean(tf.square(snap(image, palette) - target))
