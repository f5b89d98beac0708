"""Activation quantisers for quantisation-aware training."""

import keras
from keras import ops


def _unbroadcast(g, like):
    lead = len(g.shape) - len(like.shape)
    if lead:
        g = ops.sum(g, axis=tuple(range(lead)))
    for axis, size in enumerate(like.shape):
        if size == 1 and g.shape[axis] != 1:
            g = ops.sum(g, axis=axis, keepdims=True)
    return g


def make_pact_quantizer(bits=4, signed=False):
    """Build a PACT quantiser with a straight-through estimator.

    The quantiser clips to `[0, alpha]` (`[-alpha, alpha]` when signed) and
    rounds to an even grid. The backward pass is the straight-through one: the
    rounding counts as the identity, so that both gradients are those of the
    clipping alone.

    Args:
        bits: Width of the codes.
        signed: Whether negative values are kept.

    Returns:
        A function `(x, alpha) -> quantised x`; `alpha` is positive and
        broadcasts to `x` (a scalar or one value per channel).
    """
    levels = float(2 ** (bits - 1) - 1) if signed else float(2**bits - 1)

    @ops.custom_gradient
    def pact(x, alpha):
        low = -alpha if signed else ops.zeros_like(alpha)
        clipped = ops.minimum(ops.maximum(x, low), alpha)
        step = alpha / levels
        out = ops.round(clipped / step) * step

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            zero = ops.zeros_like(upstream)
            above, below = x >= alpha, x <= low
            dx = ops.where(ops.logical_or(above, below), zero, upstream)
            dalpha = ops.where(above, upstream, zero)
            if signed:
                dalpha = dalpha - ops.where(below, upstream, zero)
            return dx, _unbroadcast(dalpha, alpha)

        return out, grad

    return pact


class PACTActivation(keras.layers.Layer):
    def __init__(self, bits=4, signed=False, initial_alpha=6.0, **kwargs):
        super().__init__(**kwargs)
        self.quantize = make_pact_quantizer(bits, signed)
        self.initial_alpha = initial_alpha

    def build(self, input_shape):
        self.alpha = self.add_weight(
            shape=(),
            initializer=keras.initializers.Constant(self.initial_alpha),
            name="alpha",
        )

    def call(self, inputs):
        return self.quantize(inputs, ops.maximum(self.alpha, 1e-3))
