"""Losses and blocks of the one-stage detector head, for any Keras backend."""

import keras
from keras import ops


def quality_focal_loss(logits, targets, beta=2.0):
    """Elementwise quality focal loss.

    Parameters
    ----------
    logits : tensor, shape (...)
        Raw class scores.
    targets : tensor, shape (...)
        Soft quality labels in [0, 1], of the same shape. Gradients flow to
        them too, since the quality branch can be trained jointly.
    beta : float, at least 1
        Focusing exponent.

    Returns
    -------
    tensor, shape (...)
        ``|sigmoid(logits) - targets| ** beta * bce(logits, targets)``
    """

    @ops.custom_gradient
    def loss_fn(z, y):
        prob = ops.sigmoid(z)
        gap = prob - y
        distance = ops.abs(gap)
        bce = ops.relu(z) - y * z + ops.log1p(ops.exp(-ops.abs(z)))
        modulator = distance**beta

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            slope = beta * distance ** (beta - 1.0) * ops.sign(gap) * bce
            d_z = slope * prob * ops.sigmoid(-z) + modulator * gap
            d_y = -slope - modulator * z
            return upstream * d_z, upstream * d_y

        return modulator * bce, grad

    return loss_fn(ops.convert_to_tensor(logits), ops.convert_to_tensor(targets))


def distribution_focal_loss(logits, distance, *, reduction="mean"):
    """Cross entropy of a binned offset against its two neighbouring bins.

    Parameters
    ----------
    logits : tensor, shape (..., bins)
        Scores of the integer offsets ``0 .. bins - 1``.
    distance : tensor, shape (...)
        Continuous offsets in ``[0, bins - 1)``.
    reduction : {"mean", "sum", "none"}
        How the loss of the single offsets is combined.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"Unknown reduction: {reduction}")

    @ops.custom_gradient
    def loss_fn(z, y):
        bins = z.shape[-1]
        dtype = keras.backend.standardize_dtype(z.dtype)
        lower = ops.clip(ops.floor(y), 0, bins - 2)
        index = ops.cast(lower, "int32")
        left = ops.one_hot(index, bins, dtype=dtype)
        right = ops.one_hot(index + 1, bins, dtype=dtype)
        fraction = ops.expand_dims(y - lower, -1)
        label = (1.0 - fraction) * left + fraction * right
        log_prob = ops.log_softmax(z, axis=-1)
        loss = -ops.sum(label * log_prob, axis=-1)
        count = 1
        for size in y.shape:
            count *= size
        if reduction == "mean":
            value = ops.sum(loss) / count
        elif reduction == "sum":
            value = ops.sum(loss)
        else:
            value = loss

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            if reduction != "none":
                upstream = upstream / count * ops.ones_like(y)
            d_z = ops.expand_dims(upstream, -1) * (ops.exp(log_prob) - label)
            d_y = upstream * ops.sum((left - right) * log_prob, axis=-1)
            return d_z, d_y

        return value, grad

    return loss_fn(ops.convert_to_tensor(logits), ops.convert_to_tensor(distance))


def temporal_shift(x, fold_div=8):
    fold = x.shape[-1] // fold_div

    @ops.custom_gradient
    def shift(x):
        blank = ops.zeros_like(x[:, :1, :fold])
        ahead = ops.concatenate([x[:, 1:, :fold], blank], axis=1)
        behind = ops.concatenate([blank, x[:, :-1, fold : 2 * fold]], axis=1)
        shifted = ops.concatenate([ahead, behind, x[:, :, 2 * fold :]], axis=-1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            return ops.concatenate(
                [
                    ops.roll(upstream[:, :, :fold], 1, axis=1),
                    ops.roll(upstream[:, :, fold : 2 * fold], -1, axis=1),
                    upstream[:, :, 2 * fold :],
                ],
                axis=-1,
            )

        return shifted, grad

    return shift(x)


@keras.saving.register_keras_serializable(package="dense_detection")
class TemporalShift(keras.layers.Layer):
    """Moves a part of the channels of `(batch, time, channels)` by one frame.

    The first `channels // fold_div` channels are read from the next frame and
    as many from the previous one; frames beyond the clip are zero.
    """

    def __init__(self, fold_div=8, **kwargs):
        super().__init__(**kwargs)
        self.fold_div = fold_div

    def call(self, inputs):
        return temporal_shift(inputs, self.fold_div)

    def get_config(self):
        return {**super().get_config(), "fold_div": self.fold_div}
