"""Framing of waveforms and sampling of images."""

import tensorflow as tf


def frame_log_energy(signal, frame_length, frame_step=None, floor=1e-10):
    """Log energy of the frames of a waveform.

    :param signal: waveform of shape ``[batch, samples]``
    :param frame_length: samples in a frame
    :param frame_step: samples between the starts of two frames; the frame length
        if not given. Samples that fill no frame are dropped.
    :param floor: added to the energy before the logarithm
    :return: tensor of shape ``[batch, frames]``
    """
    step = frame_length if frame_step is None else frame_step
    signal = tf.convert_to_tensor(signal)
    samples = signal.shape[-1]
    starts = tf.range(0, samples - frame_length + 1, step)
    index = starts[:, tf.newaxis] + tf.range(frame_length)[tf.newaxis, :]

    @tf.custom_gradient
    def _energy(signal):
        frames = tf.gather(signal, index, axis=-1)
        energy = tf.reduce_sum(tf.square(frames), axis=-1) + floor

        def grad(dy):
            d_frames = 2.0 * frames * (dy / energy)[..., tf.newaxis]
            # time first, so that one scatter serves the whole batch
            updates = tf.transpose(tf.reshape(d_frames, [tf.shape(signal)[0], -1]))
            positions = tf.reshape(index, [-1, 1])
            out = tf.tensor_scatter_nd_update(
                tf.zeros_like(tf.transpose(signal)), positions, updates)
            return tf.transpose(out)

        return tf.math.log(energy), grad

    return _energy(signal)


def _fetch(image, ys, xs):
    height, width = tf.shape(image)[1], tf.shape(image)[2]
    inside = (ys >= 0) & (ys < height) & (xs >= 0) & (xs < width)
    ys = tf.clip_by_value(ys, 0, height - 1)
    xs = tf.clip_by_value(xs, 0, width - 1)
    picked = tf.gather_nd(image, tf.stack([ys, xs], axis=-1), batch_dims=1)
    return tf.cast(inside, image.dtype)[..., tf.newaxis], ys, xs, picked


@tf.custom_gradient
def bilinear_sample(image, points):
    """Samples images at real positions, with zeros beyond the border.

    :param image: ``[batch, height, width, channels]``
    :param points: ``[batch, count, 2]``, pixel coordinates as ``(x, y)``
    :return: ``[batch, count, channels]``
    """
    x, y = points[..., 0], points[..., 1]
    x0, y0 = tf.floor(x), tf.floor(y)
    fx = (x - x0)[..., tf.newaxis]
    fy = (y - y0)[..., tf.newaxis]
    x0, y0 = tf.cast(x0, tf.int32), tf.cast(y0, tf.int32)
    corners = []
    for dy in (0, 1):
        for dx in (0, 1):
            keep, ys, xs, value = _fetch(image, y0 + dy, x0 + dx)
            wy = fy if dy else 1.0 - fy
            wx = fx if dx else 1.0 - fx
            corners.append((keep, ys, xs, value * keep, wy, wx))
    out = tf.add_n([v * wy * wx for _, _, _, v, wy, wx in corners])

    def grad(upstream):
        v00, v01, v10, v11 = (c[3] for c in corners)
        d_x = (1.0 - fy) * (v01 - v00) + fy * (v11 - v10)
        d_y = (1.0 - fx) * (v10 - v00) + fx * (v11 - v01)
        d_points = tf.stack([tf.reduce_sum(upstream * d_x, axis=-1),
                             tf.reduce_sum(upstream * d_y, axis=-1)], axis=-1)
        batch = tf.shape(image)[0]
        rows = tf.range(batch)[:, tf.newaxis] * tf.ones_like(corners[0][1])
        d_image = tf.zeros_like(image)
        for keep, ys, xs, _, wy, wx in corners:
            d_image = tf.tensor_scatter_nd_add(
                d_image, tf.stack([rows, ys, xs], axis=-1),
                upstream * keep * wy * wx)
        return d_image, d_points

    return out, grad


class SpatialTransformer(tf.Module):
    """Warps feature maps by an affine matrix per example."""

    def __init__(self, out_height, out_width, name=None):
        super().__init__(name=name)
        self.out_height = out_height
        self.out_width = out_width

    def __call__(self, image, theta):
        ys, xs = tf.meshgrid(tf.range(self.out_height), tf.range(self.out_width),
                             indexing="ij")
        grid = tf.stack([xs, ys, tf.ones_like(xs)], axis=-1)
        grid = tf.cast(tf.reshape(grid, [-1, 3]), image.dtype)
        points = tf.einsum("nk,bjk->bnj", grid, theta)
        sampled = bilinear_sample(image, points)
        return tf.reshape(
            sampled, [-1, self.out_height, self.out_width, image.shape[-1]])
