"""Registration and noise stabilisation of fluorescence image stacks (TensorFlow)."""

import tensorflow as tf

MODES = ("edge", "wrap")


def _fold(grad, like):
    # undo numpy-style broadcasting of a camera constant over the stack
    lead = grad.shape.rank - like.shape.rank
    axes = list(range(lead)) + [lead + i for i, n in enumerate(like.shape) if n == 1]
    return tf.reshape(tf.reduce_sum(grad, axis=axes), like.shape)


@tf.custom_gradient
def stabilise_counts(counts, gain, offset, read_noise):
    """Generalised Anscombe transform of Poisson-Gaussian counts.

    counts      [frames, height, width] camera units
    gain        camera units per electron, scalar, [width] or [height, width]
    offset      camera bias, as gain
    read_noise  standard deviation of the read-out, as gain

    Pixels so dark that the root has no argument give zero.
    """
    signal = counts - offset
    inside = gain * signal + 0.375 * gain * gain + read_noise * read_noise
    lit = inside > 0
    root = tf.sqrt(tf.where(lit, inside, tf.ones_like(inside)))
    out = tf.where(lit, 2.0 * root / gain, tf.zeros_like(inside))

    def grad(upstream):
        live = tf.where(lit, upstream / root, tf.zeros_like(upstream))
        d_gain = live * (signal + 0.75 * gain) / gain - upstream * out / gain
        return (
            live,
            _fold(d_gain, gain),
            _fold(-live, offset),
            _fold(live * 2.0 * read_noise / gain, read_noise),
        )

    return out, grad


def make_mosaic(num_pixels, normalise=True):
    """Build the operator that paints overlapping tile samples onto one canvas.

    Parameters
    ----------
    num_pixels : int
        Pixels of the flattened canvas.
    normalise : bool
        Divide by the summed weight of each pixel (feathered blending). Otherwise the weighted samples
        are only added up, as for photon counting.

    Returns
    -------
    callable
        ``mosaic(samples, weights, pixel)`` with ``samples`` ``[n, channels]``, positive ``weights`` ``[n]``
        and the integer ``pixel`` ``[n]`` that each sample falls on. Pixels nobody sees are zero.
    """

    @tf.custom_gradient
    def mosaic(samples, weights, pixel):
        painted = tf.math.unsorted_segment_sum(samples * weights[:, None], pixel, num_pixels)
        cover = tf.math.unsorted_segment_sum(weights, pixel, num_pixels)
        if normalise:
            scale = tf.math.divide_no_nan(tf.ones_like(cover), cover)
        else:
            scale = tf.ones_like(cover)
        canvas = painted * scale[:, None]

        def grad(upstream):
            seen = tf.gather(upstream * scale[:, None], pixel)
            contrast = samples - tf.gather(canvas, pixel)
            d_weights = tf.reduce_sum(seen * contrast, axis=-1)
            return seen * weights[:, None], d_weights, None

        return canvas, grad

    return mosaic


def make_subpixel_shift(mode="edge"):
    """Shift every frame of a stack along its width by a fraction of a pixel.

    ``mode`` says what lies outside the frame: its last column ("edge") or its other side ("wrap").
    The returned function takes ``frames`` [n, height, width, channels] and ``shift`` [n] in pixels; output
    column i is read at i + shift by linear interpolation.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {MODES}, got {mode!r}")

    @tf.custom_gradient
    def shift_frames(frames, shift):
        count, height, width, channels = frames.shape
        whole = tf.floor(shift)
        fraction = (shift - whole)[:, None, None, None]
        left = tf.range(width)[None, :] + tf.cast(whole, tf.int32)[:, None]
        if mode == "wrap":
            low, high = tf.math.floormod(left, width), tf.math.floormod(left + 1, width)
        else:
            low, high = (tf.clip_by_value(k, 0, width - 1) for k in (left, left + 1))
        columns = tf.transpose(frames, [0, 2, 1, 3])
        at_low = tf.gather(columns, low, batch_dims=1)
        at_high = tf.gather(columns, high, batch_dims=1)
        moved = at_low + fraction * (at_high - at_low)

        def grad(upstream):
            seed = tf.transpose(upstream, [0, 2, 1, 3])
            d_shift = tf.reduce_sum(seed * (at_high - at_low), axis=[1, 2, 3])
            frame = tf.broadcast_to(tf.range(count)[:, None], low.shape)
            shape = [count, width, height, channels]
            d_columns = tf.scatter_nd(tf.stack([frame, low], -1), seed * (1.0 - fraction), shape)
            d_columns += tf.scatter_nd(tf.stack([frame, high], -1), seed * fraction, shape)
            return tf.transpose(d_columns, [0, 2, 1, 3]), d_shift

        return tf.transpose(moved, [0, 2, 1, 3]), grad

    return shift_frames


class DriftCorrection(tf.keras.layers.Layer):
    """Learns one drift per frame and undoes it."""

    def __init__(self, frames, mode="edge", **kwargs):
        super().__init__(**kwargs)
        self._shift = make_subpixel_shift(mode)
        self.drift = self.add_weight(name="drift", shape=(frames,), initializer="zeros")

    def call(self, stack):
        return self._shift(stack, tf.convert_to_tensor(self.drift))
