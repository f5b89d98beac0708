"""Losses and head layers for the dense detectors."""
import tensorflow as tf

EPS = 1e-5


def _reduce(per_anchor, reduction):
    if reduction == "none":
        return per_anchor
    if reduction == "sum":
        return tf.reduce_sum(per_anchor)
    if reduction == "mean":
        return tf.reduce_mean(per_anchor)
    raise ValueError(f"unknown reduction {reduction!r}")


def sigmoid_focal_loss(logits, labels, alpha=0.25, gamma=2.0, reduction="none"):
    """Focal loss of RetinaNet, https://arxiv.org/abs/1708.02002.

    Args:
        logits: float tensor of any shape.
        labels: integer tensor of 0s and 1s with the same shape.
        alpha: weight of the positives; the negatives get 1 - alpha.
        gamma: focusing parameter, >= 0.
        reduction: "none", "sum" or "mean".
    """
    labels = tf.cast(labels, tf.bool)

    @tf.custom_gradient
    def focal(logits):
        sign = tf.where(labels, tf.ones_like(logits), -tf.ones_like(logits))
        alpha_t = tf.where(labels, alpha * tf.ones_like(logits), (1.0 - alpha) * tf.ones_like(logits))
        ce = tf.nn.softplus(-sign * logits)
        miss = tf.sigmoid(-sign * logits)   # 1 - p_t
        mod = alpha_t * tf.pow(miss, gamma)

        def grad(upstream):
            if reduction == "mean":
                upstream = upstream / tf.cast(tf.size(logits), logits.dtype)
            p_t = tf.sigmoid(sign * logits)
            return -upstream * sign * mod * (miss + gamma * p_t * ce)

        return _reduce(mod * ce, reduction), grad

    return focal(logits)


def box_huber_loss(pred, target, weights, delta=0.1, reduction="sum_by_nonzero_weights"):
    # pred, target: [B, A, 4]; weights: [B, A], zero for anchors which are not matched
    # target and weights come from the anchor assigner and need no gradient
    @tf.custom_gradient
    def huber(pred):
        err = pred - target
        small = tf.abs(err) <= delta
        per_coord = tf.where(small, 0.5 * err ** 2, delta * tf.abs(err) - 0.5 * delta ** 2)
        loss = tf.reduce_sum(per_coord, axis=-1) * weights
        matched = tf.cast(tf.math.count_nonzero(weights), loss.dtype)
        if reduction == "sum":
            out = tf.reduce_sum(loss)
        else:
            out = tf.math.divide_no_nan(tf.reduce_sum(loss), matched)

        def grad(upstream):
            d = tf.clip_by_value(err, -delta, delta) * weights[..., tf.newaxis]
            if reduction != "sum":
                d = d / tf.cast(tf.size(weights), d.dtype)
            return upstream * d

        return out, grad

    return huber(pred)


@tf.custom_gradient
def gem_pool(x, p):
    """Generalized mean over height and width.

    (mean_hw max(x, 1e-6)^p)^(1/p), evaluated through logarithms.

    :param x: feature map, [B, H, W, C]
    :param p: exponent, scalar tensor, >= 1
    :return: [B, C]
    """
    log_x = tf.math.log(tf.maximum(x, 1e-6))
    n = tf.cast(tf.shape(x)[1] * tf.shape(x)[2], x.dtype)
    log_y = (tf.reduce_logsumexp(p * log_x, axis=[1, 2], keepdims=True) - tf.math.log(n)) / p
    y = tf.exp(log_y)

    def grad(g):
        g = g[:, tf.newaxis, tf.newaxis, :]
        share = tf.exp(p * (log_x - log_y)) / n     # sums to one over H, W
        dx = tf.where(x > 1e-6, g * share * tf.exp(log_y - log_x), tf.zeros_like(x))
        dp = tf.reduce_sum(g * y * (tf.reduce_sum(share * log_x, axis=[1, 2], keepdims=True) - log_y)) / p
        return dx, dp

    return tf.squeeze(y, [1, 2]), grad


class WSConv2D(tf.keras.layers.Layer):
    """Convolution with a weight-standardized kernel (BiT, NFNets)."""

    def __init__(self, filters, kernel_size=3, strides=1, padding="SAME", **kwargs):
        super().__init__(**kwargs)
        self.filters = filters
        self.kernel_size = kernel_size
        self.strides = strides
        self.padding = padding.upper()

    def build(self, input_shape):
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.kernel_size, self.kernel_size, input_shape[-1], self.filters),
            initializer="he_normal",
        )

    def call(self, inputs):
        strides = [1, self.strides, self.strides, 1]

        @tf.custom_gradient
        def ws_conv(x):
            w = tf.convert_to_tensor(self.kernel)
            mean, var = tf.nn.moments(w, axes=[0, 1, 2], keepdims=True)
            inv = tf.math.rsqrt(var + EPS)
            w_hat = (w - mean) * inv
            y = tf.nn.conv2d(x, w_hat, strides=strides, padding=self.padding)

            def grad(dy, variables=None):
                dx = tf.raw_ops.Conv2DBackpropInput(
                    input_sizes=tf.shape(x), filter=w_hat, out_backprop=dy,
                    strides=strides, padding=self.padding)
                d_hat = tf.raw_ops.Conv2DBackpropFilter(
                    input=x, filter_sizes=tf.shape(w), out_backprop=dy,
                    strides=strides, padding=self.padding)
                proj = tf.reduce_mean(d_hat * w_hat, axis=[0, 1], keepdims=True)
                dw = inv * (d_hat - tf.reduce_mean(d_hat, axis=[0, 1], keepdims=True) - w_hat * proj)
                return dx, [dw]

            return y, grad

        return ws_conv(inputs)


class BoxHead(tf.keras.layers.Layer):
    def __init__(self, anchors=9, depth=2, width=32, **kwargs):
        super().__init__(**kwargs)
        self.convs = [WSConv2D(width) for _ in range(depth)]
        self.out = tf.keras.layers.Conv2D(4 * anchors, 3, padding="same")

    def call(self, x):
        for conv in self.convs:
            x = tf.nn.relu(conv(x))
        x = self.out(x)
        return tf.reshape(x, [tf.shape(x)[0], -1, 4])


def detection_loss(cls_logits, boxes, cls_labels, box_targets, box_weights, box_factor=50.0):
    cls = sigmoid_focal_loss(cls_logits, cls_labels, reduction="mean")
    return cls + box_factor * box_huber_loss(boxes, box_targets, box_weights)
