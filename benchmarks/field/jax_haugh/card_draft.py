"""Pick model and deck scoring for booster drafts."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

MAX_COST = 7


@dataclasses.dataclass(frozen=True)
class DraftConfig:
    num_cards: int
    temperature: float = 1.0
    gap_power: float = 2.0


def _pack_logits(ratings, temperature, packs, present):
    logits = ratings[packs] / temperature
    return jnp.where(present, logits, -jnp.inf)


@jax.custom_vjp
def pick_log_prob(ratings, temperature, packs, present, picked):
    """Log-probability of the cards taken.

    Args:
      ratings: ``(num_cards,)`` strength of each card.
      temperature: scalar, > 0.
      packs: ``(batch, slots)`` integer card ids of what the drafter saw.
      present: ``(batch, slots)`` bool, slots that still hold a card.
      picked: ``(batch,)`` integer slot that was taken (a present one).

    Returns:
      ``(batch,)`` log-probabilities.
    """
    logp = jax.nn.log_softmax(_pack_logits(ratings, temperature, packs, present), -1)
    return jnp.take_along_axis(logp, picked[:, None], -1)[:, 0]


def _pick_fwd(ratings, temperature, packs, present, picked):
    logits = _pack_logits(ratings, temperature, packs, present)
    logp = jax.nn.log_softmax(logits, -1)
    out = jnp.take_along_axis(logp, picked[:, None], -1)[:, 0]
    return out, (ratings, temperature, packs, present, picked, jnp.exp(logp))


def _pick_bwd(res, g):
    ratings, temperature, packs, present, picked, prob = res
    onehot = jax.nn.one_hot(picked, packs.shape[-1], dtype=prob.dtype)
    d_logit = g[:, None] * jnp.where(present, onehot - prob, 0.0)
    d_ratings = jnp.zeros_like(ratings).at[packs].set(d_logit / temperature)
    d_temp = -jnp.sum(d_logit * ratings[packs]) / temperature**2
    return d_ratings, d_temp, None, None, None


pick_log_prob.defvjp(_pick_fwd, _pick_bwd)


# synergy[i, j] is "i enables j" and need not be symmetric; a card does not
# enable its own single copy, hence the diagonal correction.
@jax.custom_vjp
def deck_synergy(counts, synergy):
    quad = jnp.einsum("...i,ij,...j->...", counts, synergy, counts)
    return 0.5 * (quad - counts @ jnp.diagonal(synergy))


def _synergy_fwd(counts, synergy):
    return deck_synergy(counts, synergy), (counts, synergy)


def _synergy_bwd(res, g):
    counts, synergy = res
    d_counts = 0.5 * g[..., None] * (counts @ (synergy + synergy.T) - jnp.diagonal(synergy))
    flat = counts.reshape(-1, counts.shape[-1])
    gf = g.reshape(-1, 1)
    d_syn = 0.5 * (flat.T @ (gf * flat) - jnp.diag(jnp.sum(gf * flat, 0)))
    return d_counts, d_syn


deck_synergy.defvjp(_synergy_fwd, _synergy_bwd)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def curve_gap(hist, target, power=2.0, root=False):
    """Cramer-type distance of the cost curve (last axis) from the target curve; `root` takes the 1/power root."""
    total = jnp.sum(hist, -1, keepdims=True)
    gap = jnp.cumsum(hist / total - target, -1)
    out = jnp.sum(jnp.abs(gap) ** power, -1)
    return out ** (1.0 / power) if root else out


@curve_gap.defjvp
def _curve_gap_jvp(power, root, primals, tangents):
    hist, target = primals
    d_hist, d_target = tangents
    total = jnp.sum(hist, -1, keepdims=True)
    share = hist / total
    d_share = (d_hist - share * jnp.sum(d_hist, -1, keepdims=True)) / total
    gap = jnp.cumsum(share - target, -1)
    d_gap = jnp.cumsum(d_share - d_target, -1)
    slope = power * jnp.abs(gap) ** (power - 1) * jnp.sign(gap)
    return curve_gap(hist, target, power, root), jnp.sum(slope * d_gap, -1)


def cost_histogram(counts, costs):
    bins = jax.nn.one_hot(jnp.clip(costs, 0, MAX_COST), MAX_COST + 1, dtype=counts.dtype)
    return counts @ bins


def deck_score(cfg: DraftConfig, counts, costs, synergy, target, gap_weight=0.5):
    gap = curve_gap(cost_histogram(counts, costs), target, cfg.gap_power)
    return deck_synergy(counts, synergy) - gap_weight * gap
