"""Item response models and stick-breaking mixtures for test banks."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.nn import log_sigmoid, sigmoid


@partial(jax.custom_vjp, nondiff_argnames=("axis", "remainder"))
def stick_breaking_weights(logits, axis=-1, remainder=True):
    """Stick-breaking weights ``s_i prod_{j<i} (1 - s_j)``, ``s = sigmoid(logits)``.

    Args:
      logits: Float array of any rank.
      axis: Axis along which the stick is broken.
      remainder: If true, the rest of the stick is appended as a last entry, so
        that the weights sum to one and the axis grows by one.

    Returns:
      The weights.
    """
    log_rest = jnp.cumsum(log_sigmoid(-logits), axis=axis)
    before = log_rest - log_sigmoid(-logits)
    weights = jnp.exp(log_sigmoid(logits) + before)
    if remainder:
        last = jax.lax.slice_in_dim(log_rest, logits.shape[axis] - 1, None, axis=axis)
        weights = jnp.concatenate([weights, jnp.exp(last)], axis=axis)
    return weights


def _stick_fwd(logits, axis, remainder):
    w = stick_breaking_weights(logits, axis, remainder)
    return w, (logits, w)


def _stick_bwd(axis, remainder, res, g):
    logits, w = res
    gw = g * w
    later = jnp.flip(jnp.cumsum(jnp.flip(gw, axis), axis=axis), axis)
    if remainder:
        n = logits.shape[axis]
        gw = jax.lax.slice_in_dim(gw, 0, n, axis=axis)
        later = jax.lax.slice_in_dim(later, 0, n, axis=axis)
    # the suffix sum holds the own entry too: gw (1 - s) - s (later - gw)
    return (gw - sigmoid(logits) * later,)


stick_breaking_weights.defvjp(_stick_fwd, _stick_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def irt_loglik(ability, items, person, item, response, reduction="sum"):
    """Log-likelihood of the three-parameter logistic response model.

    ``P(correct) = c + (1 - c) sigmoid(a (theta - b))``.

    Args:
      ability: (P,) abilities theta.
      items: Dict with ``"slope"`` a, ``"difficulty"`` b and ``"guess"`` c, each
        (I,); c in [0, 1).
      person: (N,) int, person of each response; may repeat.
      item: (N,) int, item of each response; may repeat.
      response: (N,) int, 1 correct, 0 incorrect, -1 not presented (ignored).
      reduction: "sum" or "mean" over the presented responses.
    """
    return _irt_terms(ability, items, person, item, response, reduction)[0]


def _irt_terms(ability, items, person, item, response, reduction):
    a, b, c = items["slope"][item], items["difficulty"][item], items["guess"][item]
    gap = ability[person] - b
    z = a * gap
    s = sigmoid(z)
    p = c + (1.0 - c) * s
    log_hit = jnp.log(p)
    log_miss = jnp.log1p(-c) + log_sigmoid(-z)
    seen = response >= 0
    term = jnp.where(seen, jnp.where(response == 1, log_hit, log_miss), 0.0)
    scale = 1.0
    if reduction == "mean":
        scale = 1.0 / jnp.maximum(seen.sum(), 1).astype(term.dtype)
    return term.sum() * scale, (a, c, gap, s, p, seen, scale)


def _irt_fwd(ability, items, person, item, response, reduction):
    out, aux = _irt_terms(ability, items, person, item, response, reduction)
    return out, (aux, ability, items, person, item, response)


def _irt_bwd(reduction, res, g):
    (a, c, gap, s, p, seen, scale), ability, items, person, item, response = res
    correct = response == 1
    w = jnp.where(seen, g * scale, 0.0)
    g_z = w * jnp.where(correct, (1.0 - c) * s * (1.0 - s) / p, -s)
    g_c = w * jnp.where(correct, (1.0 - s) / p, -1.0 / (1.0 - c))

    def to_items(v):
        return jax.ops.segment_sum(v, item, num_segments=items["slope"].shape[0])

    g_items = {
        "slope": to_items(g_z * gap),
        "difficulty": to_items(-g_z * a),
        "guess": to_items(g_c),
    }
    g_ability = jnp.zeros_like(ability).at[person].add(g_z * a)
    return g_ability, g_items, None, None, None


irt_loglik.defvjp(_irt_fwd, _irt_bwd)


class MixtureOfItems:
    """Item bank whose difficulties come from a truncated stick-breaking prior."""

    def __init__(self, atoms: int):
        self.atoms = atoms

    def init(self, key, num_items: int):
        k1, k2 = jax.random.split(key)
        return {
            "sticks": jnp.zeros((self.atoms - 1,)),
            "locations": jax.random.normal(k1, (self.atoms,)),
            "slope": jnp.exp(0.1 * jax.random.normal(k2, (num_items,))),
            "guess": jnp.full((num_items,), 0.2),
        }

    def loss(self, params, ability, difficulty, person, item, response):
        weights = stick_breaking_weights(params["sticks"])
        gap = difficulty[:, None] - params["locations"]
        prior = jnp.log(jnp.exp(-0.5 * gap**2) @ weights)
        bank = {"slope": params["slope"], "difficulty": difficulty, "guess": params["guess"]}
        fit = irt_loglik(ability, bank, person, item, response, "mean")
        return -fit - prior.mean()
