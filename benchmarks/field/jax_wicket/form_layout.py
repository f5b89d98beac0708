"""Layout blocks of a scanned form reader.

The reader gets OCR words with their boxes on the page and has to find out in
which order they are read and to which cell of a table they belong.  This file
holds the blocks that know about the page:

``spatial_embedding``
    turns boxes into vectors with interpolated coordinate tables,
``pairwise_reading_order``
    a loss for the order of words,
``cell_readout``
    pools words into table cells by attention within each cell.

Boxes are (left, top, right, bottom) in units of the page, from 0 to 1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

LEFT, TOP, RIGHT, BOTTOM = range(4)
NO_CELL = -1
VERY_LOW = -1.0e30


class ReaderParams(NamedTuple):
    tables: dict         # {"x": (Bx, D), "y": (By, D)}
    word_proj: jax.Array   # (W, D)
    cell_query: jax.Array  # (D,)
    order_query: jax.Array  # (D,)


def init_params(key, x_bins, y_bins, word_width, width, scale=0.1):
    """Pages are taller than wide, so `y_bins` is usually the larger number."""
    keys = jax.random.split(key, 5)
    return ReaderParams(
        tables={
            "x": scale * jax.random.normal(keys[0], (x_bins, width)),
            "y": scale * jax.random.normal(keys[1], (y_bins, width)),
        },
        word_proj=scale * jax.random.normal(keys[2], (word_width, width)),
        cell_query=jax.random.normal(keys[3], (width,)),
        order_query=jax.random.normal(keys[4], (width,)),
    )


# ---------------------------------------------------------------------------
# Coordinates
# ---------------------------------------------------------------------------


def _locate(coordinate, bins):
    """Lower bin and the part of the way to the next one."""
    position = jnp.clip(coordinate, 0.0, 1.0) * (bins - 1)
    lower = jnp.clip(jnp.floor(position).astype(jnp.int32), 0, bins - 2)
    return lower, position - lower


def _interpolate(table, coordinate):
    lower, part = _locate(coordinate, table.shape[0])
    return (1.0 - part)[..., None] * table[lower] + part[..., None] * table[lower + 1]


def _scatter(table, coordinate, g):
    lower, part = _locate(coordinate, table.shape[0])
    out = jnp.zeros_like(table).at[lower].add((1.0 - part)[..., None] * g)
    return out.at[lower + 1].add(part[..., None] * g)


@jax.custom_vjp
def spatial_embedding(tables, boxes):
    """Sum of the interpolated embeddings of the four sides of each box.

    tables: dict with "x" (Bx, D) and "y" (By, D), at least two rows each.
    boxes: (N, 4).  Returns (N, D).
    """
    across = _interpolate(tables["x"], boxes[:, LEFT]) + _interpolate(tables["x"], boxes[:, RIGHT])
    down = _interpolate(tables["y"], boxes[:, TOP]) + _interpolate(tables["y"], boxes[:, BOTTOM])
    return across + down


def _spatial_fwd(tables, boxes):
    return spatial_embedding(tables, boxes), (tables, boxes)


def _spatial_bwd(res, g):
    tables, boxes = res
    d_tables = {
        "x": _scatter(tables["x"], boxes[:, LEFT], g) + _scatter(tables["x"], boxes[:, RIGHT], g),
        "y": _scatter(tables["y"], boxes[:, TOP], g) + _scatter(tables["y"], boxes[:, BOTTOM], g),
    }
    steps = tables["x"].shape[0] - 1
    sides = []
    for side, name in ((LEFT, "x"), (TOP, "y"), (RIGHT, "x"), (BOTTOM, "y")):
        table = tables[name]
        lower, _ = _locate(boxes[:, side], table.shape[0])
        rise = jnp.sum(g * (table[lower + 1] - table[lower]), axis=-1)
        on_page = (boxes[:, side] >= 0.0) & (boxes[:, side] <= 1.0)
        sides.append(jnp.where(on_page, steps * rise, 0.0))
    return d_tables, jnp.stack(sides, axis=-1)


spatial_embedding.defvjp(_spatial_fwd, _spatial_bwd)


# ---------------------------------------------------------------------------
# Order
# ---------------------------------------------------------------------------


def pairwise_reading_order(rank, valid, temperature=1.0):
    """Logistic loss on all ordered pairs of words of a page.

    Parameters
    ----------
    rank : int array (pages, words)
        Position in the annotated order; equal ranks are not compared.
    valid : bool array (pages, words)
        False in the padding.
    temperature : float

    Returns
    -------
    callable
        Maps scores (pages, words), larger = earlier, to the mean over the
        pages of the mean over the pairs of a page.  A page with fewer than
        two comparable words contributes zero.
    """
    rank = jnp.asarray(rank)
    valid = jnp.asarray(valid)
    earlier = rank[:, :, None] < rank[:, None, :]
    pairs = earlier & valid[:, :, None] & valid[:, None, :]
    count = jnp.maximum(jnp.sum(pairs, axis=(1, 2)), 1)
    n_pages = rank.shape[0]

    @jax.custom_gradient
    def order_loss(scores):
        lead = (scores[:, :, None] - scores[:, None, :]) / temperature
        cost = jnp.where(pairs, jax.nn.softplus(-lead), 0.0)
        per_page = jnp.sum(cost, axis=(1, 2)) / count

        def vjp(g):
            push = jnp.where(pairs, jax.nn.sigmoid(-lead), 0.0) / temperature
            push = push * (g / (n_pages * count))[:, None, None]
            return jnp.sum(push, axis=1) - jnp.sum(push, axis=2)

        return jnp.mean(per_page), vjp

    return order_loss


# ---------------------------------------------------------------------------
# Cells
# ---------------------------------------------------------------------------


class CellPooling:
    """Attention of the words within each cell of a table."""

    def __init__(self, n_cells: int):
        self.n_cells = n_cells
        self.pool = self.make(n_cells)

    @staticmethod
    def make(n_cells):
        def membership(cell_ids):
            return cell_ids[None, :] == jnp.arange(n_cells)[:, None]

        def cell_log_mass(scores, cell_ids):
            inside = membership(cell_ids)
            filled = jnp.any(inside, axis=1)
            masked = jnp.where(inside, scores[None, :], VERY_LOW)
            return jnp.where(filled, logsumexp(masked, axis=1), 0.0)

        @jax.custom_vjp
        def cell_readout(scores, values, cell_ids):
            """Pooled value of each cell and the log of its attention mass.

            Args:
                scores: (words,) attention logits.
                values: (words, D).
                cell_ids: (words,) int cell of each word, NO_CELL for words
                    outside the table and for padding.

            Returns:
                pooled (n_cells, D), zero for empty cells, and log mass
                (n_cells,), also zero there.
            """
            return forward(scores, values, cell_ids)[0]

        def forward(scores, values, cell_ids):
            log_mass = cell_log_mass(scores, cell_ids)
            inside = membership(cell_ids)
            shifted = jnp.where(inside, scores[None, :] - log_mass[:, None], VERY_LOW)
            weight = jnp.exp(shifted)
            pooled = weight @ values
            return (pooled, log_mass), (scores, values, cell_ids, pooled, log_mass)

        def backward(res, cotangents):
            scores, values, cell_ids, pooled, log_mass = res
            g_pooled, g_mass = cotangents
            weight = jnp.exp(scores - log_mass[cell_ids])
            g_word = g_pooled[cell_ids]
            d_values = weight[:, None] * g_word
            centred = jnp.sum(g_word * (values - pooled[cell_ids]), axis=-1)
            d_scores = weight * (centred + g_mass[cell_ids])
            return d_scores, d_values, None

        cell_readout.defvjp(forward, backward)
        return cell_readout

    def __call__(self, scores, values, cell_ids):
        return self.pool(scores, values, cell_ids)


# ---------------------------------------------------------------------------
# Reader
# ---------------------------------------------------------------------------


class FormReader:
    def __init__(self, n_cells: int):
        self.cells = CellPooling(n_cells)

    def words(self, params: ReaderParams, words, boxes):
        return jnp.tanh(words @ params.word_proj + spatial_embedding(params.tables, boxes))

    def order_scores(self, params, words, boxes):
        return self.words(params, words, boxes) @ params.order_query

    def table(self, params, words, boxes, cell_ids):
        hidden = self.words(params, words, boxes)
        return self.cells(hidden @ params.cell_query, hidden, cell_ids)

    def loss(self, params, page, cell_targets):
        """page: dict of words (W, F), boxes (W, 4), cell_ids, rank, valid (W,)."""
        scores = self.order_scores(params, page["words"], page["boxes"])
        order = pairwise_reading_order(page["rank"][None], page["valid"][None])
        pooled, log_mass = self.table(params, page["words"], page["boxes"], page["cell_ids"])
        fit = jnp.mean((pooled - cell_targets) ** 2)
        return order(scores[None]) + fit + 1e-3 * jnp.sum(log_mass**2)


def _demo_page(seed=0, n_words=9, word_width=5):
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0.0, 0.8, (n_words, 2))
    size = rng.uniform(0.02, 0.15, (n_words, 2))
    return {
        "words": jnp.asarray(rng.standard_normal((n_words, word_width))),
        "boxes": jnp.asarray(np.concatenate([corner, corner + size], axis=1)),
        "cell_ids": jnp.asarray([0, 0, 1, 3, 3, 3, 1, NO_CELL, NO_CELL][:n_words]),
        "rank": jnp.arange(n_words),
        "valid": jnp.arange(n_words) < n_words - 1,
    }


if __name__ == "__main__":
    reader = FormReader(n_cells=4)
    params = init_params(jax.random.PRNGKey(1), x_bins=17, y_bins=25, word_width=5, width=8)
    page = _demo_page()
    value, grads = jax.value_and_grad(reader.loss)(params, page, jnp.zeros((4, 8)))
    print(value, jax.tree_util.tree_map(jnp.linalg.norm, grads))
