"""Training objectives for representation learning and sequence labelling."""

from functools import partial
from typing import Optional

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

_NEG = -1e30


# ---------------------------------------------------------------------------
# Contrastive losses
# ---------------------------------------------------------------------------


def _info_nce_forward(queries, keys, temperature, symmetric):
    logits = queries @ keys.T / temperature
    positives = jnp.diagonal(logits)
    loss = jnp.mean(logsumexp(logits, axis=1) - positives)
    if symmetric:
        loss = 0.5 * (loss + jnp.mean(logsumexp(logits, axis=0) - positives))
    return loss, logits


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _info_nce(queries, keys, temperature, symmetric):
    return _info_nce_forward(queries, keys, temperature, symmetric)[0]


def _info_nce_fwd(queries, keys, temperature, symmetric):
    loss, logits = _info_nce_forward(queries, keys, temperature, symmetric)
    return loss, (queries, keys, temperature, logits)


def _info_nce_bwd(symmetric, res, g):
    queries, keys, temperature, logits = res
    n = logits.shape[0]
    eye = jnp.eye(n, dtype=logits.dtype)
    probs = jax.nn.softmax(logits, axis=1)
    d_logits = probs - eye
    if symmetric:
        d_logits = 0.5 * (d_logits + (probs.T - eye))
    d_logits = d_logits * (g / n)
    d_queries = d_logits @ keys / temperature
    d_keys = d_logits.T @ queries / temperature
    d_temperature = -jnp.sum(d_logits * logits) / temperature
    return d_queries, d_keys, d_temperature


_info_nce.defvjp(_info_nce_fwd, _info_nce_bwd)


def info_nce(queries: jax.Array, keys: jax.Array, temperature=0.1, *, symmetric: bool = False) -> jax.Array:
    """InfoNCE loss with in-batch negatives.

    Args:
      queries: ``[n, d]`` embeddings, one per example.
      keys: ``[n, d]`` embeddings; ``keys[i]`` is the positive of ``queries[i]``.
      temperature: positive scalar, may be learned.
      symmetric: if True, average the query-to-key and the key-to-query loss, as
        is done for paired modalities.

    Returns:
      Scalar loss, averaged over the batch.
    """
    temperature = jnp.asarray(temperature, dtype=queries.dtype)
    return _info_nce(queries, keys, temperature, bool(symmetric))


def _pair_masks(labels, dtype):
    same = labels[:, None] == labels[None, :]
    off = ~jnp.eye(labels.shape[0], dtype=bool)
    return (same & off).astype(dtype), off


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def supervised_contrastive_loss(features, labels, temperature=0.1):
    """Supervised contrastive loss ("out" variant).

    Args:
      features: float[n, d], usually l2-normalised.
      labels: int[n] class ids. Anchors without any positive are skipped.
      temperature: python float.
    """
    return _supcon_fwd(features, labels, temperature)[0]


def _supcon_fwd(features, labels, temperature):
    positives, off = _pair_masks(labels, features.dtype)
    logits = jnp.where(off, features @ features.T / temperature, _NEG)
    log_probs = logits - logsumexp(logits, axis=1, keepdims=True)
    n_pos = positives.sum(axis=1)
    has_pos = (n_pos > 0).astype(features.dtype)
    n_anchor = jnp.maximum(has_pos.sum(), 1.0)
    per_anchor = -jnp.sum(jnp.where(off, log_probs, 0.0) * positives, axis=1) / jnp.maximum(n_pos, 1.0)
    loss = jnp.sum(per_anchor * has_pos) / n_anchor
    return loss, (features, log_probs, positives, n_pos, has_pos / n_anchor)


def _supcon_bwd(temperature, res, g):
    features, log_probs, positives, n_pos, weight = res
    target = positives / jnp.maximum(n_pos, 1.0)[:, None]
    d_logits = (jnp.exp(log_probs) - target) * weight[:, None]
    d_features = 2.0 * (d_logits @ features) / temperature
    return g * d_features, None


supervised_contrastive_loss.defvjp(_supcon_fwd, _supcon_bwd)


# ---------------------------------------------------------------------------
# Structured prediction
# ---------------------------------------------------------------------------


def _crf_alphas(unary, transitions, lengths):
    num_steps = unary.shape[1]

    def step(alpha, inputs):
        t, u = inputs
        new = logsumexp(alpha[:, :, None] + transitions[None], axis=1) + u
        alpha = jnp.where((t < lengths)[:, None], new, alpha)
        return alpha, alpha

    first = unary[:, 0]
    steps = jnp.arange(1, num_steps)
    _, rest = jax.lax.scan(step, first, (steps, jnp.swapaxes(unary, 0, 1)[1:]))
    return jnp.concatenate([first[None], rest], axis=0)


def _crf_betas(unary, transitions, lengths):
    num_steps = unary.shape[1]

    def step(beta, inputs):
        t, u = inputs
        new = logsumexp(transitions[None] + (u + beta)[:, None, :], axis=2)
        beta = jnp.where((t < lengths)[:, None], new, beta)
        return beta, beta

    last = jnp.zeros_like(unary[:, 0])
    steps = jnp.arange(1, num_steps)
    _, rest = jax.lax.scan(step, last, (steps, jnp.swapaxes(unary, 0, 1)[1:]), reverse=True)
    return jnp.concatenate([rest, last[None]], axis=0)


@jax.custom_vjp
def _crf(unary, transitions, lengths):
    return logsumexp(_crf_alphas(unary, transitions, lengths)[-1], axis=-1)


def _crf_fwd(unary, transitions, lengths):
    alphas = _crf_alphas(unary, transitions, lengths)
    log_z = logsumexp(alphas[-1], axis=-1)
    return log_z, (unary, transitions, lengths, alphas, log_z)


def _crf_bwd(res, g):
    unary, transitions, lengths, alphas, log_z = res
    betas = _crf_betas(unary, transitions, lengths)
    valid = jnp.arange(unary.shape[1])[:, None] < lengths[None, :]
    node = jnp.exp(alphas + betas - log_z[None, :, None])
    node = jnp.where(valid[:, :, None], node, 0.0) * g[None, :, None]
    emit = jnp.swapaxes(unary, 0, 1)[1:] + betas[1:]
    edge = alphas[:-1, :, :, None] + transitions + emit[:, :, None, :] - log_z[None, :, None, None]
    edge = jnp.where(valid[1:, :, None, None], jnp.exp(edge), 0.0)
    d_transitions = jnp.einsum("tbij,b->ij", edge, g)
    return jnp.swapaxes(node, 0, 1), d_transitions, None


_crf.defvjp(_crf_fwd, _crf_bwd)


def crf_log_partition(unary: jax.Array, transitions: jax.Array, lengths: Optional[jax.Array] = None) -> jax.Array:
    """Log partition function of a linear-chain CRF.

    Args:
      unary: ``[batch, time, states]`` scores.
      transitions: ``[states, states]``; ``transitions[i, j]`` scores i -> j.
      lengths: ``[batch]`` sequence lengths (at least 1), or None when nothing is padded.

    Returns:
      ``[batch]`` log normalisers. The backward pass returns the posterior marginals.
    """
    if lengths is None:
        lengths = jnp.full((unary.shape[0],), unary.shape[1], dtype=jnp.int32)
    return _crf(unary, transitions, lengths)
