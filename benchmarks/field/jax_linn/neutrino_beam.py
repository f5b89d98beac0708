"""Long-baseline beam fits: oscillation weights, folding to reconstructed bins, and the
binned likelihood with finite Monte Carlo statistics.

Units: GeV for energies, km for baselines, eV^2 for mass splittings.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

PHASE_FACTOR = 1.26693


class TwoFlavour(NamedTuple):
    sin2_2theta: jax.Array
    dm2: jax.Array


def _reduce_to(x, like):
    """Sum `x` down to the shape of `like` (undo broadcasting)."""
    lead = x.ndim - jnp.ndim(like)
    if lead > 0:
        x = x.sum(axis=tuple(range(lead)))
    keep = tuple(i for i, n in enumerate(jnp.shape(like)) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=keep, keepdims=True) if keep else x


@jax.custom_vjp
def disappearance_probability(osc: TwoFlavour, baseline, energy):
    """Vacuum two-flavour survival probability.

    ``1 - sin^2(2 theta) * sin^2(1.267 dm2 L / E)``

    All arguments broadcast against each other: typically ``baseline`` is ``[D, 1]`` (detectors),
    ``energy`` is ``[B]`` (true-energy bins, > 0) and the two oscillation parameters are scalars,
    or ``[K, 1, 1]`` on a grid of hypotheses.
    """
    phase = PHASE_FACTOR * osc.dm2 * baseline / energy
    return 1.0 - osc.sin2_2theta * jnp.sin(phase) ** 2


def _disappearance_fwd(osc, baseline, energy):
    phase = PHASE_FACTOR * osc.dm2 * baseline / energy
    return 1.0 - osc.sin2_2theta * jnp.sin(phase) ** 2, (osc, baseline, energy)


def _disappearance_bwd(res, ct):
    osc, baseline, energy = res
    per_dm2 = PHASE_FACTOR * baseline / energy
    phase = osc.dm2 * per_dm2
    d_phase = -ct * osc.sin2_2theta * jnp.sin(2.0 * phase)
    return (
        TwoFlavour(
            _reduce_to(-ct * jnp.sin(phase) ** 2, osc.sin2_2theta),
            _reduce_to(d_phase * per_dm2, osc.dm2),
        ),
        _reduce_to(d_phase * PHASE_FACTOR * osc.dm2 / energy, baseline),
        _reduce_to(-d_phase * phase / energy, energy),
    )


disappearance_probability.defvjp(_disappearance_fwd, _disappearance_bwd)


# --------------------------------------------------------------------------- folding


def _fold(weights, migration, exposure, normalize):
    rows = migration.sum(axis=1, keepdims=True)
    mig = migration / rows if normalize else migration
    return exposure[..., None] * (weights @ mig), mig, rows


def fold_to_reco(weights, migration, exposure, normalize=False):
    """Events per reconstructed bin. weights [..., T], migration [T, R], exposure [...]."""
    return _fold_to_reco(normalize, weights, migration, exposure)


def _fold_to_reco_impl(normalize, weights, migration, exposure):
    return _fold(weights, migration, exposure, normalize)[0]


_fold_to_reco = jax.custom_vjp(_fold_to_reco_impl, nondiff_argnums=(0,))


def _fold_fwd(normalize, weights, migration, exposure):
    out, mig, rows = _fold(weights, migration, exposure, normalize)
    return out, (weights, mig, rows, exposure)


def _fold_bwd(normalize, res, g):
    weights, mig, rows, exposure = res
    scaled = g * exposure[..., None]
    d_weights = scaled @ mig.T
    d_exposure = jnp.sum(g * (weights @ mig), axis=-1)
    d_mig = jnp.einsum("...t,...r->tr", weights, scaled)
    if normalize:
        d_mig = (d_mig - jnp.sum(d_mig * mig, axis=1, keepdims=True)) / rows
    return d_weights, d_mig, d_exposure


_fold_to_reco.defvjp(_fold_fwd, _fold_bwd)


# --------------------------------------------------------------------------- likelihood


def _profiled_scale(mu, n, rel_var):
    half = 0.5 * (1.0 - mu * rel_var)
    return half + jnp.sqrt(half * half + n * rel_var)


def _barlow_terms(mu, n, rel_var):
    beta = _profiled_scale(mu, n, rel_var)
    scaled = mu * beta
    return scaled - n * jnp.log(scaled) + 0.5 * (beta - 1.0) ** 2 / rel_var, beta


@jax.custom_vjp
def mc_limited_nll(mu, n, mc_var, fit_bins):
    """Poisson likelihood with one profiled MC-statistics scale per bin ("Barlow-Beeston lite").

    mu:       predicted events, [..., R], > 0
    n:        observed events, [..., R], > 0 in fitted bins
    mc_var:   variance of the prediction from the size of the MC sample, in events^2, > 0
    fit_bins: boolean, bins outside contribute nothing
    Returns the sum over bins, shape [...].
    """
    rel_var = mc_var / mu**2
    terms, _ = _barlow_terms(mu, n, rel_var)
    return jnp.sum(jnp.where(fit_bins, terms, 0.0), axis=-1)


def _nll_fwd(mu, n, mc_var, fit_bins):
    rel_var = mc_var / mu**2
    terms, beta = _barlow_terms(mu, n, rel_var)
    out = jnp.sum(jnp.where(fit_bins, terms, 0.0), axis=-1)
    return out, (mu, n, rel_var, beta, fit_bins)


def _nll_bwd(res, ct):
    mu, n, rel_var, beta, fit_bins = res
    ct = jnp.where(fit_bins, ct[..., None], 0.0)
    # beta is at its profile maximum, so it may be held fixed (envelope theorem)
    d_mu = ct * (beta - n / mu)
    d_n = -ct * jnp.log(mu * beta)
    d_var = -ct * 0.5 * ((beta - 1.0) / rel_var) ** 2 / mu**2
    return d_mu, d_n, d_var, None


mc_limited_nll.defvjp(_nll_fwd, _nll_bwd)
