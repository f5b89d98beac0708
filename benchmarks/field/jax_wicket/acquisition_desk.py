"""Scores for choosing which unlabelled examples to send to the annotators.

The pool is scored by an ensemble of cheap heads on frozen features.  Three
scores are combined: disagreement of the heads (mutual information between the
label and the head), the size of the update an example would cause, and how far
an example lies from what is labelled already.  A small policy network learns
the mixture end to end, and image augmentations are searched by ascending the
scores, so all of them need derivatives.

Shapes use M for ensemble members, B for the pool batch, C for classes, D for
feature width and P for prototypes.
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

SCORE_NAMES = ("disagreement", "update", "novelty")
NEGLIGIBLE = 1.0e-12


class PolicyParams(NamedTuple):
    mixture: jax.Array          # (3,)
    member_logits: jax.Array    # (M,)
    novelty: dict               # {"prototypes": (P, D), "log_scale": (D,)}


class PoolBatch(NamedTuple):
    features: jax.Array         # (B, D)
    logits: jax.Array           # (M, B, C)
    labelled: jax.Array         # (B,) bool; already annotated


# ---------------------------------------------------------------------------
# Disagreement
# ---------------------------------------------------------------------------


@jax.custom_vjp
def bald_scores(logits: jax.Array, member_logits: jax.Array) -> jax.Array:
    """Mutual information of label and ensemble member.

    Args:
        logits: Class logits of every member, (M, B, C).
        member_logits: Unnormalised log trust in every member, (M,).

    Returns:
        (B,) scores in nats, between 0 and the entropy of the members.
    """
    return _bald_fwd(logits, member_logits)[0]


def _bald_fwd(logits, member_logits):
    log_p = jax.nn.log_softmax(logits, axis=-1)
    log_w = jax.nn.log_softmax(member_logits)
    log_mean = logsumexp(log_p + log_w[:, None, None], axis=0)
    contrast = log_p - log_mean
    per_member = jnp.sum(jnp.exp(log_p) * contrast, axis=-1)
    scores = jnp.exp(log_w) @ per_member
    return scores, (log_p, log_w, contrast, per_member, scores)


def _bald_bwd(res, g):
    log_p, log_w, contrast, per_member, scores = res
    w = jnp.exp(log_w)
    # the mean distribution is the minimiser of the averaged divergence, so
    # only the explicit dependence on each member is left
    d_logits = jnp.exp(log_p) * (contrast - per_member[..., None])
    d_logits = d_logits * w[:, None, None] * g[None, :, None]
    d_member = w * ((per_member - scores[None, :]) @ g)
    return d_logits, d_member


bald_scores.defvjp(_bald_fwd, _bald_bwd)


# ---------------------------------------------------------------------------
# Size of the update
# ---------------------------------------------------------------------------


@jax.custom_jvp
def expected_model_change(logits, features):
    """Expected length of the gradient of the last layer.

    For label y the gradient of the cross entropy with respect to the last
    weight matrix is ``(p - e_y) h^T``; its Frobenius norm factors.  The
    expectation is taken under the model's own belief p.

    logits (B, C), features (B, D) -> (B,)
    """
    p = jax.nn.softmax(logits, axis=-1)
    return _belief_norm(p)[0] * jnp.linalg.norm(features, axis=-1)


def _belief_norm(p):
    """Return sum_y p_y |p - e_y| and the norms |p - e_y| themselves."""
    eye = jnp.eye(p.shape[-1], dtype=p.dtype)
    residual = p[..., None, :] - eye
    norms = jnp.sqrt(jnp.sum(residual**2, axis=-1))
    return jnp.sum(p * norms, axis=-1), norms


@expected_model_change.defjvp
def _expected_model_change_jvp(primals, tangents):
    logits, features = primals
    d_logits, d_features = tangents
    p = jax.nn.softmax(logits, axis=-1)
    belief, norms = _belief_norm(p)
    length = jnp.linalg.norm(features, axis=-1)

    d_p = p * (d_logits - jnp.sum(p * d_logits, axis=-1, keepdims=True))
    settled = norms < NEGLIGIBLE
    inverse = jnp.where(settled, 0.0, 1.0 / jnp.where(settled, 1.0, norms))
    inner = jnp.sum(p * d_p, axis=-1, keepdims=True) - d_p
    d_belief = jnp.sum(d_p * norms + p * inner * inverse, axis=-1)

    empty = length < NEGLIGIBLE
    projected = jnp.sum(features * d_features, axis=-1)
    d_length = jnp.where(empty, 0.0, projected / jnp.where(empty, 1.0, length))
    return belief * length, d_belief * length + belief * d_length


# ---------------------------------------------------------------------------
# Distance from the labelled set
# ---------------------------------------------------------------------------


def make_prototype_novelty(active: np.ndarray, softness: float = 0.5) -> Callable:
    """Soft distance to the nearest labelled prototype.

    Parameters
    ----------
    active : (P,) bool
        Prototypes in use.  At least one must be.
    softness : float
        Temperature of the soft minimum.

    Returns
    -------
    callable
        ``novelty(params, features) -> (B,)`` with params a dict holding
        "prototypes" (P, D) and "log_scale" (D,), the log of a per-feature
        weight of the squared distance.
    """
    active = jnp.asarray(active)

    @jax.custom_gradient
    def novelty(params, features):
        prototypes, log_scale = params["prototypes"], params["log_scale"]
        scale = jnp.exp(log_scale)
        gap = features[:, None, :] - prototypes[None, :, :]
        distance = jnp.sum(scale * gap**2, axis=-1)
        closeness = jnp.where(active, -distance / softness, -jnp.inf)
        score = -softness * logsumexp(closeness, axis=-1)

        def vjp(g):
            belong = jax.nn.softmax(closeness, axis=-1)
            pulled = g[:, None, None] * belong[..., None] * scale * gap
            d_features = 2.0 * jnp.sum(pulled, axis=1)
            d_prototypes = -2.0 * jnp.sum(pulled, axis=0)
            d_log_scale = jnp.mean(jnp.sum(pulled * gap, axis=1), axis=0)
            d_params = {"prototypes": d_prototypes, "log_scale": d_log_scale}
            return d_params, d_features

        return score, vjp

    return novelty


# ---------------------------------------------------------------------------
# Policy
# ---------------------------------------------------------------------------


class AcquisitionPolicy:
    """Learned mixture of the three scores."""

    def __init__(self, active, softness: float = 0.5, select: int = 4):
        self.novelty = make_prototype_novelty(active, softness)
        self.select = select

    @staticmethod
    def init(key, n_members: int, n_prototypes: int, width: int) -> PolicyParams:
        prototypes = jax.random.normal(key, (n_prototypes, width))
        return PolicyParams(
            mixture=jnp.zeros((len(SCORE_NAMES),)),
            member_logits=jnp.zeros((n_members,)),
            novelty={"prototypes": prototypes, "log_scale": jnp.zeros((width,))},
        )

    def parts(self, params: PolicyParams, batch: PoolBatch) -> jax.Array:
        """(3, B) raw scores in the order of SCORE_NAMES."""
        consensus = jnp.mean(batch.logits, axis=0)
        return jnp.stack(
            [
                bald_scores(batch.logits, params.member_logits),
                expected_model_change(consensus, batch.features),
                self.novelty(params.novelty, batch.features),
            ]
        )

    def scores(self, params: PolicyParams, batch: PoolBatch) -> jax.Array:
        mixed = jax.nn.softmax(params.mixture) @ self.parts(params, batch)
        return jnp.where(batch.labelled, -jnp.inf, mixed)

    def pick(self, params: PolicyParams, batch: PoolBatch) -> jax.Array:
        return jax.lax.top_k(self.scores(params, batch), self.select)[1]

    def regret_loss(self, params, batch, gain):
        """Listwise loss against the measured gain of labelling each example."""
        usable = ~batch.labelled
        mixed = jax.nn.softmax(params.mixture) @ self.parts(params, batch)
        log_q = jax.nn.log_softmax(jnp.where(usable, mixed, -1e9))
        target = jax.nn.softmax(jnp.where(usable, gain, -1e9))
        return -jnp.sum(jnp.where(usable, target * log_q, 0.0))


def train(policy, params, batches, rate=0.05):
    step = jax.jit(jax.value_and_grad(policy.regret_loss))
    history = []
    for batch, gain in batches:
        loss, grads = step(params, batch, gain)
        params = jax.tree_util.tree_map(lambda p, d: p - rate * d, params, grads)
        history.append(float(loss))
    return params, history


def synthetic_pool(seed, members=4, batch=12, classes=5, width=6):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((batch, width))
    heads = rng.standard_normal((members, width, classes))
    logits = np.einsum("bd,mdc->mbc", features, heads)
    labelled = rng.random(batch) < 0.2
    gain = rng.standard_normal(batch)
    pool = PoolBatch(jnp.asarray(features), jnp.asarray(logits), jnp.asarray(labelled))
    return pool, jnp.asarray(gain)


if __name__ == "__main__":
    policy = AcquisitionPolicy(active=np.array([True, True, True, False]))
    params = policy.init(jax.random.PRNGKey(0), n_members=4, n_prototypes=4, width=6)
    params, history = train(policy, params, [synthetic_pool(s) for s in range(10)])
    print(history[0], history[-1])
    print(policy.pick(params, synthetic_pool(99)[0]))
