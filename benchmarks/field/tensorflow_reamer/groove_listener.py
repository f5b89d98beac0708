"""Small network that listens to worn records and marks clicks, rumble and skips.

Frames of log energies run through a gated recurrence; the read-out is kept
gradient-norm friendly by order activations in place of ReLU.
"""
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class GateWeights(NamedTuple):
    w_gate: tf.Tensor    # [features, units]
    u_gate: tf.Tensor    # [units, units]
    b_gate: tf.Tensor    # [units]
    w_cand: tf.Tensor    # [features, units]
    u_cand: tf.Tensor    # [units, units]
    b_cand: tf.Tensor    # [units]


def order_units(group: int = 2):
    """Activation that sorts each run of `group` neighbouring channels upward.

    With two channels a run this is the MaxMin unit; longer runs mix more. The
    channels (last axis) must be a multiple of `group`. Norms are kept.
    """

    @tf.custom_gradient
    def ordered(x):
        shape = tf.shape(x)
        runs = tf.reshape(x, [-1, group])
        order = tf.argsort(runs, axis=-1, stable=True)
        y = tf.gather(runs, order, batch_dims=1)

        def grad(dy):
            dy = tf.reshape(dy, [-1, group])
            return tf.reshape(tf.gather(dy, order, batch_dims=1), shape)

        return tf.reshape(y, shape), grad

    return ordered


def make_switch_activation(channel_axis=-1):
    """ACON-C: (p1 - p2) x sigmoid(beta (p1 - p2) x) + p2 x, parameters per channel.

    Parameters
    ----------
    channel_axis : int
        Axis of `x` that carries the channels; may be negative.
    """

    @tf.custom_gradient
    def channel_switch(x, p1, p2, beta):
        axis = channel_axis % len(x.shape)
        spread = [1] * len(x.shape)
        spread[axis] = -1
        others = [i for i in range(len(x.shape)) if i != axis]
        a, b, k = (tf.reshape(p, spread) for p in (p1, p2, beta))
        gap = a - b
        s = tf.sigmoid(k * gap * x)

        def grad(dy):
            slope = s * (1.0 - s)
            inner = gap * x * slope          # d y / d (k gap x)
            d_gap = x * s + inner * k * x
            dx = dy * (gap * s + inner * k * gap + b)
            dp1 = tf.reduce_sum(dy * d_gap, axis=others)
            dp2 = tf.reduce_sum(dy * (x - d_gap), axis=others)
            dbeta = tf.reduce_sum(dy * inner * gap * x, axis=others)
            return dx, dp1, dp2, dbeta

        return gap * x * s + b * x, grad

    return channel_switch


@tf.custom_gradient
def gated_step(x, h, w_gate, u_gate, b_gate, w_cand, u_cand, b_cand):
    """One step of the minimal gated unit.

    f = sigmoid(x Wf + h Uf + bf);  c = tanh(x Wc + (f * h) Uc + bc);
    h' = (1 - f) * h + f * c.   x is [batch, features], h is [batch, units].
    """
    f = tf.sigmoid(x @ w_gate + h @ u_gate + b_gate)
    held = f * h
    c = tf.tanh(x @ w_cand + held @ u_cand + b_cand)
    out = h - held + f * c

    def grad(dout):
        dc = dout * f * (1.0 - c * c)
        dheld = tf.matmul(dc, u_cand, transpose_b=True)
        df = dout * (c - h) * f * (1.0 - f)
        dh = dout * (1.0 - f) + dheld * f + tf.matmul(df, u_gate, transpose_b=True)
        dx = tf.matmul(dc, w_cand, transpose_b=True) + tf.matmul(df, w_gate, transpose_b=True)
        return (
            dx,
            dh,
            tf.matmul(x, df, transpose_a=True),
            tf.matmul(h, df, transpose_a=True),
            tf.reduce_sum(df, axis=0),
            tf.matmul(x, dc, transpose_a=True),
            tf.matmul(held, dc, transpose_a=True),
            tf.reduce_sum(dc, axis=0),
        )

    return out, grad


def init_gates(features, units, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return tf.constant(rng.normal(size=shape) / np.sqrt(shape[0]), dtype=dtype)

    zero = tf.zeros([units], dtype=dtype)
    return GateWeights(draw(features, units), draw(units, units), zero,
                       draw(features, units), draw(units, units), zero)


def listen(frames, weights: GateWeights, state=None):
    """Run the unit over frames [batch, time, features]; returns [batch, time, units].

    `state` carries on from the last block of a side; silence (zeros) if left out.
    """
    if state is None:
        state = tf.zeros([frames.shape[0], weights.b_gate.shape[0]], frames.dtype)
    states = []
    for t in range(frames.shape[1]):
        state = gated_step(frames[:, t], state, *weights)
        states.append(state)
    return tf.stack(states, axis=1)


class ClickHead(tf.Module):
    """Order units between two dense maps, one logit a frame."""

    def __init__(self, units, hidden=12, group=2, seed=1):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.inward = tf.Variable(rng.normal(size=(units, hidden)).astype("float32") / units)
        self.outward = tf.Variable(rng.normal(size=(hidden, 1)).astype("float32") / hidden)
        self.activate = order_units(group)

    def __call__(self, states):
        hidden = self.activate(tf.einsum("btu,uh->bth", states, self.inward))
        return tf.einsum("bth,ho->bto", hidden, self.outward)[..., 0]
