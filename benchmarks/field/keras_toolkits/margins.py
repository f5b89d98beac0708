"""Margin-based heads for metric learning."""
import math

import keras
from keras import ops


class AngularMargin:
    """Additive angular margin on cosine similarities.

    Parameters
    ----------
    margin : float
        Angle (radians) that is added at the target class.
    scale : float
        Factor of the returned logits.
    easy_margin : bool
        If true, the margin applies only where the target cosine is positive,
        and the cosine is kept elsewhere. Otherwise it applies while the
        shifted angle stays below pi, with a linear continuation behind.
    """

    def __init__(self, margin=0.5, scale=64.0, *, easy_margin=False, epsilon=1e-12):
        self.margin = float(margin)
        self.scale = float(scale)
        self.easy_margin = bool(easy_margin)
        self.epsilon = epsilon
        self._cos_m = math.cos(margin)
        self._sin_m = math.sin(margin)
        self._threshold = math.cos(math.pi - margin)
        self._offset = math.sin(math.pi - margin) * margin

    def logits(self, cosine, labels):
        """Scaled logits with the margin at the target class.

        Parameters
        ----------
        cosine : tensor, shape (batch, classes)
            Cosine similarities in [-1, 1].
        labels : integer tensor, shape (batch,)

        Returns
        -------
        tensor, shape (batch, classes)
        """
        cosine = ops.convert_to_tensor(cosine)
        labels = ops.convert_to_tensor(labels)

        @ops.custom_gradient
        def apply_margin(c, ids):
            target = ops.one_hot(ids, c.shape[-1], dtype="int32") > 0
            squared_sine = 1.0 - ops.square(c)
            sine = ops.sqrt(ops.maximum(squared_sine, self.epsilon))
            shifted = c * self._cos_m - sine * self._sin_m
            if self.easy_margin:
                shifted = ops.where(c > 0.0, shifted, c)
            else:
                shifted = ops.where(c > self._threshold, shifted, c - self._offset)
            out = self.scale * ops.where(target, shifted, c)

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                cotangent = ops.where(
                    squared_sine > self.epsilon, c / sine, ops.zeros_like(c)
                )
                slope = self._cos_m + self._sin_m * cotangent
                slope = ops.where(c > self._threshold, slope, ops.ones_like(c))
                slope = ops.where(target, slope, ops.ones_like(c))
                return self.scale * slope * upstream, None

            return out, grad

        return apply_margin(cosine, labels)


class ArcMarginDense(keras.layers.Layer):
    def __init__(self, units, margin=0.5, scale=64.0, easy_margin=False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.head = AngularMargin(margin, scale, easy_margin=easy_margin)

    def build(self, input_shape):
        self.kernel = self.add_weight(
            shape=(input_shape[0][-1], self.units),
            initializer="glorot_uniform",
            name="kernel",
        )

    def call(self, inputs):
        features, labels = inputs
        features = ops.normalize(features, axis=-1)
        kernel = ops.normalize(self.kernel, axis=0)
        return self.head.logits(ops.matmul(features, kernel), labels)
