"""Quantities from ecology and biochemistry that we fit with gradient methods."""
from functools import partial
from typing import Tuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import digamma, gammaln


# ---------------------------------------------------------------- rarefaction


def _log_absent(counts, size):
    """log of the probability that a species is missing in a subsample of `size` individuals."""
    total = counts.sum(-1, keepdims=True)
    rest = total - counts
    return (
        gammaln(rest + 1.0) - gammaln(rest - size + 1.0) - gammaln(total + 1.0) + gammaln(total - size + 1.0)
    )


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def rarefied_richness(counts, size):
    """Hurlbert's expected species richness in a subsample.

    Parameters
    ----------
    counts : (..., species) float array
        Abundances. They may be fractional (posterior means) and may contain zeros.
    size : int
        Number of individuals drawn without replacement; at most ``counts.sum(-1) - counts.max(-1)``.

    Returns
    -------
    (...) array
    """
    return -jnp.expm1(_log_absent(counts, size)).sum(-1)


def _rarefied_fwd(counts, size):
    log_q = _log_absent(counts, size)
    return -jnp.expm1(log_q).sum(-1), (counts, jnp.exp(log_q))


def _rarefied_bwd(size, res, g):
    counts, q = res
    total = counts.sum(-1, keepdims=True)
    rest = total - counts
    own = digamma(rest + 1.0) - digamma(rest - size + 1.0)
    pool = digamma(total - size + 1.0) - digamma(total + 1.0)
    d = q * own - jnp.sum(q * (own + pool), -1, keepdims=True)
    return (g[..., None] * d,)


rarefied_richness.defvjp(_rarefied_fwd, _rarefied_bwd)


# ---------------------------------------------------------------- seed dispersal


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def clark_2dt(r, u, p, log=True):
    """Clark's 2Dt dispersal kernel, per unit area.

    ``k(r) = p / (pi u (1 + r^2/u)^(p+1))``

    r: distance from the parent plant, any shape, non-negative.
    u: scale (squared distance), p: shape, both positive and broadcastable against ``r``.
    log: give the log density (the default) or the density.
    """
    logk = jnp.log(p) - jnp.log(jnp.pi * u) - (p + 1.0) * jnp.log1p(r * r / u)
    return logk if log else jnp.exp(logk)


@clark_2dt.defjvp
def _clark_2dt_jvp(log, primals, tangents):
    r, u, p = primals
    dr, du, dp = tangents
    out = clark_2dt(r, u, p, log)
    s = u + r * r
    dlog = (
        -2.0 * (p + 1.0) * r / s * dr
        + ((p + 1.0) * r * r / (u * s) - 1.0 / u) * du
        + (1.0 / p - jnp.log1p(r * r / u)) * dp
    )
    if log:
        return out, dlog
    return out, jnp.exp(out) * dlog


def seed_trap_loglik(fecundity, xy_trees, xy_traps, counts, u, p, trap_area=0.5):
    """Poisson log likelihood of seed trap counts (summed-kernel model)."""
    diff = xy_traps[:, None, :] - xy_trees[None, :, :]
    r = jnp.sqrt(jnp.sum(diff**2, -1) + 1e-12)
    rate = trap_area * (clark_2dt(r, u, p, False) @ fecundity)
    return jnp.sum(counts * jnp.log(rate) - rate)


# ---------------------------------------------------------------- binding


@jax.custom_jvp
def tight_binding_complex(enzyme, ligand, kd):
    """Concentration of the bound complex without the free-ligand approximation (Morrison).

    Physical root of ``(enzyme - c) * (ligand - c) = kd * c``. All three are positive and broadcast against each other;
    the result is differentiable in each of them (``kd`` normally being the one that is fitted to a titration).
    """
    b = enzyme + ligand + kd
    # the form with the sum in the denominator does not cancel for kd >> enzyme
    return 2.0 * enzyme * ligand / (b + jnp.sqrt(b * b - 4.0 * enzyme * ligand))


tight_binding_complex.defjvps(
    lambda t, c, enzyme, ligand, kd: t * (ligand - c) / (enzyme + ligand + kd - 2.0 * c),
    lambda t, c, enzyme, ligand, kd: t * (enzyme - c) / (enzyme + ligand + kd - 2.0 * c),
    None,
)


def fraction_bound(enzyme, ligand, kd):
    return tight_binding_complex(enzyme, ligand, kd) / enzyme


# ---------------------------------------------------------------- robust centre of replicate measurements


def _influence(r, delta):
    return r / jnp.sqrt(1.0 + (r / delta) ** 2)


def _solve_center(x, w, delta, steps=80):
    lo, hi = x.min(-1), x.max(-1)
    mu = 0.5 * (lo + hi)

    def body(_, state):
        lo, hi, mu = state
        r = x - mu[..., None]
        f = jnp.sum(w * _influence(r, delta), -1)
        slope = jnp.sum(w * (1.0 + (r / delta) ** 2) ** -1.5, -1)
        lo = jnp.where(f > 0, mu, lo)
        hi = jnp.where(f > 0, hi, mu)
        newton = mu + f / slope
        inside = (newton >= lo) & (newton <= hi)
        return lo, hi, jnp.where(inside, newton, 0.5 * (lo + hi))

    return lax.fori_loop(0, steps, body, (lo, hi, mu))[2]


@jax.custom_vjp
def pseudo_huber_center(x: jax.Array, weights: jax.Array, delta: jax.Array) -> jax.Array:
    """Weighted M-estimate of location along the last axis with the pseudo-Huber loss.

    Args:
      x: `(..., n)` replicates.
      weights: `(..., n)` non-negative weights, not all zero in a row.
      delta: scalar, where the loss turns from quadratic to linear.

    Returns:
      `(...)` centres. Differentiated through the estimating equation, not through the solver.
    """
    return _solve_center(x, weights, delta)


def _center_fwd(x, weights, delta):
    mu = _solve_center(x, weights, delta)
    return mu, (x, weights, delta, mu)


def _center_bwd(res: Tuple, g):
    x, w, delta, mu = res
    r = x - mu[..., None]
    curv = (1.0 + (r / delta) ** 2) ** -1.5
    lam = (g / jnp.sum(w * curv, -1))[..., None]
    d_delta = jnp.sum(lam * w * (r / delta) ** 3 * curv)
    return lam * w * curv, lam * _influence(r, delta), d_delta


pseudo_huber_center.defvjp(_center_fwd, _center_bwd)
