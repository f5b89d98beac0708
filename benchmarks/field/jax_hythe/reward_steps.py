"""Losses and reductions for process reward models and group-sampled policy training.

A process reward model scores every reasoning step of a sampled solution.  This file
holds what the trainer needs around that model: reducing step scores to a score of the
solution, turning pairs of solutions into a preference loss, normalising scores inside
the group sampled for one prompt, and estimating what best-of-k selection would return.

Shapes use B for the batch of solutions, S for padded steps, P for prompts and N for the
samples drawn for a prompt.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Dict, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Params = Dict[str, Any]

DEFAULT_TEMPERATURE = 0.25
ADVANTAGE_EPS = 1e-2


class PreferenceOut(NamedTuple):
    loss: jax.Array      # ()
    gap: jax.Array       # (B,)


class StepBatch(NamedTuple):
    """Hidden states of the last token of each step and which of them exist."""

    hidden: jax.Array    # (B, S, D)
    valid: jax.Array     # (B, S) bool
    tokens: jax.Array    # (B,) generated tokens per solution


# ---------------------------------------------------------------------------
# Reduction of step scores
# ---------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def step_softmin(scores, valid, temperature=DEFAULT_TEMPERATURE):
    """Smooth minimum of the step scores of each solution.

    Computes ``-t * log(mean(exp(-scores / t)))`` over the valid steps, so that a
    solution with equal scores keeps that score whatever its number of steps. Solutions
    without any valid step (the sampler was cut off) score zero.

    Args:
      scores: (B, S).
      valid: (B, S) bool.
      temperature: positive float; small values approach the hard minimum.

    Returns:
      (B,)
    """
    return _softmin_and_weights(scores, valid, temperature)[0]


def _softmin_and_weights(scores, valid, temperature):
    count = valid.sum(-1)
    some = count > 0
    logits = jnp.where(valid, -scores / temperature, -jnp.inf)
    peak = jnp.where(some, jnp.max(logits, axis=-1), 0.0)
    mass = jnp.where(valid, jnp.exp(logits - peak[..., None]), 0.0)
    total = mass.sum(-1)
    safe = jnp.where(some, total, 1.0)
    mean_log = peak + jnp.log(safe) - jnp.log(jnp.maximum(count, 1).astype(scores.dtype))
    reduced = jnp.where(some, -temperature * mean_log, 0.0)
    return reduced, mass / safe[..., None]


def _softmin_fwd(scores, valid, temperature):
    return _softmin_and_weights(scores, valid, temperature)


def _softmin_bwd(temperature, weights, g):
    del temperature
    return g[..., None] * weights, None


step_softmin.defvjp(_softmin_fwd, _softmin_bwd)


# ---------------------------------------------------------------------------
# Preference pairs
# ---------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def preference_terms(chosen, rejected, target_margin, log_beta, reduction="mean"):
    """Bradley-Terry loss with a per-pair target margin.

    ``gap`` is the scaled score difference less the margin. It is returned next to the
    loss because the trainer regularises its spread across the batch.

    chosen, rejected, target_margin: (B,)
    log_beta: scalar, learned inverse temperature
    reduction: "mean" or "sum"
    """
    gap = jnp.exp(log_beta) * (chosen - rejected) - target_margin
    each = jax.nn.softplus(-gap)
    loss = each.mean() if reduction == "mean" else each.sum()
    return PreferenceOut(loss, gap)


def _preference_fwd(chosen, rejected, target_margin, log_beta, reduction):
    out = preference_terms(chosen, rejected, target_margin, log_beta, reduction)
    return out, (chosen - rejected, jnp.exp(log_beta), out.gap)


def _preference_bwd(reduction, res, ct):
    diff, beta, gap = res
    scale = 1.0 / gap.shape[0] if reduction == "mean" else 1.0
    g_gap = -ct.loss * scale * jax.nn.sigmoid(-gap)
    g_chosen = beta * g_gap
    return g_chosen, -g_chosen, -g_gap, jnp.sum(g_gap * beta * diff)


preference_terms.defvjp(_preference_fwd, _preference_bwd)


# ---------------------------------------------------------------------------
# Group-relative advantages
# ---------------------------------------------------------------------------


def make_group_advantage(num_prompts: int, eps: float = ADVANTAGE_EPS, unbiased: bool = False):
    """Builds ``advantage(rewards, prompt_ids)``.

    Rewards are centred on the mean of their prompt's group and divided by the group's
    standard deviation plus ``eps``. Groups may have different sizes and their members
    may be scattered over the batch; a group of one gets an advantage of zero.
    """
    ddof = 1 if unbiased else 0

    def total(values, ids):
        return jax.ops.segment_sum(values, ids, num_segments=num_prompts)

    def moments(rewards, ids):
        size = total(jnp.ones_like(rewards), ids)
        centred = rewards - (total(rewards, ids) / jnp.maximum(size, 1.0))[ids]
        freedom = jnp.maximum(size - ddof, 1.0)
        variance = total(centred ** 2, ids) / freedom
        positive = variance > 0.0
        spread = jnp.where(positive, jnp.sqrt(jnp.where(positive, variance, 1.0)), 0.0)
        return size, freedom, centred, spread

    @jax.custom_vjp
    def advantage(rewards, prompt_ids):
        _, _, centred, spread = moments(rewards, prompt_ids)
        return centred / (spread + eps)[prompt_ids]

    def forward(rewards, prompt_ids):
        size, freedom, centred, spread = moments(rewards, prompt_ids)
        out = centred / (spread + eps)[prompt_ids]
        return out, (size, freedom, centred, spread, prompt_ids)

    def backward(res, g):
        size, freedom, centred, spread, ids = res
        scale = spread + eps
        mean_g = total(g, ids) / jnp.maximum(size, 1.0)
        inner = total(g * centred, ids)
        live = spread > 0.0
        coupling = jnp.where(live, inner / (freedom * jnp.where(live, spread, 1.0) * scale ** 2), 0.0)
        return (g - mean_g[ids]) / scale[ids] - coupling[ids] * centred, None

    advantage.defvjp(forward, backward)
    return advantage


# ---------------------------------------------------------------------------
# Best-of-k
# ---------------------------------------------------------------------------


def _subset_max_weights(n: int, k: int) -> np.ndarray:
    """Chance that the i-th smallest of n samples is the best of a random k-subset."""
    if not 1 <= k <= n:
        raise ValueError(f"k={k} must lie in 1..{n}")
    return np.array([math.comb(i, k - 1) for i in range(n)], dtype=np.float64) / math.comb(n, k)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def best_of_k_value(rewards, k):
    """Expected reward of the best of ``k`` out of the ``N`` samples of each prompt.

    Unbiased over subsets: sorts the samples and weighs them by the chance of being the
    best of a random subset.

    Args:
      rewards: (P, N)
      k: int, size of the subset
    Returns:
      (P,)
    """
    weights = jnp.asarray(_subset_max_weights(rewards.shape[-1], k), rewards.dtype)
    return jnp.sort(rewards, axis=-1) @ weights


def _best_fwd(rewards, k):
    return best_of_k_value(rewards, k), jnp.argsort(rewards, axis=-1)


def _best_bwd(k, order, g):
    weights = jnp.asarray(_subset_max_weights(order.shape[-1], k), g.dtype)
    return (g[:, None] * weights[order],)


best_of_k_value.defvjp(_best_fwd, _best_bwd)


# ---------------------------------------------------------------------------
# Model and training objectives
# ---------------------------------------------------------------------------


class StepRewardModel:
    """Two-layer head on frozen hidden states, one score per step."""

    def __init__(self, dim: int, width: int = 32, temperature: float = DEFAULT_TEMPERATURE):
        self.dim = dim
        self.width = width
        self.temperature = temperature

    def init(self, key) -> Params:
        k_in, k_out = jax.random.split(key)
        return {
            "w_in": jax.random.normal(k_in, (self.dim, self.width)) / math.sqrt(self.dim),
            "b_in": jnp.zeros(self.width),
            "w_out": jax.random.normal(k_out, (self.width,)) / math.sqrt(self.width),
            "log_beta": jnp.zeros(()),
        }

    def step_scores(self, params, hidden):
        inner = jax.nn.gelu(hidden @ params["w_in"] + params["b_in"])
        return inner @ params["w_out"]

    def solution_scores(self, params, batch: StepBatch):
        return step_softmin(self.step_scores(params, batch.hidden), batch.valid, self.temperature)

    def preference_loss(self, params, chosen: StepBatch, rejected: StepBatch, spread_weight=0.05):
        """Preference loss with a penalty on the spread of the gaps.

        The target margin grows with how much longer the chosen solution is.
        """
        longer = jnp.maximum(chosen.tokens - rejected.tokens, 0).astype(jnp.float32)
        out = preference_terms(
            self.solution_scores(params, chosen),
            self.solution_scores(params, rejected),
            0.1 * jnp.log1p(longer / 128.0),
            params["log_beta"],
            "mean",
        )
        return out.loss + spread_weight * jnp.var(out.gap)


def policy_objective(log_probs, rewards, prompt_ids, advantage_fn):
    """Score-function objective with group-normalised rewards."""
    scaled = jax.lax.stop_gradient(advantage_fn(rewards, prompt_ids))
    return -jnp.mean(scaled * log_probs)


def inference_aware_objective(params, model, grouped: StepBatch, n_samples, k):
    """Reward of best-of-k serving; the batch holds P * n_samples solutions in order."""
    scores = model.solution_scores(params, grouped).reshape(-1, n_samples)
    return -jnp.mean(best_of_k_value(scores, k))


def _fake_batch(key, b, s, d):
    k_h, k_v, k_t = jax.random.split(key, 3)
    steps = jax.random.randint(k_v, (b,), 1, s + 1)
    return StepBatch(
        hidden=jax.random.normal(k_h, (b, s, d)),
        valid=jnp.arange(s)[None, :] < steps[:, None],
        tokens=jax.random.randint(k_t, (b,), 20, 900),
    )


if __name__ == "__main__":
    model = StepRewardModel(dim=16)
    params = model.init(jax.random.PRNGKey(0))
    a = _fake_batch(jax.random.PRNGKey(1), 8, 6, 16)
    b = _fake_batch(jax.random.PRNGKey(2), 8, 6, 16)
    print(jax.value_and_grad(model.preference_loss)(params, a, b)[0])
    print(jax.value_and_grad(inference_aware_objective)(params, model, a, 4, 2)[0])
    normalise = make_group_advantage(num_prompts=3)
    print(normalise(jnp.array([1.0, 0.0, 1.0, 0.3, 0.5, 0.9]), jnp.array([0, 0, 1, 0, 2, 1])))
