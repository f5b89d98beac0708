"""Embedding losses and heads used by the retrieval experiments."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp


@jax.custom_vjp
def skipgram_loss(in_table, out_table, centers, contexts, negatives):
    """Skip-gram with negative sampling, mean over the pairs.

    Negatives that happen to be the pair's own context word are left out.

    Args:
        in_table: (V, D) centre-word vectors.
        out_table: (V, D) context-word vectors.
        centers: (B,) int ids.
        contexts: (B,) int ids.
        negatives: (B, K) int ids.
    """
    return _skipgram_fwd(in_table, out_table, centers, contexts, negatives)[0]


def _skipgram_fwd(in_table, out_table, centers, contexts, negatives):
    h = in_table[centers]
    pos = jnp.sum(h * out_table[contexts], axis=-1)
    neg = jnp.einsum("bd,bkd->bk", h, out_table[negatives])
    keep = negatives != contexts[:, None]
    per_pair = jax.nn.softplus(-pos) + jnp.sum(keep * jax.nn.softplus(neg), axis=-1)
    res = (in_table, out_table, centers, contexts, negatives, pos, neg)
    return jnp.mean(per_pair), res


def _skipgram_bwd(res, g):
    in_table, out_table, centers, contexts, negatives, pos, neg = res
    g = g / centers.shape[0]
    keep = negatives != contexts[:, None]
    d_pos = -g * jax.nn.sigmoid(-pos)
    d_neg = g * keep * jax.nn.sigmoid(neg)

    h = in_table[centers]
    d_h = d_pos[:, None] * out_table[contexts] + jnp.einsum("bk,bkd->bd", d_neg, out_table[negatives])
    d_in = jnp.zeros_like(in_table).at[centers].set(d_h)
    d_out = jnp.zeros_like(out_table)
    d_out = d_out.at[contexts].add(d_pos[:, None] * h)
    d_out = d_out.at[negatives].add(d_neg[..., None] * h[:, None, :])
    return d_in, d_out, None, None, None


skipgram_loss.defvjp(_skipgram_fwd, _skipgram_bwd)


def train_skipgram(params, batches, lr=0.05):
    """One epoch of SGD; ``params`` is ``{"in": ..., "out": ...}``."""

    @jax.jit
    def step(p, batch):
        loss, g = jax.value_and_grad(lambda p: skipgram_loss(p["in"], p["out"], *batch))(p)
        return jax.tree.map(lambda a, b: a - lr * b, p, g), loss

    losses = []
    for batch in batches:
        params, loss = step(params, batch)
        losses.append(float(loss))
    return params, losses


@dataclasses.dataclass(frozen=True)
class PrototypeHead:
    """Gaussian prototypes with one precision per class.

    Attributes:
        temperature: divides the logits.
        normalised: add the log normaliser of the Gaussians (without the
            constant that all classes share).
    """

    temperature: float = 1.0
    normalised: bool = True

    def init(self, key, num_classes, dim):
        return {
            "proto": jax.random.normal(key, (num_classes, dim)),
            "log_prec": jnp.zeros((num_classes,)),
        }

    @staticmethod
    @partial(jax.custom_vjp, nondiff_argnums=(2, 3))
    def logits(params, x, temperature=1.0, normalised=True):
        """Class logits (..., C) of the features (..., D).

        ``params`` is what ``init`` returns. Only the logits are kept for the
        backward pass, not the (..., C) table of distances nor the (..., C, D)
        differences.
        """
        return _prototype_fwd(params, x, temperature, normalised)[0]

    def __call__(self, params, x):
        return self.logits(params, x, self.temperature, self.normalised)

    def loss(self, params, x, labels):
        logp = jax.nn.log_softmax(self(params, x))
        return -jnp.mean(jnp.take_along_axis(logp, labels[..., None], axis=-1))


def _prototype_fwd(params, x, temperature, normalised):
    p, lp = params["proto"], params["log_prec"]
    d2 = jnp.sum((x[..., None, :] - p) ** 2, axis=-1)
    score = -0.5 * jnp.exp(lp) * d2
    if normalised:
        score = score + 0.5 * p.shape[-1] * lp
    out = score / temperature
    return out, (params, x, out)


def _prototype_bwd(temperature, normalised, res, g):
    params, x, out = res
    p, lp = params["proto"], params["log_prec"]
    classes, dim = p.shape
    pull = g * jnp.exp(lp) / temperature
    d_x = pull @ p - jnp.sum(pull, axis=-1, keepdims=True) * x
    flat, flat_x = pull.reshape(-1, classes), x.reshape(-1, dim)
    d_p = flat.T @ flat_x - jnp.sum(flat, axis=0)[:, None] * p
    # d/d lp of the quadratic part is that part itself
    d_score = out
    if normalised:
        half = 0.5 * dim / temperature
        d_score = out - half * lp + half
    d_lp = jnp.sum((g * d_score).reshape(-1, classes), axis=0)
    return {"proto": d_p, "log_prec": d_lp}, d_x


PrototypeHead.logits.defvjp(_prototype_fwd, _prototype_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def hash_codes(features, window=1.0):
    """Binary codes in {-1, +1} for Hamming retrieval; zero maps to +1.

    The sign has no useful derivative. On purpose the backward pass is not the
    derivative of the forward one: it is a straight-through estimator that
    hands the cotangent on where ``|features| <= window`` and drops it
    elsewhere.
    """
    return jnp.where(features >= 0, 1.0, -1.0).astype(features.dtype)


def _hash_fwd(features, window):
    return hash_codes(features, window), jnp.abs(features) <= window


def _hash_bwd(window, inside, g):
    return (jnp.where(inside, g, 0.0),)


hash_codes.defvjp(_hash_fwd, _hash_bwd)


def pairwise_hash_loss(features, same):
    """Likelihood of pair similarity ``same`` (B, B) in {0, 1} under the codes."""
    codes = hash_codes(features)
    inner = 0.5 * codes @ codes.T
    return jnp.mean(jax.nn.softplus(inner) - same * inner)
