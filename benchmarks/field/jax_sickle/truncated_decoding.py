"""Differentiable pieces of a language-model decoder.

When a small student is distilled from *sampled* text, or when the knobs of a
sampler (temperature, contrast strength, length pressure) are tuned by
gradient descent on a reward model, the truncation and re-weighting steps that
normally live in the generation loop have to sit inside the autodiff graph.
Vocabulary axes run to a quarter of a million entries, so each step below has
its backward pass written out: one softmax is kept, nothing else.

All steps take logits with the vocabulary on the last axis and can be chained
in the order of :class:`DecodingHead`.
"""

import dataclasses
import functools
import math
from typing import NamedTuple, Sequence, Tuple

import jax
import jax.numpy as jnp

# Log-probability given to tokens outside the truncated set. Finite, so that
# sums over masked rows stay finite in bfloat16.
FLOOR = -1.0e4

# Knobs from the chat preset.
DEFAULT_MIN_P = 0.05
DEFAULT_ALPHA = 0.1
DEFAULT_BETA = 0.5


class SamplerKnobs(NamedTuple):
    """Trainable knobs of the decoder."""

    temperature: jnp.ndarray  # (batch,)
    contrast: jnp.ndarray  # ()
    length_factor: jnp.ndarray  # ()
    pool_weights: jnp.ndarray  # (models,)


def _relative_keep(scores, fraction):
    """True where a token has at least `fraction` of the top token's mass."""
    top = jnp.max(scores, axis=-1, keepdims=True)
    if fraction <= 0.0:
        return jnp.ones(scores.shape, bool)
    return scores >= top + math.log(fraction)


def _masked_log_softmax(scores, keep):
    shifted = jnp.where(keep, scores, -jnp.inf)
    norm = jax.nn.logsumexp(shifted, axis=-1, keepdims=True)
    return jnp.where(keep, scores - norm, FLOOR)


# ---------------------------------------------------------------------------
# min-p truncation


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def min_p_log_probs(logits, temperature, min_p):
    """Renormalised log-probabilities after min-p truncation.

    A token survives when its tempered probability is at least ``min_p`` times
    that of the most likely token; which tokens survive is a constant of the
    backward pass.

    Parameters
    ----------
    logits : (batch, vocab)
    temperature : (batch,)
        Softmax temperature of every row, positive.
    min_p : float
        Static; 0 keeps the whole vocabulary.

    Returns
    -------
    (batch, vocab) log-probabilities, ``FLOOR`` for dropped tokens.
    """
    scaled = logits / temperature[:, None]
    return _masked_log_softmax(scaled, _relative_keep(scaled, min_p))


def _min_p_fwd(logits, temperature, min_p):
    scaled = logits / temperature[:, None]
    keep = _relative_keep(scaled, min_p)
    out = _masked_log_softmax(scaled, keep)
    return out, (scaled, keep, out, temperature)


def _min_p_bwd(min_p, res, g):
    del min_p
    scaled, keep, out, temperature = res
    g = jnp.where(keep, g, 0.0)
    probs = jnp.where(keep, jnp.exp(out), 0.0)
    d_scaled = g - probs * jnp.sum(g, axis=-1, keepdims=True)
    d_logits = d_scaled / temperature[:, None]
    d_temperature = -jnp.sum(d_scaled * scaled, axis=-1) / temperature
    return d_logits, d_temperature


min_p_log_probs.defvjp(_min_p_fwd, _min_p_bwd)


# ---------------------------------------------------------------------------
# contrastive decoding


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def contrastive_scores(expert, amateur, beta, alpha):
    """Contrastive decoding scores of an expert against an amateur.

    Args:
      expert: logits of the large model, [batch, vocab].
      amateur: logits of the small model, [batch, vocab].
      beta: scalar contrast strength.
      alpha: plausibility cut-off relative to the expert's top token (static).

    Returns:
      ``(1 + beta) * log p_expert - beta * log p_amateur`` for tokens in the
      expert's plausible set, ``FLOOR`` elsewhere. Both distributions are
      normalised over the full vocabulary; membership is not differentiated.
    """
    log_e = jax.nn.log_softmax(expert, axis=-1)
    log_a = jax.nn.log_softmax(amateur, axis=-1)
    keep = _relative_keep(log_e, alpha)
    return jnp.where(keep, (1.0 + beta) * log_e - beta * log_a, FLOOR)


def _contrastive_fwd(expert, amateur, beta, alpha):
    log_e = jax.nn.log_softmax(expert, axis=-1)
    log_a = jax.nn.log_softmax(amateur, axis=-1)
    keep = _relative_keep(log_e, alpha)
    out = jnp.where(keep, (1.0 + beta) * log_e - beta * log_a, FLOOR)
    gap = jnp.where(keep, log_e - log_a, 0.0)
    probs_a = jnp.where(keep, jnp.exp(log_a), 0.0)
    return out, (jnp.exp(log_e), probs_a, gap, keep, beta)


def _contrastive_bwd(alpha, res, g):
    del alpha
    probs_e, probs_a, gap, keep, beta = res
    g = jnp.where(keep, g, 0.0)
    total = jnp.sum(g, axis=-1, keepdims=True)
    d_expert = (1.0 + beta) * (g - probs_e * total)
    d_amateur = -beta * (g - probs_a * total)
    d_beta = jnp.sum(g * gap).astype(jnp.result_type(beta))
    return d_expert, d_amateur, d_beta


contrastive_scores.defvjp(_contrastive_fwd, _contrastive_bwd)


# ---------------------------------------------------------------------------
# length pressure


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def length_decay_boost(logits, factor, steps, eos_ids, start):
    """Raises the end-of-text logits exponentially once `start` tokens are out.

    The boost added to an end token is ``|logit| * (factor ** k - 1)`` with
    ``k = max(steps - start, 0)``, so that it always pushes upwards.
    `steps` holds the number of tokens generated so far per row (integers),
    `eos_ids` is a tuple of distinct token ids.
    """
    ids = jnp.asarray(eos_ids)
    overdue = jnp.maximum(steps - start, 0).astype(logits.dtype)
    growth = factor ** overdue - 1.0
    return logits.at[:, ids].add(jnp.abs(logits[:, ids]) * growth[:, None])


def _length_fwd(logits, factor, steps, eos_ids, start):
    out = length_decay_boost(logits, factor, steps, eos_ids, start)
    ends = logits[:, jnp.asarray(eos_ids)]
    overdue = jnp.maximum(steps - start, 0).astype(logits.dtype)
    return out, (ends, overdue, factor)


def _length_bwd(eos_ids, start, res, g):
    del start
    ends, overdue, factor = res
    ids = jnp.asarray(eos_ids)
    g_end = g[:, ids]
    growth = factor ** overdue - 1.0
    d_logits = g.at[:, ids].add(g_end * growth[:, None])
    slope = jnp.where(overdue > 0, overdue * factor ** (overdue - 1.0), 0.0)
    d_factor = jnp.sum(g_end * jnp.abs(ends) * slope[:, None])
    return d_logits, d_factor.astype(jnp.result_type(factor)), None


length_decay_boost.defvjp(_length_fwd, _length_bwd)


# ---------------------------------------------------------------------------
# geometric pooling of checkpoints


@jax.custom_jvp
def pooled_log_probs(stack, weights):
    """Log-linear pool of several checkpoints.

    stack: [models, batch, vocab] log-probabilities (or logits);
    weights: [models] exponents, which need neither be positive nor sum to 1.
    """
    mixed = jnp.tensordot(weights, stack, axes=(0, 0))
    return jax.nn.log_softmax(mixed, axis=-1)


@pooled_log_probs.defjvp
def _pooled_jvp(primals, tangents):
    stack, weights = primals
    d_stack, d_weights = tangents
    out = pooled_log_probs(stack, weights)
    d_mixed = (jnp.tensordot(weights, d_stack, axes=(0, 0))
               + jnp.tensordot(d_weights, stack, axes=(0, 0)))
    probs = jnp.exp(out)
    return out, d_mixed - jnp.sum(probs * d_mixed, axis=-1, keepdims=True)


# ---------------------------------------------------------------------------
# the decoder


@dataclasses.dataclass(frozen=True)
class DecodingHead:
    """Chains pooling, contrast, length pressure and truncation.

    The expert is a pool of checkpoints; the amateur is one small model.
    """

    eos_ids: Tuple[int, ...]
    min_p: float = DEFAULT_MIN_P
    alpha: float = DEFAULT_ALPHA
    soft_limit: int = 256

    def init(self, models: int, batch: int) -> SamplerKnobs:
        return SamplerKnobs(
            temperature=jnp.full((batch,), 0.8),
            contrast=jnp.asarray(DEFAULT_BETA),
            length_factor=jnp.asarray(1.02),
            pool_weights=jnp.full((models,), 1.0 / models),
        )

    def __call__(self, knobs: SamplerKnobs, checkpoints, amateur, steps):
        """checkpoints [models, batch, vocab] -> log-probs [batch, vocab]."""
        expert = pooled_log_probs(checkpoints, knobs.pool_weights)
        scores = contrastive_scores(expert, amateur, knobs.contrast, self.alpha)
        scores = length_decay_boost(scores, knobs.length_factor, steps,
                                    self.eos_ids, self.soft_limit)
        return min_p_log_probs(scores, knobs.temperature, self.min_p)


def expected_reward(head: DecodingHead, knobs, checkpoints, amateur, steps, rewards):
    """Mean one-step reward under the truncated distribution."""
    log_p = head(knobs, checkpoints, amateur, steps)
    return jnp.mean(jnp.sum(jnp.exp(log_p) * rewards, axis=-1))


def sequence_log_likelihood(log_probs, tokens, lengths):
    """Sum of token log-probabilities over ragged rows.

    log_probs: [batch, time, vocab], tokens: int [batch, time].
    """
    picked = jnp.take_along_axis(log_probs, tokens[..., None], axis=-1)[..., 0]
    inside = jnp.arange(tokens.shape[1])[None, :] < lengths[:, None]
    return jnp.sum(jnp.where(inside, picked, 0.0), axis=-1)


def tune_knobs(head, knobs, batches: Sequence, learning_rate=1e-2):
    """Plain gradient ascent on the expected reward."""

    @jax.jit
    def step(knobs, checkpoints, amateur, steps, rewards):
        value, grads = jax.value_and_grad(expected_reward, argnums=1)(
            head, knobs, checkpoints, amateur, steps, rewards)
        moved = jax.tree_util.tree_map(
            lambda p, d: p + learning_rate * d, knobs, grads)
        return moved, value

    step = functools.partial(step)
    history = []
    for checkpoints, amateur, steps, rewards in batches:
        knobs, value = step(knobs, checkpoints, amateur, steps, rewards)
        history.append(float(value))
    return knobs, history


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    k1, k2, k3 = jax.random.split(key, 3)
    head = DecodingHead(eos_ids=(0, 3), soft_limit=10)
    ckpts = jax.nn.log_softmax(2.0 * jax.random.normal(k1, (3, 4, 32)), axis=-1)
    small = jax.random.normal(k2, (4, 32))
    lengths = jnp.array([2, 9, 14, 30])
    reward = jax.random.uniform(k3, (4, 32))
    knobs = head.init(3, 4)
    knobs, trace = tune_knobs(head, knobs, [(ckpts, small, lengths, reward)] * 3)
    print("reward:", trace)
