"""Normalisation ops with hand-written backward passes.

The stock versions keep five or six intermediates alive for the backward pass;
the ones here keep the normalised tensor and the inverse deviation only.
"""
import tensorflow as tf


def layer_norm(x, gamma, beta, epsilon=1e-5):
    """Layer normalisation over the last axis.

    Parameters
    ----------
    x : tf.Tensor, shape (..., features)
        Activations.
    gamma : tf.Tensor, shape (features,)
        Scale.
    beta : tf.Tensor, shape (features,)
        Offset.
    epsilon : float
        Added to the variance.

    Returns
    -------
    tf.Tensor, shape (..., features)
    """
    x = tf.convert_to_tensor(x)

    @tf.custom_gradient
    def _forward(x, gamma, beta):
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        centred = x - mean
        inv = tf.math.rsqrt(
            tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True) + epsilon
        )
        xhat = centred * inv

        def grad(dy):
            lead = list(range(x.shape.rank - 1))
            dgamma = tf.reduce_sum(dy * xhat, axis=lead)
            dbeta = tf.reduce_sum(dy, axis=lead)
            g = dy * gamma
            dx = inv * (
                g
                - tf.reduce_mean(g, axis=-1, keepdims=True)
                - xhat * tf.reduce_mean(g * xhat, axis=-1, keepdims=True)
            )
            return dx, dgamma, dbeta

        return xhat * gamma + beta, grad

    return _forward(x, gamma, beta)


@tf.custom_gradient
def instance_norm(x, gamma, beta):
    """Instance norm for images.

    Args:
        x: float tensor `[N, H, W, C]`.
        gamma: `[C]`.
        beta: `[C]`.

    Returns:
        Tensor `[N, H, W, C]`, every channel of every image standardised.
    """
    eps = 1e-5
    mean, var = tf.nn.moments(x, axes=[1, 2], keepdims=True)
    inv = tf.math.rsqrt(var + eps)
    xhat = (x - mean) * inv

    def grad(dy):
        axes = [0, 1, 2]
        dgamma = tf.reduce_sum(dy * xhat, axis=axes)
        dbeta = tf.reduce_sum(dy, axis=axes)
        g = dy * gamma
        m1 = tf.reduce_mean(g, axis=axes, keepdims=True)
        m2 = tf.reduce_mean(g * xhat, axis=axes, keepdims=True)
        return inv * (g - m1 - xhat * m2), dgamma, dbeta

    return gamma * xhat + beta, grad


class RMSNorm(tf.Module):
    """Root-mean-square normalisation with a learned scale.

    >>> norm = RMSNorm(8)
    >>> norm(tf.random.normal([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    """

    def __init__(self, dim, epsilon=1e-6, dtype=tf.float32, name=None):
        super().__init__(name=name)
        self.epsilon = epsilon
        self.scale = tf.Variable(tf.ones([dim], dtype), name="scale")

    def __call__(self, x):
        @tf.custom_gradient
        def _norm(x):
            inv = tf.math.rsqrt(
                tf.reduce_mean(x * x, axis=-1, keepdims=True) + self.epsilon
            )
            xhat = x * inv
            scale = self.scale.read_value()

            def grad(dy, variables=None):
                g = dy * scale
                dx = inv * (g - xhat * tf.reduce_mean(g * xhat, -1, keepdims=True))
                dscale = tf.reduce_sum(
                    tf.reshape(dy * xhat, [-1, scale.shape[0]]), axis=0
                )
                return dx, [dscale]

            return xhat * scale, grad

        return _norm(tf.convert_to_tensor(x))


def group_norm(x, gamma, beta, groups, epsilon=1e-5):
    """Group normalisation (Wu & He, 2018), channels last.

    Args:
        x: `[batch, height, width, channels]`.
        gamma: `[channels]` scale.
        beta: `[channels]` offset.
        groups: number of groups, divides `channels`.
        epsilon: variance floor.

    Returns:
        Tensor of the shape of `x`.
    """
    x = tf.convert_to_tensor(x)
    n, h, w, c = x.shape
    per = c // groups

    def spread(stat):
        # [n, groups] -> [n, 1, 1, c]
        return tf.repeat(stat, per, axis=-1)[:, None, None, :]

    def pooled(t):
        t = tf.reshape(t, [n, h * w, per, groups])
        m = tf.reduce_mean(t, axis=[1, 2])
        return tf.tile(m, [1, per])[:, None, None, :]

    @tf.custom_gradient
    def _forward(x, gamma, beta):
        mean, var = tf.nn.moments(tf.reshape(x, [n, h * w, groups, per]), axes=[1, 3])
        inv = spread(tf.math.rsqrt(var + epsilon))
        xhat = (x - spread(mean)) * inv

        def grad(dy):
            dgamma = tf.reduce_sum(dy * xhat, axis=[0, 1, 2])
            dbeta = tf.reduce_sum(dy, axis=[0, 1, 2])
            g = dy * gamma
            dx = inv * (g - pooled(g) - xhat * pooled(g * xhat))
            return dx, dgamma, dbeta

        return xhat * gamma + beta, grad

    return _forward(x, gamma, beta)


def make_l2_normalizer(axis=-1, epsilon=1e-12):
    """Return a function scaling its argument to unit length along `axis`."""

    @tf.custom_gradient
    def normalize(x):
        sq = tf.reduce_sum(x * x, axis=axis, keepdims=True)
        inv = tf.math.rsqrt(tf.maximum(sq, tf.cast(epsilon, sq.dtype)))
        y = x * inv

        def grad(dy):
            live = tf.cast(sq > epsilon, dy.dtype)
            along = tf.reduce_sum(dy * y, axis=axis, keepdims=True)
            return inv * (dy - live * y * along)

        return y, grad

    return normalize


unit_rows = make_l2_normalizer()
unit_channels = make_l2_normalizer(axis=1, epsilon=1e-6)


if __name__ == "__main__":
    images = tf.random.normal([2, 4, 4, 6])
    print(group_norm(images, tf.ones([6]), tf.zeros([6]), groups=3).shape)
    print(instance_norm(images, tf.ones([6]), tf.zeros([6])).shape)
    print(tf.norm(unit_rows(tf.random.normal([3, 5])), axis=-1))
    print(tf.norm(unit_channels(tf.random.normal([2, 3, 5])), axis=1))
