"""Early-exit cascades: heads on several depths of a backbone.

A backbone with ``E`` exits classifies every example at each of its exits; a
small halting unit decides how deep an example travels.  Training uses the
probabilistic relaxation (a stick-breaking mixture over exits, as in PonderNet
and LayerSkip-style fine-tuning), serving uses hard gates on a calibrated
confidence.

Layout used throughout: exits lead, then batch, then classes, ``[E, B, C]``;
halting logits are ``[B, E]`` because the halting unit emits one row per
example.
"""

from typing import NamedTuple, Sequence

import numpy as np
import tensorflow as tf

NEG_LARGE = -1e9
TINY = 1e-30


class CascadeOutput(NamedTuple):
    """What :class:`EarlyExitCascade` returns for a batch."""

    nll: tf.Tensor          # [B]
    expected_cost: tf.Tensor  # [B]
    exit_logits: tf.Tensor  # [E, B, C]
    halt_logits: tf.Tensor  # [B, E]


def stick_breaking(halt_logits, available):
    """Halting probabilities.

    Args:
      halt_logits: `[B, E]`.
      available: `[B, E]` of 0/1; an example never leaves through an exit that
        is switched off for it. The last exit is always open and takes what is
        left.

    Returns:
      Tuple `(p, h)` of `[B, E]`: probability of leaving at each exit, and the
      conditional probability of leaving when reached.
    """
    h = available * tf.sigmoid(halt_logits)
    h = tf.concat([h[:, :-1], tf.ones_like(h[:, -1:])], axis=1)
    remain = tf.math.cumprod(1.0 - h, axis=1, exclusive=True)
    return h * remain, h


def _exclusive_suffix_sum(x):
    return tf.cumsum(x, axis=1, exclusive=True, reverse=True)


@tf.custom_gradient
def exit_mixture(halt_logits, exit_logits, labels, available, costs):
    """Mixture negative log likelihood and expected cost of a cascade.

    The gradient is written through the responsibilities of the exits, which
    keeps only two `[B, E]` arrays and the class probabilities.

    Args:
      halt_logits: `[B, E]`
      exit_logits: `[E, B, C]`
      labels: `[B]` int class ids.
      available: `[B, E]` 0/1 floats, constant.
      costs: `[E]` cost of computing up to each exit (GFLOP or ms).

    Returns:
      `(nll, expected_cost)`, both `[B]`.
    """
    p, h = stick_breaking(halt_logits, available)
    probs = tf.nn.softmax(exit_logits, axis=-1)
    onehot = tf.one_hot(labels, exit_logits.shape[-1], dtype=exit_logits.dtype)
    hit = tf.transpose(tf.reduce_sum(probs * onehot[None], axis=-1))
    joint = p * hit
    evidence = tf.reduce_sum(joint, axis=1, keepdims=True)
    nll = -tf.math.log(evidence[:, 0] + TINY)
    expected_cost = tf.linalg.matvec(p, costs)

    def grad(d_nll, d_cost):
        resp = joint / (evidence + TINY)
        pull = -d_nll[:, None] * resp + d_cost[:, None] * p * costs
        d_halt = pull * (1.0 - h) - h * _exclusive_suffix_sum(pull)
        # the last logit is unused
        d_halt = tf.concat([d_halt[:, :-1], tf.zeros_like(d_halt[:, -1:])], axis=1)
        weight = tf.transpose(d_nll[:, None] * resp)
        d_exit = weight[..., None] * (probs - onehot[None])
        d_costs = tf.linalg.matvec(p, d_cost, transpose_a=True)
        return d_halt, d_exit, None, None, d_costs

    return (nll, expected_cost), grad


def make_exit_confidence(class_mask=None):
    """Entropy-based confidence of every exit, in [0, 1].

    The confidence is one minus the entropy of the tempered softmax over the
    allowed classes, in units of the entropy of the uniform distribution over
    these classes.

    Args:
      class_mask: optional 0/1 sequence of length C. Classes that the current
        tenant doesn't serve are taken out of the softmax.

    Returns:
      Function of `(exit_logits [E, B, C], log_temperature [E])` that returns
      `[E, B]`.
    """
    mask = None if class_mask is None else np.asarray(class_mask, bool)

    @tf.custom_gradient
    def exit_confidence(exit_logits, log_temperature):
        dtype = exit_logits.dtype
        inv_t = tf.exp(-log_temperature)[:, None, None]
        tempered = exit_logits * inv_t
        if mask is not None:
            tempered = tf.where(mask, tempered, tf.cast(NEG_LARGE, dtype))
            width = float(mask.sum())
        else:
            width = float(exit_logits.shape[-1])
        logp = tf.nn.log_softmax(tempered, axis=-1)
        probs = tf.exp(logp)
        entropy = -tf.reduce_sum(probs * logp, axis=-1)
        confidence = 1.0 - entropy / np.log(width)

        def grad(upstream):
            uniform = tf.math.log(tf.cast(tf.shape(exit_logits)[-1], dtype))
            d_tempered = (
                (upstream / uniform)[..., None] * probs * (logp + entropy[..., None])
            )
            d_logits = d_tempered * inv_t
            d_log_t = -tf.reduce_sum(d_logits * exit_logits, axis=[1, 2])
            return d_logits, d_log_t

        return confidence, grad

    return exit_confidence


class ExitGate(tf.Module):
    """Hard gate "leave here" with a learned threshold per exit.

    The forward value is the step ``confidence > threshold``.  Gradients are
    those of the logistic relaxation
    ``sigmoid((confidence - threshold) / width)``, a straight-through surrogate
    used both for the confidence and for the threshold.
    """

    def __init__(self, num_exits, width=0.1, initial=0.7, name=None):
        super().__init__(name=name)
        self.width = float(width)
        self.threshold = tf.Variable(tf.fill([num_exits], initial), name="threshold")

    def __call__(self, confidence):
        width = self.width

        @tf.custom_gradient
        def hard_leave(confidence, threshold):
            edge = confidence - threshold[:, None]
            gate = tf.cast(edge > 0.0, confidence.dtype)

            def grad(upstream):
                soft = tf.sigmoid(edge / width)
                d_edge = upstream * soft * (1.0 - soft) / width
                return d_edge, -tf.reduce_sum(d_edge, axis=1)

            return gate, grad

        return hard_leave(confidence, tf.convert_to_tensor(self.threshold))


class EarlyExitCascade(tf.Module):
    """Backbone of dense blocks with an exit head after each block."""

    def __init__(
        self,
        features: int,
        hidden: int,
        classes: int,
        block_costs: Sequence[float],
        class_mask=None,
        seed: int = 0,
        name=None,
    ):
        super().__init__(name=name)
        rng = np.random.default_rng(seed)
        exits = len(block_costs)
        sizes = [features] + [hidden] * exits

        def kernel(rows, cols):
            value = rng.normal(scale=rows ** -0.5, size=(rows, cols))
            return tf.Variable(value.astype(np.float32))

        self.blocks = [kernel(a, b) for a, b in zip(sizes[:-1], sizes[1:])]
        self.heads = [kernel(hidden, classes) for _ in range(exits)]
        self.halts = [kernel(hidden, 1) for _ in range(exits)]
        self.costs = tf.constant(np.cumsum(block_costs), tf.float32)
        self.log_temperature = tf.Variable(tf.zeros([exits]))
        self.confidence = make_exit_confidence(class_mask)
        self.gate = ExitGate(exits)

    def forward(self, inputs):
        x = inputs
        logits, halts = [], []
        for block, head, halt in zip(self.blocks, self.heads, self.halts):
            x = tf.nn.gelu(x @ block)
            logits.append(x @ head)
            halts.append((x @ halt)[:, 0])
        return tf.stack(logits, axis=0), tf.stack(halts, axis=1)

    def __call__(self, inputs, labels, available=None) -> CascadeOutput:
        exit_logits, halt_logits = self.forward(inputs)
        if available is None:
            available = tf.ones_like(halt_logits)
        nll, cost = exit_mixture(
            halt_logits, exit_logits, labels, available, self.costs
        )
        return CascadeOutput(nll, cost, exit_logits, halt_logits)

    def leave_rates(self, exit_logits):
        """Share of the batch that each exit would release, `[E]`."""
        conf = self.confidence(exit_logits, self.log_temperature)
        return tf.reduce_mean(self.gate(conf), axis=1)

    def serve(self, inputs):
        """Class ids and exit index by the hard gates."""
        exit_logits, _ = self.forward(inputs)
        conf = self.confidence(exit_logits, self.log_temperature)
        leave = tf.concat(
            [self.gate(conf)[:-1], tf.ones_like(conf[-1:])], axis=0
        )
        where = tf.argmax(leave, axis=0, output_type=tf.int32)
        picked = tf.gather(
            tf.transpose(exit_logits, [1, 0, 2]), where, batch_dims=1
        )
        return tf.argmax(picked, axis=-1), where


def cascade_loss(cascade, inputs, labels, available, budget=4.0, price=0.05):
    """Mixture NLL plus a hinge on the batch's mean cost, plus the gate's rate
    target (each exit should release about a third of what reaches it)."""
    out = cascade(inputs, labels, available)
    over = tf.nn.relu(tf.reduce_mean(out.expected_cost) - budget)
    rates = cascade.leave_rates(tf.stop_gradient(out.exit_logits))
    return (
        tf.reduce_mean(out.nll)
        + price * over
        + 0.1 * tf.reduce_sum(tf.square(rates - 1.0 / 3.0))
    )


def random_availability(rng, batch, exits, drop=0.2):
    """Mask with some early exits switched off, as under fixed batching."""
    mask = (rng.uniform(size=(batch, exits)) > drop).astype(np.float32)
    mask[:, -1] = 1.0
    return tf.constant(mask)


if __name__ == "__main__":
    rng = np.random.default_rng(11)
    x = tf.constant(rng.normal(size=(16, 12)), tf.float32)
    y = tf.constant(rng.integers(0, 6, size=16), tf.int32)
    net = EarlyExitCascade(
        features=12, hidden=20, classes=8,
        block_costs=[1.0, 1.5, 2.5, 4.0],
        class_mask=[1, 1, 1, 1, 1, 1, 0, 0],
    )
    reach = random_availability(rng, 16, 4)
    optimiser = tf.keras.optimizers.Adam(3e-3)
    for step in range(5):
        with tf.GradientTape() as tape:
            loss = cascade_loss(net, x, y, reach)
        grads = tape.gradient(loss, net.trainable_variables)
        pairs = [(g, v) for g, v in zip(grads, net.trainable_variables) if g is not None]
        optimiser.apply_gradients(pairs)
        print(step, float(loss))
    print(net.serve(x)[1].numpy())
