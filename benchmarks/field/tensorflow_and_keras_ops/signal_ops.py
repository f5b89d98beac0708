"""Audio and image helper ops. Ported from our TF 1.x code base, runs eagerly and in graphs."""
import numpy as np
import tensorflow.compat.v1 as tf

MU = 255.0


@tf.custom_gradient
def mu_law_encode(x):
    """mu-law companding of a waveform in [-1, 1]."""
    denom = np.log1p(MU)
    y = tf.sign(x) * tf.log1p(MU * tf.abs(x)) / denom

    def grad(dy):
        return dy * MU / (denom * (1.0 + MU * tf.abs(x)))

    return y, grad


def avg_pool_same(x, k=2, stride=2):
    """Average pooling with SAME padding.

    x: [batch, height, width, channels]
    """
    strides = [1, stride, stride, 1]

    @tf.custom_gradient
    def _pool(x):
        y = tf.nn.avg_pool(x, ksize=[1, k, k, 1], strides=strides, padding="SAME")
        in_shape = tf.shape(x)
        channels = x.get_shape().as_list()[-1]

        def grad(dy):
            box = tf.ones([k, k, channels, 1], dy.dtype) / float(k * k)
            return tf.nn.depthwise_conv2d_native_backprop_input(in_shape, box, dy, strides, "SAME")

        return y, grad

    return _pool(x)


def _shuffle(x, groups):
    n, h, w, c = x.get_shape().as_list()
    x = tf.reshape(x, [-1, h, w, groups, c // groups])
    return tf.reshape(tf.transpose(x, [0, 1, 2, 4, 3]), [-1, h, w, c])


def channel_shuffle(x, groups):
    """ShuffleNet channel shuffle, NHWC."""

    @tf.custom_gradient
    def _fn(x):
        def grad(dy):
            return _shuffle(dy, groups)

        return _shuffle(x, groups), grad

    return _fn(x)


def frame(signal, frame_length, frame_step):
    """Cuts the last axis into overlapping frames (a ragged tail is dropped).

    Args:
      signal: `[..., samples]`.
      frame_length: Samples per frame.
      frame_step: Hop, at most `frame_length`.

    Returns:
      `[..., frames, frame_length]`.
    """
    if frame_step > frame_length:
        raise ValueError("frame_step must not exceed frame_length")
    samples = signal.get_shape().as_list()[-1]
    n_frames = 1 + (samples - frame_length) // frame_step
    index = np.arange(n_frames)[:, None] * frame_step + np.arange(frame_length)[None, :]

    @tf.custom_gradient
    def _frame(signal):
        def grad(dframes):
            d = tf.signal.overlap_and_add(dframes, frame_step)
            covered = (n_frames - 1) * frame_step + frame_length
            rank = d.get_shape().ndims
            return tf.pad(d, [[0, 0]] * (rank - 1) + [[0, samples - covered]])

        return tf.gather(signal, index, axis=-1), grad

    return _frame(signal)


def pcen(energy, smooth, alpha, delta, r, eps=1e-6):
    @tf.custom_gradient
    def _pcen(energy, smooth, alpha, delta, r):
        m = eps + smooth
        gain = tf.pow(m, -alpha)
        u = energy * gain
        base = u + delta
        y = tf.pow(base, r) - tf.pow(delta, r)

        def grad(dy):
            lead = list(range(energy.get_shape().ndims - 1))
            db = dy * r * tf.pow(base, r - 1.0)
            d_energy = db * gain
            d_smooth = -db * alpha * u / m
            d_alpha = tf.reduce_sum(-db * u * tf.log(m), reduction_indices=lead)
            d_delta = tf.reduce_sum(db - dy * r * tf.pow(delta, r - 1.0), reduction_indices=lead)
            d_r = tf.reduce_sum(dy * tf.pow(base, r) * tf.log(base), reduction_indices=lead)
            return d_energy, d_smooth, d_alpha, d_delta, d_r

        return y, grad

    return _pcen(energy, smooth, alpha, delta, r)


class PCEN(object):
    """Per-channel energy normalisation with trainable parameters.

    Call with a mel spectrogram `[batch, time, n_mels]`.
    """

    def __init__(self, n_mels, alpha=0.98, delta=2.0, r=0.5, s=0.04):
        self.s = s
        self.alpha = tf.Variable(np.full([n_mels], alpha, np.float32), use_resource=True)
        self.delta = tf.Variable(np.full([n_mels], delta, np.float32), use_resource=True)
        self.r = tf.Variable(np.full([n_mels], r, np.float32), use_resource=True)

    def __call__(self, mel):
        out = [mel[:, 0]]
        for t in range(1, mel.get_shape().as_list()[1]):
            out.append((1.0 - self.s) * out[-1] + self.s * mel[:, t])
        smooth = tf.stack(out, axis=1)
        params = [tf.convert_to_tensor(v) for v in (self.alpha, self.delta, self.r)]
        return pcen(mel, smooth, *params)


@tf.custom_gradient
def bilinear_sample(image, points):
    """Reads an image at fractional positions, clamping to the border.

    Args:
      image: `[batch, height, width, channels]`, height and width at least 2.
      points: `[batch, n, 2]` as (row, column) in pixels.

    Returns:
      `[batch, n, channels]`
    """
    b, h, w, c = image.get_shape().as_list()
    n = points.get_shape().as_list()[1]
    top = tf.constant([h - 1, w - 1], points.dtype)
    inside = tf.logical_and(points >= 0, points <= top)
    q = tf.minimum(tf.maximum(points, 0), top)
    corner = tf.minimum(tf.floor(q), top - 1)
    f = q - corner
    fy, fx = f[..., 0:1], f[..., 1:2]
    corner = tf.cast(corner, tf.int32)
    batch = tf.tile(tf.reshape(tf.range(b), [b, 1]), [1, n])

    def at(dy, dx):
        return tf.stack([batch, corner[..., 0] + dy, corner[..., 1] + dx], axis=-1)

    idx = {(i, j): at(i, j) for i in (0, 1) for j in (0, 1)}
    val = {key: tf.gather_nd(image, ix) for key, ix in idx.items()}
    wgt = {(0, 0): (1 - fy) * (1 - fx), (0, 1): (1 - fy) * fx, (1, 0): fy * (1 - fx), (1, 1): fy * fx}
    out = tf.add_n([wgt[key] * val[key] for key in idx])

    def grad(dout):
        d_image = tf.add_n([tf.scatter_nd(idx[key], wgt[key] * dout, [b, h, w, c]) for key in idx])
        d_row = (1 - fx) * (val[1, 0] - val[0, 0]) + fx * (val[1, 1] - val[0, 1])
        d_col = (1 - fy) * (val[0, 1] - val[0, 0]) + fy * (val[1, 1] - val[1, 0])
        d_points = tf.stack(
            [tf.reduce_sum(dout * d_row, axis=-1), tf.reduce_sum(dout * d_col, axis=-1)], axis=-1
        )
        return d_image, tf.where(inside, d_points, tf.zeros_like(d_points))

    return out, grad
