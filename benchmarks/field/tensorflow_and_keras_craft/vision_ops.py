"""pooling, sampling and segmentation losses (NHWC)."""
import numpy as np
import tensorflow as tf

GEM_EPS = 1e-6
BINOMIAL = np.array([1.0, 2.0, 1.0])


def _like(p, full):
    # sum `full` [N, C] to the shape of the parameter, () or [C]
    if p.shape.rank == 0:
        return tf.reduce_sum(full)
    return tf.reduce_sum(full, axis=0)


@tf.custom_gradient
def gem_pool(x, p):
    """Generalized mean over space: [N,H,W,C], p scalar or [C] (> 0) -> [N,C]."""
    x_pos = tf.maximum(x, GEM_EPS)
    log_x = tf.math.log(x_pos)
    # in log space, large p would overflow otherwise
    n = tf.cast(tf.shape(x)[1] * tf.shape(x)[2], x.dtype)
    log_y = (tf.reduce_logsumexp(p * log_x, axis=[1, 2]) - tf.math.log(n)) / p
    y = tf.exp(log_y)

    def grad(dy):
        z = p * log_x
        share = tf.exp(z - tf.reduce_logsumexp(z, axis=[1, 2], keepdims=True))
        dx = (dy * y)[:, None, None, :] * share / x_pos
        dx = tf.where(x > GEM_EPS, dx, tf.zeros_like(dx))
        mean_log = tf.reduce_sum(share * log_x, axis=[1, 2])
        dp = _like(p, dy * y * (mean_log - log_y) / p)
        return dx, dp

    return y, grad


class GeM(tf.keras.layers.Layer):
    def __init__(self, p=3.0, per_channel=False, **kw):
        super().__init__(**kw)
        self.p0 = p
        self.per_channel = per_channel

    def build(self, shape):
        self.p = self.add_weight(
            shape=(shape[-1],) if self.per_channel else (),
            initializer=tf.keras.initializers.Constant(self.p0),
            name="p",
        )

    def call(self, x):
        return gem_pool(x, tf.convert_to_tensor(self.p))


@tf.custom_gradient
def blur_pool(x, *, stride=2):
    """Anti-aliased subsampling (Zhang 2019) with the 3x3 binomial filter."""
    channels = x.shape[-1]
    k = np.outer(BINOMIAL, BINOMIAL)
    k = tf.constant(k / k.sum(), x.dtype)[:, :, None, None]
    k = tf.tile(k, [1, 1, channels, 1])
    strides = [1, stride, stride, 1]
    out = tf.nn.depthwise_conv2d(x, k, strides=strides, padding="SAME")

    def grad(dy):
        return tf.nn.depthwise_conv2d_backprop_input(
            tf.shape(x), k, dy, strides=strides, padding="SAME")

    return out, grad


@tf.custom_gradient
def bilinear_sample(image, points):
    """image [N,H,W,C], points [N,P,2] as (row, col) in pixels -> [N,P,C].

    Points outside are clamped to the border.
    """
    n, h, w, c = image.shape
    row, col = points[..., 0], points[..., 1]
    inside_r = tf.logical_and(row > 0.0, row < h - 1.0)
    inside_c = tf.logical_and(col > 0.0, col < w - 1.0)
    row = tf.clip_by_value(row, 0.0, h - 1.0)
    col = tf.clip_by_value(col, 0.0, w - 1.0)
    r0 = tf.minimum(tf.cast(tf.floor(row), tf.int32), h - 2)
    c0 = tf.minimum(tf.cast(tf.floor(col), tf.int32), w - 2)
    fr = (row - tf.cast(r0, row.dtype))[..., None]
    fc = (col - tf.cast(c0, col.dtype))[..., None]

    base = tf.range(n)[:, None] * (h * w) + r0 * w + c0
    ids = [base, base + 1, base + w, base + w + 1]
    flat = tf.reshape(image, [-1, c])
    v00, v01, v10, v11 = [tf.gather(flat, i) for i in ids]
    weights = [(1 - fr) * (1 - fc), (1 - fr) * fc, fr * (1 - fc), fr * fc]
    out = weights[0] * v00 + weights[1] * v01 + weights[2] * v10 + weights[3] * v11

    def grad(dy):
        where = tf.reshape(tf.stack(ids), [-1, 1])
        what = tf.reshape(tf.stack([wgt * dy for wgt in weights]), [-1, c])
        d_image = tf.tensor_scatter_nd_update(tf.zeros_like(flat), where, what)

        d_row = tf.reduce_sum(dy * ((1 - fc) * (v10 - v00) + fc * (v11 - v01)), -1)
        d_col = tf.reduce_sum(dy * ((1 - fr) * (v01 - v00) + fr * (v11 - v10)), -1)
        d_row = tf.where(inside_r, d_row, tf.zeros_like(d_row))
        d_col = tf.where(inside_c, d_col, tf.zeros_like(d_col))
        return tf.reshape(d_image, image.shape), tf.stack([d_row, d_col], -1)

    return out, grad


@tf.custom_gradient
def soft_argmax(heat, beta):
    """Expected (col, row) of softmax(beta * heat) for keypoint heads.

    heat [N,H,W,K], beta scalar -> two tensors [N,K].
    """
    n, h, w, k = heat.shape
    flat = tf.reshape(heat, [n, h * w, k])
    prob = tf.nn.softmax(beta * flat, axis=1)
    cols, rows = tf.meshgrid(tf.range(w), tf.range(h))
    cols = tf.cast(tf.reshape(cols, [1, -1, 1]), heat.dtype)
    rows = tf.cast(tf.reshape(rows, [1, -1, 1]), heat.dtype)
    u = tf.reduce_sum(prob * cols, axis=1)
    v = tf.reduce_sum(prob * rows, axis=1)

    def grad(du, dv):
        cell = tf.range(h * w)
        x = tf.cast(cell % w, heat.dtype)[None, :, None] - u[:, None]
        y = tf.cast(cell // h, heat.dtype)[None, :, None] - v[:, None]
        d_logits = prob * (x * du[:, None] + y * dv[:, None])
        d_beta = tf.reduce_sum(d_logits * flat)
        return tf.reshape(beta * d_logits, heat.shape), d_beta

    return (u, v), grad


class SoftDiceLoss:
    """Multi-class soft Dice.

    logits [N,H,W,C], labels [N,H,W] int.  batch_dice pools the overlap of all
    images of the batch before the ratio, otherwise the images' losses are averaged.
    """

    def __init__(self, class_weights=None, batch_dice=False, smooth=1.0):
        self.class_weights = class_weights
        self.batch_dice = batch_dice
        self.smooth = smooth

    def __call__(self, logits, labels):
        classes = logits.shape[-1]
        target = tf.one_hot(labels, classes, dtype=logits.dtype)
        if self.class_weights is None:
            cw = tf.ones([classes], logits.dtype)
        else:
            cw = tf.constant(self.class_weights, logits.dtype)
        cw = cw / tf.reduce_sum(cw)
        axes = [0, 1, 2] if self.batch_dice else [1, 2]

        @tf.custom_gradient
        def dice(logits):
            prob = tf.nn.softmax(logits)
            top = 2.0 * tf.reduce_sum(prob * target, axes) + self.smooth
            bot = tf.reduce_sum(prob + target, axes) + self.smooth
            per_class = 1.0 - top / bot                    # [N, C] or [C]
            images = 1 if self.batch_dice else logits.shape[0]
            loss = tf.reduce_sum(per_class * cw) / images

            def grad(g):
                num = 2.0 * tf.reduce_sum(prob * target, [1, 2], keepdims=True) + self.smooth
                den = tf.reduce_sum(prob + target, [1, 2], keepdims=True) + self.smooth
                d_prob = -cw * (2.0 * target * den - num) / tf.square(den) / images
                inner = tf.reduce_sum(d_prob * prob, axis=-1, keepdims=True)
                return g * prob * (d_prob - inner)

            return loss, grad

        return dice(logits)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    feat = tf.Variable(rng.normal(size=(2, 12, 16, 3)).astype("float32"))
    with tf.GradientTape() as tape:
        low = blur_pool(feat, stride=3)
        desc = GeM(per_channel=True)(tf.nn.softplus(low))
        u, v = soft_argmax(feat, tf.constant(2.0))
        kp = bilinear_sample(feat, tf.stack([v, u], -1))
        seg = SoftDiceLoss([1, 2, 4], batch_dice=True)(
            feat, rng.integers(0, 3, size=(2, 12, 16)))
        total = tf.reduce_sum(desc) + tf.reduce_sum(kp) + seg
    print(float(total), tape.gradient(total, feat).shape)
