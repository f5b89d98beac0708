"""Custom Keras layers, RL losses and metrics."""
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.math import log, reduce_sum


class InstanceStandardize(layers.Layer):
    """Standardises every series of a batch along time."""

    def __init__(self, axis=1, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, x):
        mean, var = tf.nn.moments(x, axes=[self.axis], keepdims=True)
        return (x - mean) / tf.sqrt(var)

    def get_config(self):
        return {**super().get_config(), "axis": self.axis}


class Capsule(layers.Layer):
    def __init__(self, n_caps, dim, **kwargs):
        super().__init__(**kwargs)
        self.n_caps = n_caps
        self.dim = dim
        self.dense = layers.Dense(n_caps * dim, use_bias=False)

    @staticmethod
    def squash(s):
        sq = reduce_sum(tf.square(s), axis=-1, keepdims=True)
        return (sq / (1.0 + sq)) * s / tf.sqrt(sq)

    def call(self, x):
        s = tf.reshape(self.dense(x), (-1, self.n_caps, self.dim))
        return self.squash(s)


@keras.utils.register_keras_serializable("research")
class Charbonnier(keras.losses.Loss):
    def __init__(self, eps=1e-3, name="charbonnier", **kwargs):
        super().__init__(name=name, **kwargs)
        self.eps = eps

    def call(self, y_true, y_pred):
        err = tf.cast(y_true, y_pred.dtype) - y_pred
        return tf.reduce_mean(tf.sqrt(err * err + self.eps ** 2), axis=-1)


def log_cosh(y_true, y_pred):
    err = y_pred - y_true
    return tf.reduce_mean(log(tf.cosh(err)), axis=-1)


def clipped_bce(y_true, y_pred):
    p = tf.clip_by_value(tf.cast(y_pred, tf.float32), 1e-7, 1.0 - 1e-7)
    y = tf.cast(y_true, tf.float32)
    return -tf.reduce_mean(y * log(p) + (1.0 - y) * log(1.0 - p), axis=-1)


class Policy(keras.Model):
    def __init__(self, n_actions, hidden=64):
        super().__init__()
        self.n_actions = n_actions
        self.body = keras.Sequential([layers.Dense(hidden, "tanh"), layers.Dense(hidden, "tanh")])
        self.head = layers.Dense(n_actions)

    def call(self, obs):
        return self.head(self.body(obs))

    def log_prob(self, obs, action):
        probs = tf.nn.softmax(self(obs), axis=-1)
        picked = tf.gather(probs, action, axis=1, batch_dims=1)
        return tf.math.log(picked)


def ppo_objective(new_logp, old_logp, advantage, clip=0.2):
    delta = tf.clip_by_value(new_logp - tf.stop_gradient(old_logp), -20.0, 20.0)
    ratio = tf.exp(delta)
    bounded = tf.clip_by_value(ratio, 1.0 - clip, 1.0 + clip)
    return -tf.reduce_mean(tf.minimum(ratio * advantage, bounded * advantage))


def squashed_gaussian_log_prob(u, mean, log_std):
    """Log-density of tanh(u) where u is a diagonal Gaussian sample."""
    log_std = tf.clip_by_value(log_std, -5.0, 2.0)
    z = (u - mean) * tf.exp(-log_std)
    base = -0.5 * tf.square(z) - log_std - 0.9189385332
    a = tf.tanh(u)
    correction = log(1.0 - a ** 2)
    return reduce_sum(base - correction, axis=-1)


class MacroPrecision(keras.metrics.Metric):
    def __init__(self, n_classes, name="macro_precision", **kwargs):
        super().__init__(name=name, **kwargs)
        self.n_classes = n_classes
        self.tp = self.add_weight(name="tp", shape=(n_classes,), initializer="zeros")
        self.predicted = self.add_weight(name="predicted", shape=(n_classes,), initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        hat = tf.one_hot(tf.argmax(y_pred, axis=-1), self.n_classes)
        ref = tf.one_hot(tf.cast(y_true, tf.int32), self.n_classes)
        self.tp.assign_add(reduce_sum(hat * ref, axis=0))
        self.predicted.assign_add(reduce_sum(hat, axis=0))

    def result(self):
        return tf.reduce_mean(tf.math.divide_no_nan(self.tp, self.predicted))
