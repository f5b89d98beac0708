"""Summary statistics of diploid SNP panels, differentiable in the allele frequencies.

Dosages count the alternate allele (0, 1, 2, or imputed values in between).
"""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def _sum_to(x, shape):
    extra = x.ndim - len(shape)
    if extra:
        x = x.sum(tuple(range(extra)))
    axes = tuple(i for i, s in enumerate(shape) if s == 1 and x.shape[i] != 1)
    return x.sum(axes, keepdims=True) if axes else x


# --------------------------------------------------------------------------
# relationship matrices


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def kinship_matrix(dosage, freq, standardise=True):
    """Genomic relationship matrix.

    Parameters
    ----------
    dosage : (n, m) array
        Alternate allele dosages of n individuals at m sites.
    freq : (m,) array
        Alternate allele frequencies, strictly between 0 and 1.
    standardise : bool
        True scales every site by its own binomial deviation (GCTA); False
        divides by the summed heterozygosity (VanRaden's first method).

    Returns
    -------
    (n, n) array
    """
    return _kinship_fwd(dosage, freq, standardise)[0]


def _kinship_fwd(dosage, freq, standardise):
    het = 2.0 * freq * (1.0 - freq)
    if standardise:
        z = (dosage - 2.0 * freq) / jnp.sqrt(het)
        total = jnp.asarray(dosage.shape[1], z.dtype)
    else:
        z = dosage - 2.0 * freq
        total = het.sum()
    grm = z @ z.T / total
    return grm, (z, freq, het, total, grm)


def _kinship_bwd(standardise, res, g):
    z, freq, het, total, grm = res
    dz = 2.0 * (g @ z) / total
    if standardise:
        sd = jnp.sqrt(het)
        dfreq = (dz * (-2.0 / sd - z * (1.0 - 2.0 * freq) / het)).sum(0)
        return dz / sd, dfreq
    dtotal = -(g * grm).sum() / total
    return dz, -2.0 * dz.sum(0) + dtotal * 2.0 * (1.0 - 2.0 * freq)


kinship_matrix.defvjp(_kinship_fwd, _kinship_bwd)


# --------------------------------------------------------------------------
# site frequency spectra


def spectrum_folder(n_chrom, drop_fixed=True, normalise=False):
    """Build the map from an unfolded to a minor allele spectrum.

    The unfolded spectrum has ``n_chrom + 1`` entries on its last axis, the
    folded one ``n_chrom // 2 + 1``. ``drop_fixed`` empties the monomorphic
    class, ``normalise`` turns the folded counts into proportions.
    """
    half = n_chrom // 2
    minor = np.minimum(np.arange(n_chrom + 1), n_chrom - np.arange(n_chrom + 1))
    keep = np.ones(half + 1)
    if drop_fixed:
        keep[0] = 0.0

    def _fold(sfs):
        out = jnp.zeros(sfs.shape[:-1] + (half + 1,), sfs.dtype)
        return out.at[..., minor].add(sfs) * keep.astype(sfs.dtype)

    @jax.custom_vjp
    def fold(sfs):
        raw = _fold(sfs)
        return raw / raw.sum(-1, keepdims=True) if normalise else raw

    def fold_fwd(sfs):
        raw = _fold(sfs)
        if not normalise:
            return raw, None
        total = raw.sum(-1, keepdims=True)
        prop = raw / total
        return prop, (prop, total)

    def fold_bwd(res, g):
        if normalise:
            prop, total = res
            g = (g - (g * prop).sum(-1, keepdims=True)) / total
        return ((g * keep.astype(g.dtype))[..., minor],)

    fold.defvjp(fold_fwd, fold_bwd)
    return fold


# --------------------------------------------------------------------------
# Patterson's f3


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def f3_admixture(target, left, right, n_target, scaled=False):
    """f3(target; left, right) with the finite sample correction, averaged over sites.

    The three frequency arrays broadcast against each other, sites last.
    ``n_target`` (m,) holds integer haplotype counts in the target; sites with
    fewer than two are left out. ``scaled`` divides by target heterozygosity.
    """
    return _f3_fwd(target, left, right, n_target, scaled)[0]


def _f3_fwd(target, left, right, n_target, scaled):
    use = (n_target > 1).astype(target.dtype)
    inv = use / jnp.maximum(n_target - 1, 1)
    w = use / jnp.maximum(use.sum(), 1.0)
    tt = target * (1.0 - target)
    top = (w * ((target - left) * (target - right) - inv * tt)).sum(-1)
    hw = w * 2.0 * (1.0 + inv)  # n / (n - 1)
    het = (hw * tt).sum(-1)
    out = top / het if scaled else top
    return out, (target, left, right, inv, w, hw, het, out)


def _f3_bwd(scaled, res, g):
    target, left, right, inv, w, hw, het, out = res
    if scaled:
        gt = (g / het)[..., None]
        gh = (-g * out / het)[..., None]
    else:
        gt, gh = g[..., None], jnp.zeros_like(g)[..., None]
    slope = 1.0 - 2.0 * target
    d_target = gt * w * (2.0 * target - left - right - inv * slope) + gh * hw * slope
    d_left = -gt * w * (target - right)
    d_right = -gt * w * (target - left)
    return (_sum_to(d_target, target.shape), _sum_to(d_left, left.shape),
            _sum_to(d_right, right.shape), None)


f3_admixture.defvjp(_f3_fwd, _f3_bwd)


# --------------------------------------------------------------------------
# genotype likelihood under inbreeding


def _class_probs(p, f):
    q = 1.0 - p
    cov = f * p * q
    return jnp.stack([q * q + cov, 2.0 * p * q * (1.0 - f), p * p + cov], -1)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def inbred_genotype_nll(freq, inbreeding, genotypes, per_site=False):
    """Negative log likelihood of called genotypes.

    freq: (m,) allele frequencies; inbreeding: (n,) coefficients in [0, 1);
    genotypes: (n, m) integers 0, 1, 2 with -1 for a missing call.
    Returns a scalar, or (m,) when ``per_site``.
    """
    return _inbred_fwd(freq, inbreeding, genotypes, per_site)[0]


def _inbred_fwd(freq, inbreeding, genotypes, per_site):
    probs = _class_probs(freq[None, :], inbreeding[:, None])
    hot = jax.nn.one_hot(genotypes, 3, dtype=probs.dtype)
    nll = -(hot * jnp.log(probs)).sum((0, 2))
    return (nll if per_site else nll.sum()), (freq, inbreeding, genotypes, probs)


def _inbred_bwd(per_site, res, g):
    freq, inbreeding, genotypes, probs = res
    p, f = freq[None, :], inbreeding[:, None]
    q = 1.0 - p
    dcov = f * (q - p)
    dp = jnp.stack([-2.0 * q + dcov, 2.0 * (q - p) * (1.0 - f), 2.0 * p + dcov], -1)
    pq = jnp.broadcast_to(p * q, genotypes.shape)
    df = jnp.stack([pq, -2.0 * pq, pq], -1)
    idx = genotypes[..., None]
    called = jnp.take_along_axis(probs, idx, axis=-1)[..., 0]
    score_p = jnp.take_along_axis(dp, idx, axis=-1)[..., 0] / called
    score_f = jnp.take_along_axis(df, idx, axis=-1)[..., 0] / called
    g = g if per_site else jnp.broadcast_to(g, freq.shape)
    return -g * score_p.sum(0), -(g * score_f).sum(1), None


inbred_genotype_nll.defvjp(_inbred_fwd, _inbred_bwd)
