"""Codon usage statistics as differentiable layers.

The sequence designer optimises logits over the 61 sense codons; the automatic
backward passes kept large one-hot intermediates alive.
"""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

AMINO = "FFLLSSSSYYCCWLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
LETTERS = sorted(set(AMINO))
FAMILY = np.array([LETTERS.index(a) for a in AMINO], dtype=np.int32)
DEGENERACY = np.bincount(FAMILY, minlength=len(LETTERS)).astype(np.int32)


def family_matrix(family, n_families, dtype):
    """(C, A) indicator of codon ``c`` belonging to amino acid ``a``."""
    return jax.nn.one_hot(family, n_families, dtype=dtype)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def synonymous_shares(logits, family, tau, n_families):
    """Share of every codon among its synonyms.

    Parameters
    ----------
    logits : array, shape (..., C)
        Unnormalised preferences.
    family : int array, shape (C,)
        Amino acid served by each codon.
    tau : scalar
        Temperature, positive.
    n_families : int
        Number of amino acids in ``family``.

    Returns
    -------
    array, shape (..., C)
        Shares that add up to one inside each family.
    """
    z = jnp.moveaxis(logits / tau, -1, 0)
    top = jax.ops.segment_max(z, family, num_segments=n_families)
    e = jnp.exp(z - top[family])
    total = jax.ops.segment_sum(e, family, num_segments=n_families)
    return jnp.moveaxis(e / total[family], 0, -1)


def _shares_fwd(logits, family, tau, n_families):
    shares = synonymous_shares(logits, family, tau, n_families)
    return shares, (shares, logits, family, tau)


def _shares_bwd(n_families, res, g):
    shares, logits, family, tau = res
    member = family_matrix(family, n_families, shares.dtype)
    pull = shares * g
    inner = (pull @ member)[..., family]
    dz = pull - shares * inner
    d_tau = -jnp.sum(dz * logits) / tau**2
    return dz / tau, None, jnp.asarray(d_tau, jnp.result_type(tau))


synonymous_shares.defvjp(_shares_fwd, _shares_bwd)


@jax.custom_vjp
def adaptation_index(weights, codons, mask):
    """Codon adaptation index of a batch of genes.

    Parameters
    ----------
    weights : array, shape (C,)
        Relative adaptiveness, positive.
    codons : int array, shape (G, L)
        Codon ids, padded at the end.
    mask : array, shape (G, L)
        One for a codon, zero for padding.

    Returns
    -------
    array, shape (G,)
        Geometric mean of the adaptiveness along each gene.
    """
    n = jnp.maximum(mask.sum(-1), 1.0)
    return jnp.exp((mask * jnp.log(weights)[codons]).sum(-1) / n)


def _adaptation_fwd(weights, codons, mask):
    n = jnp.maximum(mask.sum(-1), 1.0)
    index = jnp.exp((mask * jnp.log(weights)[codons]).sum(-1) / n)
    return index, (weights, codons, mask, n, index)


def _adaptation_bwd(res, g):
    weights, codons, mask, n, index = res
    rows = jnp.arange(codons.shape[0])[:, None]
    used = jnp.zeros((codons.shape[0], weights.shape[0]), weights.dtype)
    # padded slots are sent out of range and dropped
    slots = jnp.where(mask > 0, codons, weights.shape[0])
    used = used.at[rows, slots].set(mask.astype(weights.dtype), mode="drop")
    return (g * index / n) @ used / weights, None, jnp.zeros_like(mask)


adaptation_index.defvjp(_adaptation_fwd, _adaptation_bwd)


def _homozygosity(counts, member, method):
    n = counts @ member
    s = (counts**2) @ member
    ok = n > 1.0
    safe = jnp.where(ok, n, 2.0)
    if method == "wright":
        f = (s / safe - 1.0) / (safe - 1.0)
    elif method == "plain":
        f = s / safe**2
    else:
        raise ValueError(f"unknown method {method!r}")
    return f, safe, s, ok


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def effective_codons(counts, family, degeneracy, method="wright"):
    """Effective number of codons.

    Parameters
    ----------
    counts : array, shape (..., C)
        Expected codon counts.
    family : int array, shape (C,)
    degeneracy : int array, shape (A,)
        A family seen at most once, or one more even than chance, counts in
        full.
    method : {"wright", "plain"}
        With or without the small-sample correction of the homozygosity.
    """
    return _effective_fwd(counts, family, degeneracy, method)[0]


def _effective_fwd(counts, family, degeneracy, method):
    member = family_matrix(family, degeneracy.shape[0], counts.dtype)
    f, n, s, ok = _homozygosity(counts, member, method)
    live = ok & (f * degeneracy > 1.0)
    f = jnp.where(live, f, 1.0 / degeneracy)
    return jnp.sum(1.0 / f, axis=-1), (counts, family, f, n, s, live)


def _effective_bwd(method, res, g):
    counts, family, f, n, s, live = res
    lift = jnp.where(live, -g[..., None] / f**2, 0.0)
    if method == "wright":
        own = 2.0 * lift / (n * (n - 1.0))
        shared = -lift * (s / n**2 + f) / (n - 1.0)
    else:
        own = 2.0 * lift / n**2
        shared = -2.0 * lift * s / n**3
    return own[..., family] * counts + shared[..., family], None, None


effective_codons.defvjp(_effective_fwd, _effective_bwd)


@jax.custom_vjp
def codon_pair_score(pairs, pseudo):
    """Log observed over expected of neighbouring codons.

    ``pairs`` holds counts of (first, second), shape (..., C, C); ``pseudo`` is
    a scalar added to every cell.
    """
    c = pairs + pseudo
    first = c.sum(-1, keepdims=True)
    second = c.sum(-2, keepdims=True)
    return jnp.log(c * c.sum((-1, -2), keepdims=True) / (first * second))


def _pair_fwd(pairs, pseudo):
    return codon_pair_score(pairs, pseudo), (pairs, pseudo)


def _pair_bwd(res, g):
    pairs, pseudo = res
    c = pairs + pseudo
    d = g / c + g.sum((-1, -2), keepdims=True) / c.sum((-1, -2), keepdims=True)
    d -= (g.sum(-2) / c.sum(-1))[..., :, None]
    d -= (g.sum(-1) / c.sum(-2))[..., None, :]
    return d, jnp.sum(d).astype(jnp.result_type(pseudo))


codon_pair_score.defvjp(_pair_fwd, _pair_bwd)


def design_loss(logits, pairs, lengths, tau=0.7):
    """Objective of the designer: even usage, neutral neighbours."""
    shares = synonymous_shares(logits, FAMILY, tau, len(LETTERS))
    nc = effective_codons(shares * lengths[:, None], FAMILY, DEGENERACY, "wright")
    score = codon_pair_score(pairs, 0.5)
    return -nc.mean() + jnp.mean(score * pairs)
