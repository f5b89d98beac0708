"""Likelihoods and summary statistics for the population-genetic fits."""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

MISSING = -1


class SampleSizes(NamedTuple):
    first: int
    second: int


def _site_terms(q, f, geno):
    p = q @ f
    seen = geno != MISSING
    g = jnp.where(seen, geno, 0).astype(p.dtype)
    h = jnp.where(seen, 2 - geno, 0).astype(p.dtype)
    return p, g, h


@jax.custom_vjp
def admixture_loglik(q, f, geno):
    """ADMIXTURE log-likelihood of genotypes 0/1/2 (-1 missing), summed by individual and by locus."""
    p, g, h = _site_terms(q, f, geno)
    ll = g * jnp.log(p) + h * jnp.log1p(-p)
    return ll.sum(axis=1), ll.sum(axis=0)


def _admixture_fwd(q, f, geno):
    return admixture_loglik(q, f, geno), (q, f, geno)


def _admixture_bwd(res, cts):
    q, f, geno = res
    g_ind, _ = cts
    p, g, h = _site_terms(q, f, geno)
    d_p = g_ind[:, None] * (g / p - h / (1.0 - p))
    return d_p @ f.T, q.T @ d_p, None


admixture_loglik.defvjp(_admixture_fwd, _admixture_bwd)


def _fst_parts(p1, p2, sizes):
    num = (p1 - p2) ** 2 - p1 * (1 - p1) / (sizes.first - 1) - p2 * (1 - p2) / (sizes.second - 1)
    den = p1 * (1 - p2) + p2 * (1 - p1)
    return num, den


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def hudson_fst(p1, p2, keep, sizes, average="ratio_of_sums"):
    """Hudson's F_ST of two populations (Bhatia et al. 2013), over the last axis.

    Args:
      p1, p2: allele frequencies ``(..., L)`` in ``[0, 1]``, same shape.
      keep: bool, ``(L,)`` or ``(..., L)``; loci that passed the filters. A kept locus must not be
        fixed for the same allele in both populations.
      sizes: :class:`SampleSizes`, numbers of sampled chromosomes (each at least 2).
      average: ``"ratio_of_sums"`` (recommended) or ``"mean_of_ratios"``.

    Returns:
      ``(...)``; 0 where no locus is kept.
    """
    return _fst(p1, p2, keep, sizes, average)[0]


def _fst(p1, p2, keep, sizes, average):
    num, den = _fst_parts(p1, p2, sizes)
    keep = jnp.broadcast_to(keep, num.shape)
    n_keep = jnp.maximum(keep.sum(axis=-1), 1).astype(num.dtype)
    if average == "ratio_of_sums":
        total = jnp.where(keep, den, 0.0).sum(axis=-1)
        total = jnp.where(keep.any(axis=-1), total, 1.0)
        fst = jnp.where(keep, num, 0.0).sum(axis=-1) / total
        # d fst = (d num - fst * d den) / total
        return fst, jnp.where(keep, 1.0 / total[..., None], 0.0), jnp.broadcast_to(fst[..., None], num.shape)
    if average == "mean_of_ratios":
        safe = jnp.where(keep, den, 1.0)
        ratio = jnp.where(keep, num, 0.0) / safe
        return ratio.sum(axis=-1) / n_keep, jnp.where(keep, 1.0 / (safe * n_keep[..., None]), 0.0), ratio
    raise ValueError(f"unknown average {average!r}")


def _fst_fwd(p1, p2, keep, sizes, average):
    fst, scale, ratio = _fst(p1, p2, keep, sizes, average)
    return fst, (p1, p2, scale, ratio)


def _fst_bwd(sizes, average, res, g):
    p1, p2, scale, ratio = res
    w = g[..., None] * scale
    gap = 2.0 * (p1 - p2)
    d1 = gap - (1.0 - 2.0 * p1) / (sizes.first - 1) - ratio * (1.0 - 2.0 * p2)
    d2 = -gap - (1.0 - 2.0 * p2) / (sizes.second - 1) - ratio * (1.0 - 2.0 * p1)
    return w * d1, w * d2, None


hudson_fst.defvjp(_fst_fwd, _fst_bwd)


def _ld_parts(log_ne, centimorgan, n):
    rho = 0.04 * jnp.exp(log_ne) * centimorgan
    pole = (2.0 + rho) * (11.0 + rho)
    base = (10.0 + rho) / pole
    finite = 1.0 + (3.0 + rho) * (12.0 + 12.0 * rho + rho**2) / (n * pole)
    return rho, base, finite


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def hill_weir_ld(log_ne, centimorgan, n):
    _, base, finite = _ld_parts(log_ne, centimorgan, n)
    return base * finite


@hill_weir_ld.defjvp
def _hill_weir_jvp(n, primals, tangents):
    log_ne, centimorgan = primals
    d_log_ne, d_cm = tangents
    rho, base, finite = _ld_parts(log_ne, centimorgan, n)
    d_rho = rho * d_log_ne + 0.04 * jnp.exp(log_ne) * d_cm
    d_base = base * (1.0 / (10.0 + rho) - 1.0 / (2.0 + rho) - 1.0 / (11.0 + rho))
    return base * finite, d_base * finite * d_rho


def ld_decay_residual(log_ne, bins, sizes: SampleSizes):
    """Weighted residual of the binned r^2 of both populations."""
    fit = jnp.stack([hill_weir_ld(log_ne[i], bins["cm"], n) for i, n in enumerate(sizes)])
    return jnp.sum(bins["count"] * (bins["r2"] - fit) ** 2)


if __name__ == "__main__":
    cm = jnp.linspace(0.01, 1.0, 5)
    print(hill_weir_ld(jnp.log(2500.0), cm, 40))
