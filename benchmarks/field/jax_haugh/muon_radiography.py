"""Forward model of volcano muon radiography."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

# effective cosine for a curved atmosphere (Chirkin)
P1, P2, P3, P4, P5 = 0.102573, -0.068287, 0.958633, 0.0407253, 0.817285
_NORM = 1 + P1**2 + P2 + P4
E_PION, E_KAON, KAON_SHARE = 115.0, 850.0, 0.054


def _sum_to(x, shape):
    lead = x.ndim - len(shape)
    x = x.sum(tuple(range(lead)))
    ax = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(ax, keepdims=True) if ax else x


@jax.custom_vjp
def opacity_along_rays(density, cells, seg_len, inside):
    """Density length of each ray: sum over its segments of density[cell] * length.

    density (cells,), cells (rays, segments) int, seg_len (rays, segments),
    inside (rays, segments) bool; padded segments may hold any id in range
    and any length.
    """
    return jnp.sum(jnp.where(inside, density[cells] * seg_len, 0), -1)


def _opacity_fwd(density, cells, seg_len, inside):
    return opacity_along_rays(density, cells, seg_len, inside), (density, cells, seg_len, inside)


def _opacity_bwd(res, g):
    density, cells, seg_len, inside = res
    g = g[:, None]
    d_density = jnp.zeros_like(density).at[cells].add(jnp.where(inside, g * seg_len, 0))
    return d_density, None, jnp.where(inside, g * density[cells], 0), None


opacity_along_rays.defvjp(_opacity_fwd, _opacity_bwd)


def effective_cosine(c):
    return jnp.sqrt((c**2 + P1**2 + P2 * c**P3 + P4 * c**P5) / _NORM)


@jax.custom_jvp
def gaisser_flux(energy, cos_zenith):
    """Modified Gaisser spectrum at sea level. energy in GeV (> 0), cos_zenith in (0, 1]."""
    c = effective_cosine(cos_zenith)
    pion = 1.0 / (1.0 + 1.1 * energy * c / E_PION)
    kaon = KAON_SHARE / (1.0 + 1.1 * energy * c / E_KAON)
    return 0.14 * energy**-2.7 * (pion + kaon)


@gaisser_flux.defjvp
def _gaisser_jvp(primals, tangents):
    energy, cos_zenith = primals
    d_energy, d_cos = tangents
    c = effective_cosine(cos_zenith)
    a, b = 1.1 / E_PION, 1.1 / E_KAON
    pion = 1.0 / (1.0 + a * energy * c)
    kaon = 1.0 / (1.0 + b * energy * c)
    head = 0.14 * energy**-2.7
    body = pion + KAON_SHARE * kaon
    slope = -(a * pion**2 + KAON_SHARE * b * kaon**2)
    out = head * body
    return out, (head * slope * c - 2.7 * out / energy) * d_energy + head * slope * energy * d_cos


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def count_deviance(rate, exposure, counts, live, reduction="mean"):
    mu = rate * exposure
    dev = _unit_deviance(mu, counts)
    dev = jnp.where(live, dev, 0.0)
    if reduction == "none":
        return dev
    if reduction == "sum":
        return dev.sum()
    return dev.sum() / jnp.maximum(live.sum(), 1)


def _unit_deviance(mu, counts):
    n = counts.astype(mu.dtype)
    nlogn = jnp.where(n > 0, n * jnp.log(jnp.where(n > 0, n, 1.0) / mu), 0.0)
    return 2.0 * (nlogn - (n - mu))


def _deviance_fwd(rate, exposure, counts, live, reduction):
    return count_deviance(rate, exposure, counts, live, reduction), (rate, exposure, counts, live)


def _deviance_bwd(reduction, res, g):
    rate, exposure, counts, live = res
    mu = rate * exposure
    d_mu = jnp.where(live, 2.0 * (1.0 - counts / mu), 0.0) * g
    if reduction == "mean":
        d_mu = d_mu / d_mu.size
    return (_sum_to(d_mu * exposure, rate.shape), _sum_to(d_mu * rate, exposure.shape), None, None)


count_deviance.defvjp(_deviance_fwd, _deviance_bwd)


def minimum_energy(opacity, stopping=(2.2e-3, 4.0e-6)):
    """Energy (GeV) a muon needs to cross `opacity` g/cm2 of rock."""
    a, b = stopping
    return a / b * jnp.expm1(b * opacity)


def default_energy_grid(n=64):
    return np.geomspace(0.5, 5e3, n)
