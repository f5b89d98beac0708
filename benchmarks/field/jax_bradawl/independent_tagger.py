"""Part-of-speech tagger built on independently recurrent units.

Every hidden unit sees only its own past (an elementwise recurrence with a leak), so that a whole layer is
three element-wise operations a step.  Two such layers, one read left to right and one read right to left, are
joined and classified with the transposed embedding table of the tags.

All sequences are time-major: ``(time, batch, units)``.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class TagTable(NamedTuple):
    """Embedding of the tags, used as the output layer as well."""

    table: jax.Array  # (tags, units)
    bias: jax.Array   # (tags,)


def _run(drive, recur, leak, start, reverse):
    def step(x, u):
        x = (1.0 - leak) * x + leak * jnp.tanh(u + recur * x)
        return x, x

    return lax.scan(step, start, drive, reverse=reverse)[1]


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def leaky_states(drive, recur, leak, start, reverse=False):
    """States of a layer of leaky independent units.

    Args:
        drive: input of each unit, (time, batch, units).
        recur: own weight of each unit, (units,).
        leak: leak rate of each unit, between 0 and 1, (units,).
        start: state before the first step that is read, (batch, units).
        reverse: read the sequence from its end.

    Returns:
        (time, batch, units), in the order of ``drive`` whichever way it is read.
    """
    return _run(drive, recur, leak, start, reverse)


def _leaky_states_fwd(drive, recur, leak, start, reverse):
    states = _run(drive, recur, leak, start, reverse)
    return states, (drive, recur, leak, start, states)


def _leaky_states_bwd(reverse, saved, g):
    drive, recur, leak, start, states = saved
    before = jnp.concatenate([start[None], states[:-1]], axis=0)
    act = jnp.tanh(drive + recur * before)
    slope = leak * (1.0 - act * act)
    carry_gain = (1.0 - leak) + slope * recur

    def back(acc, inp):
        g_t, gain = inp
        total = g_t + acc
        return total * gain, total

    d_start, total = lax.scan(back, jnp.zeros_like(start), (g, carry_gain), reverse=not reverse)
    d_drive = total * slope
    d_recur = jnp.sum(d_drive * before, axis=(0, 1))
    d_leak = jnp.sum(total * (act - before), axis=(0, 1))
    return d_drive, d_recur, d_leak, d_start


leaky_states.defvjp(_leaky_states_fwd, _leaky_states_bwd)


@jax.custom_vjp
def sentence_end(states, empty, lengths):
    """Last state of each sentence: (batch, units).

    ``lengths`` (batch,) counts the words; a sentence of no words is represented by the learned vector ``empty``.
    A length above the number of steps means a sentence that was cut, whose last state is the last step's.
    """
    where = jnp.clip(lengths - 1, 0, states.shape[0] - 1)
    picked = states[where, jnp.arange(states.shape[1])]
    return jnp.where((lengths > 0)[:, None], picked, empty)


def _sentence_end_fwd(states, empty, lengths):
    # the array of the states is not kept, only something of its shape's first axis
    return sentence_end(states, empty, lengths), (jnp.zeros((states.shape[0], 0), states.dtype), lengths)


def _sentence_end_bwd(saved, g):
    steps, lengths = saved
    n_steps = steps.shape[0]
    filled = (lengths > 0)[:, None]
    where = jnp.clip(lengths - 1, 0, n_steps - 1)
    kept = jnp.where(filled, g, 0.0)
    d_states = jnp.zeros((n_steps,) + g.shape, g.dtype).at[where, jnp.arange(g.shape[0])].set(kept)
    return d_states, jnp.where(filled, 0.0, g).sum(0), None


sentence_end.defvjp(_sentence_end_fwd, _sentence_end_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def tag_loss(params: TagTable, hidden, tags, ignore=-100, z_weight=0.0):
    """Mean cross entropy of the tags that are not ``ignore``, plus ``z_weight`` times the mean squared log
    normaliser of the same words.  Zero if there is nothing to score."""
    return _tag_loss_fwd(params, hidden, tags, ignore, z_weight)[0]


def _tag_loss_fwd(params, hidden, tags, ignore, z_weight):
    scores = hidden @ params.table.T + params.bias
    norm = jax.nn.logsumexp(scores, axis=-1)
    scored = tags != ignore
    safe = jnp.where(scored, tags, 0)
    own = jnp.take_along_axis(scores, safe[..., None], axis=-1)[..., 0]
    each = norm - own + z_weight * norm**2
    count = jnp.maximum(scored.sum(), 1)
    loss = jnp.where(scored, each, 0.0).sum() / count
    return loss, (params, hidden, scores, norm, scored, safe, count)


def _tag_loss_bwd(ignore, z_weight, saved, g):
    params, hidden, scores, norm, scored, safe, count = saved
    d = jnp.exp(scores - norm[..., None]) * (1.0 + 2.0 * z_weight * norm)[..., None]
    d = d - jax.nn.one_hot(safe, scores.shape[-1], dtype=scores.dtype)
    d = jnp.where(scored[..., None], d, 0.0) * (g / count)
    flat = d.reshape(-1, d.shape[-1])
    d_table = flat.T @ hidden.reshape(-1, hidden.shape[-1])
    return TagTable(d_table, flat.sum(0)), d @ params.table, None


tag_loss.defvjp(_tag_loss_fwd, _tag_loss_bwd)


class Tagger:
    def __init__(self, units, tags, key):
        k1, k2, k3 = jax.random.split(key, 3)
        self.params = {
            "recur": jax.random.uniform(k1, (2, units), minval=-1.0, maxval=1.0),
            "leak": jnp.full((2, units), 0.6),
            "out": TagTable(0.2 * jax.random.normal(k2, (tags, units)), jnp.zeros(tags)),
            "empty": 0.1 * jax.random.normal(k3, (units,)),
        }

    def loss(self, params, words, tags, lengths):
        start = jnp.zeros(words.shape[1:], words.dtype)
        left = leaky_states(words, params["recur"][0], params["leak"][0], start, False)
        right = leaky_states(words, params["recur"][1], params["leak"][1], start, True)
        summary = sentence_end(left, params["empty"], lengths)
        return tag_loss(params["out"], left + right + summary[None], tags, -100, 1e-4)


if __name__ == "__main__":
    tagger = Tagger(8, 5, jax.random.key(0))
    words = jax.random.normal(jax.random.key(1), (6, 3, 8))
    tags = jnp.array([[0, 1, 2]] * 4 + [[3, -100, 4]] * 2)
    print(jax.value_and_grad(tagger.loss)(tagger.params, words, tags, jnp.array([6, 4, 6]))[0])
