"""Training heads for source-code clone search.

A file is cut into token shingles; each shingle has an id in a hashed
vocabulary and an idf weight.  Three heads share the shingle table:

``shingle_bag``
    cheap file vectors for the first-stage index;
``soft_containment``
    late-interaction score "how much of A is found in B" for re-ranking;
``clone_group_loss``
    in-batch objective over groups of files known to be copies of each other.

Everything is a plain function over a parameter dict, with the model object
``CloneSearchModel`` wiring them together.
"""

from dataclasses import dataclass
from typing import Dict, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np

PAD_ID = 0
NORM_FLOOR = 1e-6
MASKED_SIMILARITY = -1e30
DEFAULT_TEMPERATURE = 0.1
SHINGLE = 4

Params = Dict[str, jnp.ndarray]


# --- shingling ---------------------------------------------------------------


def hash_shingle(tokens: Sequence[str], buckets: int) -> int:
    """FNV-1a over the joined tokens; bucket 0 is kept for padding."""
    state = 2166136261
    for byte in "\x1f".join(tokens).encode("utf8"):
        state = ((state ^ byte) * 16777619) & 0xFFFFFFFF
    return 1 + state % (buckets - 1)


def shingle_ids(tokens: Sequence[str], buckets: int, width: int) -> np.ndarray:
    """Ids of the overlapping shingles of one file, padded or cut to ``width``."""
    ids = [
        hash_shingle(tokens[i : i + SHINGLE], buckets)
        for i in range(max(len(tokens) - SHINGLE + 1, 1))
    ][:width]
    out = np.full(width, PAD_ID, np.int32)
    out[: len(ids)] = ids
    return out


def batch_ids(files: Sequence[Sequence[str]], buckets: int, width: int) -> np.ndarray:
    return np.stack([shingle_ids(f, buckets, width) for f in files])


def idf_table(ids: np.ndarray, buckets: int) -> np.ndarray:
    """Smoothed inverse document frequency for every bucket."""
    seen = np.zeros(buckets)
    for row in ids:
        seen[np.unique(row)] += 1.0
    return np.log((1.0 + len(ids)) / (1.0 + seen)) + 1.0


# --- first stage: weighted bags ------------------------------------------------


@jax.custom_vjp
def shingle_bag(table, ids, weights):
    """Weighted sum of shingle vectors over the Euclidean norm of the weights.

    Positions holding ``PAD_ID`` are left out, whatever their weight, so callers
    may look the weights up in the idf table without blanking the padding.

    Args:
      table: f[buckets, dim]
      ids: i[files, width]
      weights: f[files, width]

    Returns:
      f[files, dim]
    """
    out, _ = _shingle_bag_fwd(table, ids, weights)
    return out


def _shingle_bag_fwd(table, ids, weights):
    live = (ids != PAD_ID).astype(table.dtype)
    rows = table[ids]
    kept = weights * live
    norm = jnp.sqrt(jnp.sum(kept**2, axis=1, keepdims=True) + NORM_FLOOR)
    out = jnp.einsum("fw,fwd->fd", kept, rows) / norm
    return out, (table, ids, weights, live, norm, out)


def _shingle_bag_bwd(saved, g):
    table, ids, weights, live, norm, out = saved
    scaled = weights / norm
    pieces = scaled[:, :, None] * g[:, None, :]
    g_table = jnp.zeros_like(table).at[ids].add(pieces)

    toward = jnp.einsum("fd,fwd->fw", g, table[ids]) / norm
    shrink = jnp.sum(g * out, axis=1, keepdims=True) / norm**2
    g_weights = live * (toward - weights * shrink)
    return g_table, None, g_weights


shingle_bag.defvjp(_shingle_bag_fwd, _shingle_bag_bwd)


# --- second stage: late interaction ---------------------------------------------


def _containment_terms(query, target, query_mask, target_mask, temperature):
    similarity = jnp.einsum("pmd,pnd->pmn", query, target)
    held = jnp.where(target_mask[:, None, :], similarity, MASKED_SIMILARITY)
    scaled = held / temperature
    top = jnp.max(scaled, axis=-1, keepdims=True)
    unnormalised = jnp.where(target_mask[:, None, :], jnp.exp(scaled - top), 0.0)
    mass = jnp.sum(unnormalised, axis=-1, keepdims=True)
    any_target = jnp.any(target_mask, axis=-1)[:, None, None]
    share = jnp.where(any_target, unnormalised / jnp.where(any_target, mass, 1.0), 0.0)
    log_mass = jnp.where(any_target, top + jnp.log(jnp.where(any_target, mass, 1.0)), 0.0)
    log_mass = log_mass[..., 0]
    count = jnp.maximum(jnp.sum(query_mask, axis=-1, keepdims=True), 1)
    duty = query_mask.astype(similarity.dtype) / count
    return similarity, share, log_mass, duty


@jax.custom_vjp
def soft_containment(query, target, query_mask, target_mask, temperature):
    """How much of the query file is found in the target file.

    For every live query shingle the soft maximum (temperature times
    log-sum-exp) of its similarities to live target shingles is taken, then
    averaged over live query shingles.  A file without live shingles, on either
    side, scores zero.

    Shapes: query [pairs, m, dim], target [pairs, n, dim], masks [pairs, m] and
    [pairs, n] of booleans, scalar temperature; score [pairs].
    """
    _, _, log_mass, duty = _containment_terms(
        query, target, query_mask, target_mask, temperature
    )
    return temperature * jnp.sum(duty * log_mass, axis=-1)


def _soft_containment_fwd(query, target, query_mask, target_mask, temperature):
    similarity, share, log_mass, duty = _containment_terms(
        query, target, query_mask, target_mask, temperature
    )
    score = temperature * jnp.sum(duty * log_mass, axis=-1)
    return score, (query, target, temperature, similarity, share, log_mass, duty)


def _soft_containment_bwd(saved, g):
    query, target, temperature, similarity, share, log_mass, duty = saved
    row = g[:, None] * duty
    g_similarity = row[:, :, None] * share
    g_query = jnp.einsum("pmn,pnd->pmd", g_similarity, target)
    g_target = jnp.einsum("pmn,pmd->pnd", g_similarity, query)
    expected = jnp.sum(share * similarity, axis=-1) / temperature
    g_temperature = jnp.sum(row * (log_mass - expected))
    return g_query, g_target, None, None, g_temperature


soft_containment.defvjp(_soft_containment_fwd, _soft_containment_bwd)


def pair_margin(params: Params, ids_a, ids_b, ids_other, margin=0.2):
    """Hinge between a true copy and an unrelated file, per pair."""
    table = params["table"]
    unit = table / jnp.sqrt(jnp.sum(table**2, axis=-1, keepdims=True) + NORM_FLOOR)
    temperature = jnp.exp(params["log_temperature"])

    def score(left, right):
        return soft_containment(
            unit[left], unit[right], left != PAD_ID, right != PAD_ID, temperature
        )

    return jnp.maximum(margin - score(ids_a, ids_b) + score(ids_a, ids_other), 0.0)


# --- in-batch objective ---------------------------------------------------------


@jax.custom_vjp
def clone_group_loss(left, right, groups, temperature):
    """Multi-positive in-batch loss.

    ``left[i]`` and ``right[i]`` are two views of file ``i`` and ``groups[i]``
    the clone group it belongs to; every ``right[j]`` of the same group is a
    positive for ``left[i]``.  The loss of a row is the mean over its positives
    of the negative log softmax, and rows are averaged.
    """
    loss, _ = _clone_group_loss_fwd(left, right, groups, temperature)
    return loss


def _clone_group_loss_fwd(left, right, groups, temperature):
    logits = left @ right.T / temperature
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    positives = (groups[:, None] == groups[None, :]).astype(logits.dtype)
    counts = jnp.sum(positives, axis=1)
    rows = -jnp.sum(positives * log_probs, axis=1) / counts
    saved = (left, right, logits, log_probs, positives, counts, temperature)
    return jnp.mean(rows), saved


def _clone_group_loss_bwd(saved, g):
    left, right, logits, log_probs, positives, counts, temperature = saved
    batch = left.shape[0]
    g_logits = g * (counts[:, None] * jnp.exp(log_probs) - positives) / batch
    g_left = g_logits @ right / temperature
    g_right = g_logits.T @ left / temperature
    g_temperature = -jnp.sum(g_logits * logits) / temperature
    return g_left, g_right, None, g_temperature


clone_group_loss.defvjp(_clone_group_loss_fwd, _clone_group_loss_bwd)


# --- model ----------------------------------------------------------------------


@dataclass(frozen=True)
class CloneSearchModel:
    """Two-view bag encoder with a linear head on top of the shared table."""

    buckets: int = 4096
    dim: int = 64
    width: int = 128

    def init(self, key) -> Params:
        table_key, head_key = jax.random.split(key)
        scale = self.dim**-0.5
        return {
            "table": scale * jax.random.normal(table_key, (self.buckets, self.dim)),
            "head": scale * jax.random.normal(head_key, (self.dim, self.dim)),
            "log_temperature": jnp.log(jnp.asarray(DEFAULT_TEMPERATURE)),
        }

    def encode(self, params: Params, ids, idf) -> jnp.ndarray:
        bag = shingle_bag(params["table"], ids, idf[ids])
        vector = jnp.tanh(bag @ params["head"])
        length = jnp.sqrt(jnp.sum(vector**2, axis=-1, keepdims=True) + NORM_FLOOR)
        return vector / length

    def loss(self, params: Params, batch: Dict[str, jnp.ndarray]) -> jnp.ndarray:
        left = self.encode(params, batch["view_a"], batch["idf"])
        right = self.encode(params, batch["view_b"], batch["idf"])
        temperature = jnp.exp(params["log_temperature"])
        contrast = clone_group_loss(left, right, batch["groups"], temperature)
        rolled = jnp.roll(batch["view_b"], 1, axis=0)
        hinge = pair_margin(params, batch["view_a"], batch["view_b"], rolled)
        return contrast + jnp.mean(hinge)

    def step(self, params: Params, batch, rate: float) -> Tuple[Params, jnp.ndarray]:
        value, grads = jax.value_and_grad(self.loss)(params, batch)
        updated = jax.tree_util.tree_map(lambda p, d: p - rate * d, params, grads)
        return updated, value


def recall_at(scores: np.ndarray, groups: np.ndarray, k: int) -> float:
    """Share of queries with a same-group file among their best ``k``."""
    scores = scores.copy()
    np.fill_diagonal(scores, -np.inf)
    best = np.argsort(-scores, axis=1)[:, :k]
    return float(np.mean((groups[best] == groups[:, None]).any(axis=1)))


def _demo_corpus():
    base = "def f ( a , b ) : total = a + b ; return total".split()
    renamed = [{"total": "s", "a": "x", "b": "y"}.get(t, t) for t in base]
    other = "for row in reader : writer . writerow ( row [ 1 : ] )".split()
    short = "import os ; import sys ; print ( os . name )".split()
    return [base, renamed, other, short], np.array([0, 0, 1, 2])


if __name__ == "__main__":
    model = CloneSearchModel(buckets=257, dim=16, width=20)
    files, groups = _demo_corpus()
    ids = batch_ids(files, model.buckets, model.width)
    idf = jnp.asarray(idf_table(ids, model.buckets))
    batch = {
        "view_a": jnp.asarray(ids),
        "view_b": jnp.asarray(np.roll(ids, 1, axis=1)),
        "groups": jnp.asarray(groups),
        "idf": idf,
    }
    params = model.init(jax.random.PRNGKey(0))
    for _ in range(4):
        params, value = model.step(params, batch, 0.1)
        print("loss", float(value))
    vectors = np.asarray(model.encode(params, batch["view_a"], idf))
    print("recall@1", recall_at(vectors @ vectors.T, groups, 1))
