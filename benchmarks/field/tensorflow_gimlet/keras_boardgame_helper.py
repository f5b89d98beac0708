"""Layers of a rules helper for board games: it reads the log of a game and says which paragraph of the rule book applies.

Only `keras.ops` is used, so that the helper runs on whatever backend the club's machine has.
"""
import keras
from keras import ops


def _upstream(args, upstream):
    # The backends hand over the output's gradient in different ways.
    return args[0] if upstream is None else upstream


def _mean(x):
    # ops.mean accumulates in single precision on some backends
    return ops.sum(x, axis=-1, keepdims=True) / ops.shape(x)[-1]


def make_piece_norm(groups=1, center=False, eps=1e-6):
    """Root-mean-square norm within groups of channels (one group for each kind of game piece).

    Args:
        groups: number of groups; must divide the number of channels.
        center: take the group's mean away first.
        eps: added to the mean square.

    Returns:
        A function of `x` (..., channels) and `gain` (channels,).
    """

    @ops.custom_gradient
    def piece_norm(x, gain):
        shape = ops.shape(x)
        split = tuple(shape[:-1]) + (groups, shape[-1] // groups)
        h = ops.reshape(x, split)
        if center:
            h = h - _mean(h)
        inv = ops.rsqrt(_mean(ops.square(h)) + eps)
        unit = h * inv
        flat = ops.reshape(unit, shape)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            d_gain = ops.sum(ops.reshape(g * flat, (-1, shape[-1])), axis=0)
            d_unit = ops.reshape(g * gain, split)
            overlap = _mean(d_unit * unit)
            d_x = (d_unit - unit * overlap) * inv
            return ops.reshape(d_x, shape), d_gain

        return flat * gain, grad

    return piece_norm


def make_turn_decay(normalise=True):
    """Memory of earlier turns that fades with the clock, not with the number of turns.

    The result is `turn_decay(x, clock, rate)`: x is (games, turns, channels), clock (games, turns) holds minutes that never
    run backwards, rate (channels,) is how fast each channel forgets, per minute. Turn i sees the turns j <= i with the weight
    exp(-rate * (clock_i - clock_j)); with `normalise` the weights of a turn add up to one.
    """

    @ops.custom_gradient
    def turn_decay(x, clock, rate):
        turns = ops.shape(x)[1]
        seen = ops.cast(ops.tril(ops.ones((turns, turns))), x.dtype)
        gap = (clock[:, :, None] - clock[:, None, :]) * seen          # (games, i, j)
        weight = ops.exp(-gap[..., None] * rate) * seen[..., None]    # (games, i, j, channels)
        if normalise:
            weight = weight / ops.sum(weight, axis=2, keepdims=True)
        memory = ops.einsum("gijc,gjc->gic", weight, x)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            d_x = ops.einsum("gijc,gic->gjc", weight, g)
            value = x[:, None, :, :]
            if normalise:
                value = value - memory[:, :, None, :]
            d_log = weight * value * g[:, :, None, :]
            d_rate = -ops.sum(d_log * gap[..., None], axis=(0, 1, 2))
            d_gap = -ops.sum(d_log * rate, axis=-1)
            d_clock = ops.sum(d_gap, axis=2) - ops.sum(d_gap, axis=1)
            return d_x, d_clock, d_rate

        return memory, grad

    return turn_decay


def make_rule_picker(temperature=1.0):
    """Picks exactly one paragraph and still learns.

    Deliberately not the derivative of the forward pass: forward is the one-hot arg max of the scores (..., paragraphs), whose
    true derivative is zero; backward is that of softmax(scores / temperature), the usual straight-through estimator.
    """

    @ops.custom_gradient
    def pick_rule(scores):
        soft = ops.softmax(scores / temperature, axis=-1)
        hard = ops.one_hot(ops.argmax(scores, axis=-1), ops.shape(scores)[-1], dtype=scores.dtype)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            return soft * (g - ops.sum(soft * g, axis=-1, keepdims=True)) / temperature

        return hard, grad

    return pick_rule


class RuleReader(keras.layers.Layer):
    def __init__(self, paragraphs, groups=4, **kwargs):
        super().__init__(**kwargs)
        self.paragraphs = paragraphs
        self.norm = make_piece_norm(groups)
        self.memory = make_turn_decay()
        self.pick = make_rule_picker(0.7)

    def build(self, input_shape):
        channels = input_shape[-1]
        self.gain = self.add_weight(shape=(channels,), initializer="ones", name="gain")
        self.rate = self.add_weight(shape=(channels,), initializer=keras.initializers.Constant(0.1), name="rate")
        self.head = self.add_weight(shape=(channels, self.paragraphs), initializer="glorot_uniform", name="head")

    def call(self, x, clock):
        gain, rate = 1.0 * self.gain, 1.0 * self.rate  # plain tensors: a rule must not capture variables
        memory = self.memory(self.norm(x, gain), clock, rate)
        return self.pick(ops.matmul(memory, self.head))
