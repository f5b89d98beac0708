"""Scoring heads for the dependency parser."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int


def _valid(lengths, n):
    return jnp.arange(n) < jnp.asarray(lengths)[..., None]


def _kirchhoff(arc, root, lengths):
    """Column-rescaled Laplacian, arc weights, root weights and log scale."""
    n = arc.shape[-1]
    ok = _valid(lengths, n)
    pair = ok[..., :, None] & ok[..., None, :] & ~jnp.eye(n, dtype=bool)
    arc = jnp.where(pair, arc, -jnp.inf)
    root = jnp.where(ok, root, -jnp.inf)
    top = jnp.maximum(arc.max(axis=-2), root)
    top = jnp.where(ok, top, 0.0)
    a = jnp.exp(arc - top[..., None, :])
    r = jnp.exp(root - top)
    diag = jnp.where(ok, a.sum(axis=-2) + r, 1.0)
    lap = diag[..., None, :] * jnp.eye(n, dtype=a.dtype) - a
    return lap, a, r, top.sum(axis=-1)


@jax.custom_vjp
def arc_log_partition(
    arc: Float[Array, "*b n n"], root: Float[Array, "*b n"], lengths: Int[Array, "*b"]
) -> Float[Array, "*b"]:
    """Log of the total weight of all non-projective dependency trees.

    Uses the directed matrix-tree theorem, where any number of words may attach
    to the artificial root.

    Args:
        arc: arc scores, ``arc[..., h, m]`` is the log weight of head ``h`` taking
            modifier ``m``. The diagonal is ignored.
        root: log weight of attaching each word to the root.
        lengths: number of real words per sentence, between 1 and ``n``. Scores
            of the padding are ignored and receive a zero gradient.

    Returns:
        Log partition function for every sentence. Its gradient with respect to
        the scores is the table of arc marginals.
    """
    lap, _, _, shift = _kirchhoff(arc, root, lengths)
    return jnp.linalg.slogdet(lap)[1] + shift


def _arc_fwd(arc, root, lengths):
    lap, a, r, shift = _kirchhoff(arc, root, lengths)
    inv = jnp.linalg.inv(lap)
    d = jnp.diagonal(inv, axis1=-2, axis2=-1)
    marg = a * (d[..., None, :] - jnp.swapaxes(inv, -1, -2))
    return jnp.linalg.slogdet(lap)[1] + shift, (marg, r * d)


def _arc_bwd(res, g):
    marg, root_marg = res
    return g[..., None, None] * marg, g[..., None] * root_marg, None


arc_log_partition.defvjp(_arc_fwd, _arc_bwd)


def make_ngram_logsumexp(n: int, dilation: int = 1, temperature: float = 1.0):
    """Soft maximum over every window of n tokens spaced by dilation, (..., time, dim), no padding."""

    def windows(x):
        count = x.shape[-2] - (n - 1) * dilation
        return jnp.stack(
            [jax.lax.slice_in_dim(x, k * dilation, k * dilation + count, axis=-2) for k in range(n)]
        )

    @jax.custom_vjp
    def pool(x):
        w = windows(x) / temperature
        return temperature * (jax.nn.logsumexp(w, axis=0) - jnp.log(n))

    def fwd(x):
        y = pool(x)
        return y, (x, y)

    def bwd(res, g):
        x, y = res
        share = jnp.exp((windows(x) - y) / temperature) / n
        count = y.shape[-2]
        gx = jnp.zeros_like(x)
        for k in range(n):
            gx = gx.at[..., k : k + count, :].add(share[k] * g)
        return (gx,)

    pool.defvjp(fwd, bwd)
    return pool


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def inverse_frequency_lookup(
    table: Float[Array, "v d"], ids: Int[Array, "*b"], counts: Int[Array, "v"], power: float = 0.5
) -> Float[Array, "*b d"]:
    """Rows of `table` over (1 + corpus count) ** power; negative ids are padding and give zeros."""
    keep = ids >= 0
    safe = jnp.where(keep, ids, 0)
    scale = (1.0 + counts[safe]).astype(table.dtype) ** -power
    return table[safe] * (scale * keep)[..., None]


def _ifl_fwd(table, ids, counts, power):
    return inverse_frequency_lookup(table, ids, counts, power), (ids, counts, table.shape)


def _ifl_bwd(power, res, g):
    ids, counts, shape = res
    flat = ids.reshape(-1)
    rows = jnp.zeros(shape, g.dtype).at[jnp.maximum(flat, 0)].add(
        jnp.where((flat >= 0)[:, None], g.reshape(-1, shape[1]), 0.0)
    )
    return rows * ((1.0 + counts).astype(g.dtype) ** -power)[:, None], None, None


inverse_frequency_lookup.defvjp(_ifl_fwd, _ifl_bwd)


class ArcHead:
    """Tiny first-order parser: embeddings, n-gram context, bilinear arcs."""

    def __init__(self, vocab: int, dim: int, width: int = 3):
        self.vocab, self.dim = vocab, dim
        self.pool = make_ngram_logsumexp(width)
        self.pad = width - 1

    def init(self, key):
        a, b, c = jax.random.split(key, 3)
        s = self.dim**-0.5
        return {
            "table": jax.random.normal(a, (self.vocab, self.dim)),
            "head": s * jax.random.normal(b, (self.dim, self.dim)),
            "root": s * jax.random.normal(c, (self.dim,)),
        }

    def loss(self, params, ids, counts, lengths, heads):
        x = inverse_frequency_lookup(params["table"], ids, counts, 0.5)
        x = self.pool(jnp.pad(x, ((0, 0), (0, self.pad), (0, 0))))
        arc = jnp.einsum("bhi,ij,bmj->bhm", x, params["head"], x)
        root = x @ params["root"]
        n = ids.shape[-1]
        full = jnp.concatenate([root[:, None, :], arc], axis=1)
        gold = jnp.take_along_axis(full, heads[:, None, :], axis=1)[:, 0]
        gold = jnp.sum(gold * _valid(lengths, n), axis=-1)
        return jnp.mean(arc_log_partition(arc, root, lengths) - gold)
