"""Peptide-MHC scoring for vaccine panels.

Residues are coded 0..19; 20 stands for an unknown residue and 21 pads short peptides.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

N_RESIDUES = 20
UNKNOWN = 20
PAD = 21


class PanelParams(NamedTuple):
    """Parameters of the binding head."""

    matrix: Array  # [A, L, 20]
    weight: Array  # [L]
    temperature: Array  # []


# ----------------------------------------------------------------- matrices
def _extended(matrix: Array) -> Array:
    """[A, L, 22]: the unknown residue scores the mean of its position, padding scores nothing."""
    mean = jnp.mean(matrix, axis=-1, keepdims=True)
    return jnp.concatenate([matrix, mean, jnp.zeros_like(mean)], axis=-1)


def _lookup(matrix: Array, peptides: Array) -> Array:
    table = jnp.moveaxis(_extended(matrix), 0, -1)  # [L, 22, A]
    return table[jnp.arange(peptides.shape[1]), peptides]  # [B, L, A]


@jax.custom_vjp
def matrix_scores(peptides: Array, matrix: Array, weight: Array) -> Array:
    """Position-weighted scores ``[B, A]`` of peptides ``[B, L]`` (int) against all alleles.

    Args:
        peptides: residue codes.
        matrix: scoring matrices, ``[A, L, 20]``.
        weight: importance of the positions, ``[L]``.
    """
    return jnp.einsum("bla,l->ba", _lookup(matrix, peptides), weight)


def _matrix_scores_fwd(peptides, matrix, weight):
    picked = _lookup(matrix, peptides)
    return jnp.einsum("bla,l->ba", picked, weight), (peptides, matrix, weight, picked)


def _matrix_scores_bwd(res, g):
    peptides, matrix, weight, picked = res
    d_weight = jnp.einsum("ba,bla->l", g, picked)
    alleles, length, _ = matrix.shape
    bins = jnp.zeros((length, N_RESIDUES + 2, alleles), matrix.dtype)
    bins = bins.at[jnp.arange(length), peptides].add(weight[:, None] * g[:, None, :])
    d_table = bins[:, :N_RESIDUES] + bins[:, UNKNOWN, None] / N_RESIDUES
    return None, jnp.moveaxis(d_table, -1, 0), d_weight


matrix_scores.defvjp(_matrix_scores_fwd, _matrix_scores_bwd)


# ----------------------------------------------------------------- coverage
def _others(x: Array, axis: int) -> Array:
    """Product of all the other entries along ``axis``; zeros are fine."""
    x = jnp.moveaxis(x, axis, 0)
    ones = jnp.ones_like(x[:1])
    before = jnp.cumprod(jnp.concatenate([ones, x[:-1]]), axis=0)
    after = jnp.flip(jnp.cumprod(jnp.concatenate([ones, jnp.flip(x[1:], 0)]), axis=0), 0)
    return jnp.moveaxis(before * after, 0, axis)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def population_coverage(
    binding: Array, frequency: Array, locus: Array, n_loci: int, copies: int = 2
) -> Array:
    """Share of a population that presents at least one epitope of the panel.

    Args:
        binding: probability that an epitope is presented by an allele, ``[E, A]``.
        frequency: allele frequencies, which sum to at most one within a locus, ``[A]``.
        locus: locus of each allele, ``[A]`` int.
        n_loci: number of loci.
        copies: 2 for genotypes, 1 for haplotype cohorts.
    """
    return _coverage_fwd(binding, frequency, locus, n_loci, copies)[0]


def _coverage_fwd(binding, frequency, locus, n_loci, copies):
    presented = 1.0 - jnp.prod(1.0 - binding, axis=0)
    hit = jax.ops.segment_sum(frequency * presented, locus, n_loci)
    miss = 1.0 - hit
    return 1.0 - jnp.prod(miss**copies), (binding, frequency, locus, presented, miss)


def _coverage_bwd(n_loci, copies, res, g):
    binding, frequency, locus, presented, miss = res
    d_hit = g * copies * miss * _others(miss**copies, 0)
    per_allele = d_hit[locus]
    d_binding = per_allele * frequency * _others(1.0 - binding, 0)
    return d_binding, per_allele * presented, None


population_coverage.defvjp(_coverage_fwd, _coverage_bwd)


# ---------------------------------------------------------------- best core
def _window_index(length: int, window: int, stride: int) -> Array:
    starts = jnp.arange(0, length - window + 1, stride)
    return starts[:, None] + jnp.arange(window)[None, :]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def soft_best_core(
    scores, usable, temperature, window: int = 9, stride: int = 1, average: bool = False
):
    """Soft maximum over the binding cores of a protein.

    A core is a run of ``window`` residues, and only counts if all of them are usable; its score is
    the sum of its residues.  ``average`` takes the mean instead of the sum of exponentials, i.e.
    ``tau * log(mean(exp(s / tau)))``.  Proteins without any core score 0.

    Args:
        scores: ``[B, T]``.
        usable: ``[B, T]`` bool.
        temperature: scalar ``tau``.
    """
    return _core_fwd(scores, usable, temperature, window, stride, average)[0]


def _core_fwd(scores, usable, temperature, window, stride, average):
    idx = _window_index(scores.shape[1], window, stride)
    total = jnp.sum(scores[:, idx], axis=-1)
    valid = jnp.all(usable[:, idx], axis=-1)
    count = jnp.sum(valid, axis=-1)
    some = count > 0
    top = jnp.max(jnp.where(valid, total, -jnp.inf), axis=-1, keepdims=True)
    top = jnp.where(some[:, None], top, 0.0)
    expo = jnp.where(valid, jnp.exp(jnp.where(valid, (total - top) / temperature, 0.0)), 0.0)
    mass = jnp.where(some, jnp.sum(expo, axis=-1), 1.0)
    level = jnp.log(mass)
    if average:
        level = level - jnp.log(jnp.maximum(count, 1).astype(scores.dtype))
    out = jnp.where(some, top[:, 0] + temperature * level, 0.0)
    prob = expo / mass[:, None]
    return out, (scores, temperature, prob, total, out)


def _core_bwd(window, stride, average, res, g):
    scores, temperature, prob, total, out = res
    d_total = g[:, None] * prob
    idx = _window_index(scores.shape[1], window, stride)
    d_scores = jnp.zeros_like(scores).at[:, idx].add(d_total[:, :, None])
    expected = jnp.sum(prob * total, axis=-1)
    return d_scores, None, jnp.sum(g * (out - expected)) / temperature


soft_best_core.defvjp(_core_fwd, _core_bwd)


# ------------------------------------------------------------ ligand elution
@jax.custom_vjp
def elution_nll(logits, carried, label):
    """Loss of mono- and multi-allelic ligand data.

    Every peptide was eluted from a cell line that carries some alleles, one entry per gene copy
    (a homozygous line lists its allele twice); the logit of the peptide is the log-mean-exp over the copies.

    Args:
        logits: ``[N, A]``.
        carried: allele numbers, ``[N, C]`` int, filled up with -1.
        label: 1 for ligands and 0 for decoys, ``[N]``.

    Returns:
        Mean logistic loss.
    """
    return _elution_fwd(logits, carried, label)[0]


def _elution_fwd(logits, carried, label):
    listed = carried >= 0
    picked = jnp.take_along_axis(logits, jnp.where(listed, carried, 0), axis=1)
    picked = jnp.where(listed, picked, -jnp.inf)
    copies = jnp.sum(listed, axis=1).astype(logits.dtype)
    pooled = jax.nn.logsumexp(picked, axis=1) - jnp.log(copies)
    loss = jnp.mean(jax.nn.softplus(pooled) - label * pooled)
    share = jax.nn.softmax(picked, axis=1)
    return loss, (logits, carried, label, pooled, share)


def _elution_bwd(res, g):
    logits, carried, label, pooled, share = res
    n, n_alleles = logits.shape
    d_pooled = g / n * (jax.nn.sigmoid(pooled) - label)
    column = jnp.where(carried >= 0, carried, n_alleles)
    row = jnp.arange(n)[:, None]
    d_logits = jnp.zeros_like(logits).at[row, column].set(d_pooled[:, None] * share, mode="drop")
    return d_logits, None, -g / n * pooled


elution_nll.defvjp(_elution_fwd, _elution_bwd)


def panel_loss(params: PanelParams, peptides: Array, carried: Array, label: Array) -> Array:
    scores = matrix_scores(peptides, params.matrix, params.weight)
    return elution_nll(scores / params.temperature, carried, label)
