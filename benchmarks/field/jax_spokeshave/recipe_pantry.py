"""Which ingredient goes into the pot next?

A recipe is a row of ingredient ids, padded with -1.  The model scores how well the ingredients pair,
pools their vectors, and is trained to rank the ingredient that was left out above random ones.
"""
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

PAD = -1


@dataclasses.dataclass(frozen=True)
class PantryConfig:
    vocab: int = 500
    dim: int = 32
    bands: int = 4
    eps: float = 1e-6


@functools.lru_cache(maxsize=None)
def _pairs(n):
    left, right = np.triu_indices(n, k=1)
    return left, right


def _pair_lookup(ids):
    left, right = _pairs(ids.shape[-1])
    a, b = ids[..., left], ids[..., right]
    ok = (a != PAD) & (b != PAD)
    low = jnp.where(ok, jnp.minimum(a, b), 0)
    high = jnp.where(ok, jnp.maximum(a, b), 0)
    return low, high, ok


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def pairing_score(table, ids, average):
    """Sum (or average) of the affinities of all unordered pairs in each recipe.

    Parameters
    ----------
    table : (vocab, vocab) array
        Only the entries (i, j) with i <= j are read; an ingredient may be listed twice.
    ids : integer array (recipes, slots), -1 for an empty slot
    average : bool
        Divide by the number of pairs that are there (by one if there is none).

    Returns
    -------
    (recipes,) array
    """
    return _pairing_fwd(table, ids, average)[0]


def _pairing_fwd(table, ids, average):
    low, high, ok = _pair_lookup(ids)
    total = jnp.sum(jnp.where(ok, table[low, high], 0.0), axis=-1)
    size = jnp.maximum(ok.sum(axis=-1), 1).astype(table.dtype) if average else jnp.ones_like(total)
    return total / size, (table, low, high, ok, size)


def _pairing_bwd(average, res, g):
    table, low, high, ok, size = res
    share = jnp.where(ok, (g / size)[:, None], 0.0)
    return jnp.zeros_like(table).at[low, high].add(share), None


pairing_score.defvjp(_pairing_fwd, _pairing_bwd)


@jax.custom_jvp
def sharp_pool(x, present, sharpness):
    """Log-mean-exp over the slots: a mean for small sharpness, a maximum for large.

    x (..., slots, dim), present bool (..., slots), sharpness > 0, a scalar or one per dim.
    A row with no slot present pools to zero.
    """
    return _pool_parts(x, present, sharpness)[0]


def _pool_parts(x, present, sharpness):
    keep = present[..., None]
    z = jnp.where(keep, sharpness * x, -jnp.inf)
    top = jnp.max(z, axis=-2, keepdims=True)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    e = jnp.where(keep, jnp.exp(z - top), 0.0)
    s = jnp.sum(e, axis=-2, keepdims=True)
    n = jnp.sum(keep, axis=-2, keepdims=True)
    some = n > 0
    y = jnp.where(some, (top + jnp.log(jnp.where(some, s, 1.0)) - jnp.log(jnp.where(some, n, 1))) / sharpness, 0.0)
    weight = e / jnp.where(some, s, 1.0)
    return y[..., 0, :], weight


@sharp_pool.defjvp
def _sharp_pool_jvp(primals, tangents):
    x, present, sharpness = primals
    dx, _, d_sharp = tangents
    y, w = _pool_parts(x, present, sharpness)
    through_x = jnp.sum(w * dx, axis=-2)
    tilted = jnp.sum(jnp.where(present[..., None], w * x, 0.0), axis=-2)
    return y, through_x + (tilted - y) / sharpness * d_sharp


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def banded_rms(x, scale, bands=1, eps=1e-6):
    """RMS norm in which each of `bands` equal runs of channels has its own root mean square.

    x: (..., dim); scale: (dim,); dim must be divisible by bands.
    """
    return _banded_fwd(x, scale, bands, eps)[0]


def _banded_fwd(x, scale, bands, eps):
    split = x.reshape(*x.shape[:-1], bands, -1)
    inv = jax.lax.rsqrt(jnp.mean(split**2, axis=-1, keepdims=True) + eps)
    unit = (split * inv).reshape(x.shape)
    inv = jnp.broadcast_to(inv, split.shape).reshape(x.shape)
    return unit * scale, (unit, inv, scale)


def _banded_bwd(bands, eps, res, g):
    unit, inv, scale = res
    gs = g * scale
    dx = inv * (gs - unit * jnp.mean(gs * unit, axis=-1, keepdims=True))
    d_scale = jnp.sum((g * unit).reshape(-1, unit.shape[-1]), axis=0)
    return dx, d_scale


banded_rms.defvjp(_banded_fwd, _banded_bwd)


def _rank_terms(query, table, held_out, drawn):
    margin = query @ table[drawn].T - jnp.sum(query * table[held_out], axis=-1, keepdims=True)
    fair = held_out[:, None] != drawn[None, :]
    return margin, fair, jnp.maximum(fair.sum(), 1)


@jax.custom_vjp
def left_out_ranking(query, table, held_out, drawn):
    """Pairwise logistic ranking of the ingredient held out against a shared pool of draws.

    query (recipes, dim), table (vocab, dim), held_out (recipes,) ids, drawn (draws,) ids sampled with
    replacement from the popularity distribution.  Pairs where the draw is the held-out ingredient
    itself do not count.  Mean over the pairs that count.
    """
    margin, fair, n = _rank_terms(query, table, held_out, drawn)
    return jnp.sum(jnp.where(fair, jax.nn.softplus(margin), 0.0)) / n


def _rank_fwd(query, table, held_out, drawn):
    return left_out_ranking(query, table, held_out, drawn), (query, table, held_out, drawn)


def _rank_bwd(res, g):
    query, table, held_out, drawn = res
    margin, fair, n = _rank_terms(query, table, held_out, drawn)
    pull = g * jnp.where(fair, jax.nn.sigmoid(margin), 0.0) / n
    weight = pull.sum(axis=1, keepdims=True)
    d_query = pull @ table[drawn] - weight * table[held_out]
    d_table = jnp.zeros_like(table).at[drawn].set(pull.T @ query)
    d_table = d_table.at[held_out].add(-weight * query)
    return d_query, d_table, None, None


left_out_ranking.defvjp(_rank_fwd, _rank_bwd)


class PantryRanker:
    def __init__(self, cfg=PantryConfig()):
        self.cfg = cfg

    def init(self, key):
        c = self.cfg
        return {
            "items": jax.random.normal(key, (c.vocab, c.dim)) / np.sqrt(c.dim),
            "scale": jnp.ones(c.dim),
            "sharpness": jnp.ones(c.dim),
            "affinity": jnp.zeros((c.vocab, c.vocab)),
        }

    def loss(self, params, ids, held_out, drawn):
        present = ids != PAD
        vectors = params["items"][jnp.where(present, ids, 0)]
        pooled = sharp_pool(vectors, present, params["sharpness"])
        query = banded_rms(pooled, params["scale"], self.cfg.bands, self.cfg.eps)
        harmony = pairing_score(params["affinity"], ids, True)
        return left_out_ranking(query, params["items"], held_out, drawn) - 0.01 * harmony.mean()
