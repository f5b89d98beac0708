"""Self-supervised objectives on the embeddings of augmented views."""

import keras
from keras import ops


def make_uniformity_loss(t=2.0):
    """Gaussian potential of a batch on the sphere (Wang and Isola).

    log of the mean of exp(-t * squared distance), over the pairs of distinct rows. Takes a batch of
    at least two embeddings in rows, gives a scalar.
    """

    @ops.custom_gradient
    def uniformity(z):
        n = z.shape[0]
        gram = ops.matmul(z, ops.transpose(z))
        sq = ops.sum(ops.square(z), axis=1)
        dist = ops.expand_dims(sq, 1) + ops.expand_dims(sq, 0) - 2.0 * gram
        same = ops.eye(n, dtype=z.dtype)
        logits = -t * dist - 1e9 * same
        peak = ops.max(logits)
        weights = ops.exp(logits - peak) * (1.0 - same)
        total = ops.sum(weights)
        value = ops.log(total / (n * (n - 1))) + peak

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            share = weights / total
            pull = ops.expand_dims(ops.sum(share, axis=1), 1) * z - ops.matmul(share, z)
            return -4.0 * t * upstream * pull

        return value, grad

    return uniformity


def vicreg_penalty(z, *, target_std=1.0, std_weight=25.0, cov_weight=1.0, eps=1e-4):
    """Variance and covariance terms of VICReg for one branch.

    z holds embeddings in rows. The variance term is a hinge that keeps the standard deviation of
    every feature above target_std, averaged over features; the covariance term is the sum of squares
    of the off-diagonal entries of the covariance matrix over the number of features. Both use the
    unbiased estimates. Scalar.
    """

    @ops.custom_gradient
    def penalty(z):
        rows, features = z.shape
        centred = z - ops.mean(z, axis=0, keepdims=True)
        cov = ops.matmul(ops.transpose(centred), centred) / (rows - 1)
        std = ops.sqrt(ops.diagonal(cov) + eps)
        off = cov * (1.0 - ops.eye(features, dtype=z.dtype))
        short = ops.relu(target_std - std)
        value = std_weight * ops.mean(short) + cov_weight * ops.sum(ops.square(off)) / features

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            active = ops.cast(short > 0, z.dtype)
            d_std = -std_weight * active / std * centred / (features * (rows - 1))
            d_cov = 2.0 * cov_weight * ops.matmul(centred, off) / (features * (rows - 1))
            return upstream * (d_std + d_cov)

        return value, grad

    return penalty(z)


class VICReg(keras.layers.Layer):
    """Adds invariance, variance and covariance losses of two views; passes the views through."""

    def __init__(self, sim_weight=25.0, std_weight=25.0, cov_weight=1.0, **kwargs):
        super().__init__(**kwargs)
        self.sim_weight = sim_weight
        self.branch = {"std_weight": std_weight, "cov_weight": cov_weight}

    def call(self, first, second):
        self.add_loss(self.sim_weight * ops.mean(ops.square(first - second)))
        for z in (first, second):
            self.add_loss(vicreg_penalty(z, **self.branch))
        return first, second


class AlignUniform(keras.losses.Loss):
    """Alignment of positive pairs plus uniformity of both views."""

    def __init__(self, weight=1.0, t=2.0, **kwargs):
        super().__init__(**kwargs)
        self.weight = weight
        self.uniformity = make_uniformity_loss(t)

    def call(self, y_true, y_pred):
        align = ops.mean(ops.sum(ops.square(y_true - y_pred), axis=-1))
        spread = 0.5 * (self.uniformity(y_true) + self.uniformity(y_pred))
        return align + self.weight * spread
