"""Sequence model heads: copying, dependency arcs and hashed word bags."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

TINY = 1e-12


# copy mechanism ------------------------------------------------------------


def _target_gen_prob(logits, target):
    """Softmax probability of the target; 0 for out-of-vocabulary targets."""
    probs = jax.nn.softmax(logits, axis=-1)
    known = target < logits.shape[-1]
    safe = jnp.where(known, target, 0)
    picked = jnp.take_along_axis(probs, safe[:, None], axis=-1)[:, 0]
    return probs, known, safe, jnp.where(known, picked, 0.0)


@jax.custom_vjp
def pointer_copy_nll(logits, attention, p_gen, source_ids, target):
    """Negative log likelihood of a pointer-generator decoder step.

    Args:
      logits: [batch, vocab] generator scores.
      attention: [batch, source] copy distribution over the source positions.
      p_gen: [batch] probability of generating rather than copying.
      source_ids: [batch, source] ids of the source tokens in the extended
        vocabulary (ids >= vocab are source words unknown to the generator).
      target: [batch] ids in the extended vocabulary.

    Returns:
      [batch] losses, -log(p_gen * softmax(logits)[target] + (1 - p_gen) *
      total attention on the target).
    """
    _, _, _, gen = _target_gen_prob(logits, target)
    match = source_ids == target[:, None]
    copy = jnp.sum(jnp.where(match, attention, 0.0), axis=-1)
    return -jnp.log(p_gen * gen + (1.0 - p_gen) * copy + TINY)


def _pointer_fwd(logits, attention, p_gen, source_ids, target):
    probs, known, safe, gen = _target_gen_prob(logits, target)
    match = source_ids == target[:, None]
    copy = jnp.sum(jnp.where(match, attention, 0.0), axis=-1)
    mixed = p_gen * gen + (1.0 - p_gen) * copy + TINY
    # keep where the target sits instead of the [batch, source] mask
    position = jnp.argmax(match, axis=-1)
    found = jnp.any(match, axis=-1)
    return -jnp.log(mixed), (probs, safe, gen, copy, mixed, p_gen, position, found, attention)


def _pointer_bwd(res, g):
    probs, safe, gen, copy, mixed, p_gen, position, found, attention = res
    rows = jnp.arange(probs.shape[0])
    d_mixed = -g / mixed
    d_gen = d_mixed * p_gen * gen
    d_logits = (-d_gen[:, None] * probs).at[rows, safe].add(d_gen)
    d_copy = jnp.where(found, d_mixed * (1.0 - p_gen), 0.0)
    d_attention = jnp.zeros_like(attention).at[rows, position].add(d_copy)
    return d_logits, d_attention, d_mixed * (gen - copy), None, None


pointer_copy_nll.defvjp(_pointer_fwd, _pointer_bwd)


# dependency arcs -----------------------------------------------------------


def _append_one(x, on):
    if not on:
        return x
    return jnp.concatenate([x, jnp.ones(x.shape[:-1] + (1,), x.dtype)], axis=-1)


@dataclasses.dataclass(frozen=True)
class BiaffineScorer:
    """Deep biaffine arc/label scorer (Dozat & Manning 2017).

    Attributes:
      labels: number of labels L.
      bias_dep: append a constant to dependents.
      bias_head: append a constant to heads.
    """

    labels: int = 1
    bias_dep: bool = True
    bias_head: bool = False

    def init(self, key, dep_dim, head_dim):
        shape = (self.labels, dep_dim + self.bias_dep, head_dim + self.bias_head)
        return jax.random.normal(key, shape) * (dep_dim * head_dim) ** -0.5

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def score(self, weight, dep, head):
        """Scores [B, L, I, J] of dependents [B, I, D] against heads [B, J, E]."""
        left = _append_one(dep, self.bias_dep)
        right = _append_one(head, self.bias_head)
        return jnp.einsum("bid,lde,bje->blij", left, weight, right)

    def _score_fwd(self, weight, dep, head):
        return BiaffineScorer.score(self, weight, dep, head), (weight, dep, head)

    def _score_bwd(self, res, g):
        weight, dep, head = res
        left = _append_one(dep, self.bias_dep)
        right = _append_one(head, self.bias_head)
        pulled = jnp.einsum("blij,bje->blie", g, right)
        g_weight = jnp.einsum("blie,bid->lde", pulled, left)
        g_left = jnp.einsum("blie,lde->bid", pulled, weight)
        g_right = jnp.einsum("blij,bid,lde->bje", g, left, weight)
        return g_weight, g_left[..., : dep.shape[-1]], g_right[..., : head.shape[-1]]

    score.defvjp(_score_fwd, _score_bwd)

    def __call__(self, weight, dep, head):
        return BiaffineScorer.score(self, weight, dep, head)


def arc_loss(scorer, weight, dep, head, gold, lengths):
    """Cross entropy of the gold head of each real token."""
    scores = scorer(weight, dep, head)[:, 0]
    real = jnp.arange(dep.shape[1]) < lengths[:, None]
    logp = jax.nn.log_softmax(scores, axis=-1)
    picked = jnp.take_along_axis(logp, gold[..., None], axis=-1)[..., 0]
    return -jnp.sum(jnp.where(real, picked, 0.0)) / jnp.sum(real)


# hashed bags of words ------------------------------------------------------

_MULTIPLIERS = (73, 151, 283, 557, 1109)


def _buckets(ids, hashes, size):
    """Bucket numbers [..., hashes]."""
    mult = jnp.asarray(_MULTIPLIERS[:hashes], jnp.int32)
    return (ids[..., None] * mult + mult // 7) % size


@jax.custom_vjp
def hashed_bag(table, importance, ids):
    """Mean hash embedding of the tokens of each document.

    A token is embedded as the sum of a few rows of one shared table, weighted
    by the token's own importances (Svenstrup et al. 2017).

    table: [buckets, dim]; importance: [vocab, hashes] with up to 5 hashes;
    ids: [batch, tokens] integers below vocab, 0 is padding. Documents of only
    padding give zeros.
    """
    where = _buckets(ids, importance.shape[1], table.shape[0])
    real = (ids != 0).astype(table.dtype)
    weight = importance[ids] * real[..., None]
    total = jnp.einsum("bth,bthd->bd", weight, table[where])
    return total / jnp.maximum(real.sum(-1, keepdims=True), 1.0)


def _hashed_bag_fwd(table, importance, ids):
    return hashed_bag(table, importance, ids), (table, importance, ids)


def _hashed_bag_bwd(res, g):
    table, importance, ids = res
    where = _buckets(ids, importance.shape[1], table.shape[0])
    real = (ids != 0).astype(table.dtype)
    g = g / jnp.maximum(real.sum(-1, keepdims=True), 1.0)
    g_token = g[:, None, :] * real[..., None]  # [B, T, D]
    rows = importance[ids][..., None] * g_token[:, :, None, :]
    g_table = jnp.zeros_like(table).at[where].add(rows)
    g_importance = jnp.zeros_like(importance).at[ids].add(
        jnp.einsum("bthd,btd->bth", table[where], g_token)
    )
    return g_table, g_importance, None


hashed_bag.defvjp(_hashed_bag_fwd, _hashed_bag_bwd)
