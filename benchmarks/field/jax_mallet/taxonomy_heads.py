"""Output heads for classification into a product taxonomy.

A catalogue tree (department / aisle / shelf / ...) is flattened to integer
tables at start-up and the head works on those tables only:

``siblings``     group number of every node, nodes with a common parent share one
``ancestors``    for every leaf its path from the root, padded with -1 on the right
``distance``     hop counts between leaves, optionally learned

Training uses the sibling-normalised log-probabilities summed along paths with
a weight per level, followed by a cost-augmented softmax in which a confusion
with a far leaf is charged more than one with a neighbouring leaf.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

import jax
import jax.numpy as jnp
import numpy as np

PAD = -1
DEFAULT_MARGIN = 1.0


class TreeTables(NamedTuple):
    names: List[str]
    siblings: np.ndarray   # (nodes,)
    n_groups: int
    leaves: np.ndarray     # (leaves,)
    ancestors: np.ndarray  # (leaves, levels)
    distance: np.ndarray   # (leaves, leaves)


def flatten_tree(tree: Mapping[str, Any]) -> TreeTables:
    """Number the nodes of a nested dict; an empty mapping is a leaf."""
    names: List[str] = []
    siblings: List[int] = []
    leaves: List[int] = []
    paths: List[List[int]] = []
    groups = 0

    def walk(children, trail):
        nonlocal groups
        group = groups
        groups += 1
        for name, sub in children.items():
            node = len(names)
            names.append(name)
            siblings.append(group)
            path = trail + [node]
            if sub:
                walk(sub, path)
            else:
                leaves.append(node)
                paths.append(path)

    walk(tree, [])
    depth = max(len(p) for p in paths)
    table = np.full((len(paths), depth), PAD, dtype=np.int32)
    for row, path in enumerate(paths):
        table[row, :len(path)] = path
    return TreeTables(names, np.asarray(siblings), groups, np.asarray(leaves),
                      table, hop_counts(paths))


def hop_counts(paths: Sequence[Sequence[int]]) -> np.ndarray:
    n = len(paths)
    out = np.zeros((n, n))
    for i, a in enumerate(paths):
        for j, b in enumerate(paths):
            shared = 0
            for x, y in zip(a, b):
                if x != y:
                    break
                shared += 1
            out[i, j] = len(a) + len(b) - 2 * shared
    return out


# ---------------------------------------------------------------------------
# normalisation among siblings
# ---------------------------------------------------------------------------


def _by_group(values, group, n_groups):
    """Sum the last axis by group, keep the leading axes."""
    moved = jnp.moveaxis(values, -1, 0)
    summed = jax.ops.segment_sum(moved, group, num_segments=n_groups)
    return jnp.moveaxis(summed, 0, -1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def sibling_log_softmax(logits, group, n_groups):
    """Log-softmax among nodes of the same parent.

    Args:
      logits: (..., nodes).
      group: (nodes,) ints below ``n_groups``, not necessarily contiguous.
      n_groups: static.
    """
    moved = jnp.moveaxis(logits, -1, 0)
    peak = jax.ops.segment_max(moved, group, num_segments=n_groups)
    peak = jnp.moveaxis(peak, 0, -1)[..., group]
    centred = logits - peak
    norm = _by_group(jnp.exp(centred), group, n_groups)
    return centred - jnp.log(norm[..., group])


def _sibling_fwd(logits, group, n_groups):
    logp = sibling_log_softmax(logits, group, n_groups)
    return logp, (logp, group)


def _sibling_bwd(n_groups, res, g):
    logp, group = res
    pooled = _by_group(g, group, n_groups)[..., group]
    return g - jnp.exp(logp) * pooled, None


sibling_log_softmax.defvjp(_sibling_fwd, _sibling_bwd)


# ---------------------------------------------------------------------------
# paths
# ---------------------------------------------------------------------------


@jax.custom_vjp
def path_score(logp, level_weight, ancestors):
    """Weighted log-probability of every root-to-leaf path.

    Parameters
    ----------
    logp : (batch, nodes)
    level_weight : (levels,)
    ancestors : (leaves, levels) int
        Rows are padded with -1; padded entries do not count.

    Returns
    -------
    (batch, leaves)
    """
    return _path_terms(logp, level_weight, ancestors)[0]


def _path_terms(logp, level_weight, ancestors):
    real = ancestors >= 0
    node = jnp.where(real, ancestors, 0)
    picked = logp[:, node]
    coeff = jnp.where(real, level_weight, 0.0)
    return jnp.einsum("bld,ld->bl", picked, coeff), picked, coeff, node


def _path_score_fwd(logp, level_weight, ancestors):
    score, picked, coeff, node = _path_terms(logp, level_weight, ancestors)
    return score, (jnp.zeros_like(logp), picked, coeff, node)


def _path_score_bwd(res, g):
    empty, picked, coeff, node = res
    g_logp = empty.at[:, node].add(g[:, :, None] * coeff)
    g_level = jnp.einsum("bl,bld->d", g, picked)
    return g_logp, g_level, None


path_score.defvjp(_path_score_fwd, _path_score_bwd)


# ---------------------------------------------------------------------------
# loss
# ---------------------------------------------------------------------------


class TreeMarginLoss:
    """Softmax whose competitors are lifted by their distance in the tree.

    ``tau * logsumexp((s + margin * D[y]) / tau) - s[y] - margin * D[y, y]``
    per example, averaged over the batch.
    """

    def __init__(self, margin: float = DEFAULT_MARGIN):
        self.margin = margin

    def __call__(self, scores, target, distance, tau):
        """scores (batch, leaves), target (batch,) ints, distance (leaves, leaves)."""
        margin = self.margin
        rows = jnp.arange(scores.shape[0])

        @jax.custom_gradient
        def margin_loss(scores, distance, tau):
            lifted = scores + margin * distance[target]
            z = lifted / tau
            lse = jax.nn.logsumexp(z, axis=-1)
            value = jnp.mean(tau * lse - lifted[rows, target])

            def grad(g):
                prob = jnp.exp(z - lse[:, None])
                pull = prob.at[rows, target].add(-1.0) * (g / scores.shape[0])
                g_distance = jnp.zeros_like(distance).at[target].add(pull)
                g_tau = g * jnp.mean(lse - jnp.sum(prob * z, axis=-1))
                return pull, g_distance, g_tau

            return value, grad

        return margin_loss(scores, distance, tau)


# ---------------------------------------------------------------------------
# head
# ---------------------------------------------------------------------------


class TaxonomyHead:
    """Linear map to node logits, path scores, loss and prediction."""

    def __init__(self, tree: Mapping[str, Any], width: int,
                 margin: float = DEFAULT_MARGIN):
        self.tables = flatten_tree(tree)
        self.width = width
        self.loss_fn = TreeMarginLoss(margin)

    @property
    def levels(self) -> int:
        return self.tables.ancestors.shape[1]

    def init(self, key) -> Dict[str, jnp.ndarray]:
        nodes = len(self.tables.names)
        return {
            "kernel": jax.random.normal(key, (self.width, nodes)) / self.width ** 0.5,
            "bias": jnp.zeros(nodes),
            "level_weight": jnp.ones(self.levels),
            "distance": jnp.asarray(self.tables.distance),
            "log_tau": jnp.asarray(0.0),
        }

    def scores(self, params, features):
        logits = features @ params["kernel"] + params["bias"]
        logp = sibling_log_softmax(logits, jnp.asarray(self.tables.siblings),
                                   self.tables.n_groups)
        return path_score(logp, params["level_weight"],
                          jnp.asarray(self.tables.ancestors))

    def loss(self, params, features, target):
        return self.loss_fn(self.scores(params, features), target,
                            params["distance"], jnp.exp(params["log_tau"]))

    def predict(self, params, features):
        return jnp.argmax(self.scores(params, features), axis=-1)


CATALOGUE = {
    "kitchen": {"pans": {}, "knives": {"bread": {}, "chef": {}}, "boards": {}},
    "garden": {"hoses": {}, "seeds": {}},
    "vouchers": {},
}


def train(head, features, target, rounds=50, rate=0.1, seed=0):
    params = head.init(jax.random.PRNGKey(seed))
    step = jax.jit(jax.value_and_grad(head.loss))
    value = None
    for _ in range(rounds):
        value, grads = step(params, features, target)
        params = jax.tree_util.tree_map(lambda p, g: p - rate * g, params, grads)
    return params, value


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    head = TaxonomyHead(CATALOGUE, width=10)
    x = jnp.asarray(rng.normal(size=(32, 10)))
    y = jnp.asarray(rng.integers(0, len(head.tables.leaves), 32))
    _, final = train(head, x, y)
    print("loss", float(final))
