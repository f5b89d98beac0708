"""Ticket triage for a support desk, with a reject option.

The model reads the messages of a ticket thread, pools them per routing head
and either predicts a resolution category or hands the ticket to an agent.

Two parts are written with hand-made gradients:

* :func:`pool_thread`, age-aware pooling of the messages of a thread,
* :func:`make_deferral_loss`, the classification-with-deferral surrogate.

Threads are padded to the longest of the batch. A brand-new ticket may have no
message at all (only a form); its row of the mask is empty then.

TensorFlow backend.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import ops

MASKED_SCORE = -1e9
HOURS_PER_DAY = 24.0


@dataclass(frozen=True)
class TriageSpec:
    """Sizes of the triage model."""

    categories: int = 6
    heads: int = 2
    head_dim: int = 8
    message_dim: int = 16
    agent_weight: float = 1.0


def age_feature(hours):
    """Compressed age of a message, zero for the one just received."""
    return ops.log(1.0 + ops.maximum(hours, 0.0) / HOURS_PER_DAY)


def last_axis_merge(x):
    """[..., H, D] -> [..., H * D]"""
    return ops.reshape(x, x.shape[:-2] + (x.shape[-2] * x.shape[-1],))


# ----------------------------------------------------------------------------
# Thread pooling
# ----------------------------------------------------------------------------


@ops.custom_gradient
def pool_thread(scores, values, age, slope, blank_score, blank_value, mask):
    """Weighted mean of the messages of each thread, per head.

    Besides its messages, every thread holds one blank slot that takes the
    weight nobody else claims. It is what remains for a thread without
    messages. The score of a message falls with its age.

    Parameters
    ----------
    scores : (batch, messages, heads)
    values : (batch, messages, heads, head_dim)
    age : (batch, messages)
        As given by ``age_feature``. Not trained.
    slope : (heads,)
        Loss of score per unit of age.
    blank_score : (heads,)
    blank_value : (heads, head_dim)
    mask : (batch, messages)
        True on real messages.

    Returns
    -------
    (batch, heads, head_dim)
    """
    live = ops.cast(mask, scores.dtype)[:, :, None]
    raw = scores - age[:, :, None] * slope
    raw = ops.where(mask[:, :, None], raw, MASKED_SCORE)
    peak = ops.maximum(ops.max(raw, axis=1), blank_score)
    grown = ops.exp(raw - peak[:, None, :]) * live
    blank = ops.exp(blank_score - peak)
    total = ops.sum(grown, axis=1) + blank
    weight = grown / total[:, None, :]
    blank_weight = blank / total
    pooled = ops.einsum("bmh,bmhd->bhd", weight, values)
    pooled = pooled + blank_weight[..., None] * blank_value

    def grad(upstream):
        d_values = weight[..., None] * upstream[:, None]
        d_blank_value = ops.sum(blank_weight[..., None] * upstream, axis=0)
        along = ops.einsum("bhd,bmhd->bmh", upstream, values)
        along_blank = ops.einsum("bhd,hd->bh", upstream, blank_value)
        centre = ops.sum(weight * along, axis=1)
        d_raw = weight * (along - centre[:, None, :])
        d_blank_score = ops.sum(blank_weight * (along_blank - centre), axis=0)
        d_slope = -ops.sum(d_raw * age[:, :, None], axis=(0, 1))
        return d_raw, d_values, None, d_slope, d_blank_score, d_blank_value, None

    return pooled, grad


# ----------------------------------------------------------------------------
# Deferral loss
# ----------------------------------------------------------------------------


def make_deferral_loss(agent_weight=1.0):
    """Surrogate loss of a classifier that may hand over to an agent.

    The last logit is the hand-over option. With ``m`` the chance that the
    agent resolves the ticket,

        loss = -(agent_weight * m + 1 - m) * log p[label] - m * log p[handover]

    Args:
        agent_weight: how much the classifier still learns from tickets that
            the agent resolves. One trains on all of them alike, zero leaves
            them to the agent.

    Returns:
        ``deferral_loss(logits, label, agent)``, one value per ticket.
    """

    @ops.custom_gradient
    def deferral_loss(logits, label, agent):
        options = logits.shape[-1]
        log_p = logits - ops.logsumexp(logits, axis=-1, keepdims=True)
        chosen = ops.one_hot(label, options, dtype=logits.dtype)
        own = 1.0 + (agent_weight - 1.0) * agent
        log_label = ops.sum(chosen * log_p, axis=-1)
        log_handover = log_p[:, -1]
        loss = -own * log_label - agent * log_handover

        def grad(upstream):
            handover = ops.one_hot(
                ops.full_like(label, options - 1), options, dtype=logits.dtype)
            target = own[:, None] * chosen + agent[:, None] * handover
            d_logits = (own + agent)[:, None] * ops.exp(log_p) - target
            d_agent = (1.0 - agent_weight) * log_label - log_handover
            return upstream[:, None] * d_logits, None, upstream * d_agent

        return loss, grad

    return deferral_loss


# ----------------------------------------------------------------------------
# Model
# ----------------------------------------------------------------------------


class ThreadReader(keras.layers.Layer):
    """Projects messages to heads and pools them with :func:`pool_thread`."""

    def __init__(self, spec: TriageSpec, **kwargs):
        super().__init__(**kwargs)
        self.spec = spec
        self.score = keras.layers.Dense(spec.heads, name="score")
        self.value = keras.layers.Dense(spec.heads * spec.head_dim, name="value")

    def build(self, input_shape):
        spec = self.spec
        self.slope = self.add_weight(
            shape=(spec.heads,), initializer=keras.initializers.Constant(0.3), name="slope")
        self.blank_score = self.add_weight(
            shape=(spec.heads,), initializer="zeros", name="blank_score")
        self.blank_value = self.add_weight(
            shape=(spec.heads, spec.head_dim), initializer="zeros", name="blank_value")
        self.score.build(input_shape)
        self.value.build(input_shape)

    def call(self, messages, hours, mask):
        batch, count, _ = messages.shape
        values = ops.reshape(
            self.value(messages), (batch, count, self.spec.heads, self.spec.head_dim))
        pooled = pool_thread(
            self.score(messages),
            values,
            age_feature(hours),
            tf.convert_to_tensor(self.slope),
            tf.convert_to_tensor(self.blank_score),
            tf.convert_to_tensor(self.blank_value),
            mask,
        )
        return last_axis_merge(pooled)


class TriageModel(keras.Model):
    """Reader, form features and the logits over categories and hand-over."""

    def __init__(self, spec: TriageSpec = TriageSpec(), **kwargs):
        super().__init__(**kwargs)
        self.spec = spec
        self.reader = ThreadReader(spec)
        self.mix = keras.layers.Dense(24, activation="gelu")
        self.out = keras.layers.Dense(spec.categories + 1)

    def call(self, inputs):
        pooled = self.reader(inputs["messages"], inputs["hours"], inputs["mask"])
        return self.out(self.mix(ops.concatenate([pooled, inputs["form"]], axis=-1)))


def handover_rate(logits):
    """Share of the tickets that go to an agent."""
    last = logits.shape[-1] - 1
    return ops.mean(ops.cast(ops.equal(ops.argmax(logits, axis=-1), last), "float32"))


def agent_reliability(history, prior=2.0):
    """Shrunk success rate of the agents per category, from (solved, seen) counts."""
    solved, seen = history[:, 0], history[:, 1]
    overall = np.sum(solved) / max(np.sum(seen), 1)
    return (solved + prior * overall) / (seen + prior)


def fake_batch(spec, batch=5, count=4, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, count + 1, batch)
    history = np.stack(
        [rng.integers(5, 40, spec.categories), np.full(spec.categories, 40)], axis=1)
    label = rng.integers(0, spec.categories, batch).astype("int32")
    inputs = {
        "messages": rng.normal(size=(batch, count, spec.message_dim)).astype("float32"),
        "hours": rng.exponential(30.0, (batch, count)).astype("float32"),
        "mask": np.arange(count)[None, :] < lengths[:, None],
        "form": rng.normal(size=(batch, 5)).astype("float32"),
    }
    inputs = {k: ops.convert_to_tensor(v) for k, v in inputs.items()}
    agent = agent_reliability(history)[label].astype("float32")
    return inputs, ops.convert_to_tensor(label), ops.convert_to_tensor(agent)


def demo(steps=4):
    spec = TriageSpec(agent_weight=0.4)
    model = TriageModel(spec)
    loss_fn = make_deferral_loss(spec.agent_weight)
    optimizer = keras.optimizers.Adam(3e-3)
    for step in range(steps):
        inputs, label, agent = fake_batch(spec, seed=step)
        with tf.GradientTape() as tape:
            logits = model(inputs)
            loss = ops.mean(loss_fn(logits, label, agent))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        print(step, float(loss), float(handover_rate(logits)))


if __name__ == "__main__":
    demo()
