"""Size-structured food webs and primary production."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Callable

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class SizeSpectrum:
    """Predators and prey on (possibly different) logarithmic size grids.

    Attributes:
        predator_mass: (P,) body masses of the predator classes, in grams.
        prey_mass: (Q,) body masses of the prey classes, in grams.
        prey_width: (Q,) widths of the prey classes, in grams.
        search_exponent: allometric exponent of the search volume.
    """

    predator_mass: np.ndarray
    prey_mass: np.ndarray
    prey_width: np.ndarray
    search_exponent: float = 0.8

    def log_mass_ratio(self):
        return jnp.log(self.predator_mass)[:, None] - jnp.log(self.prey_mass)[None, :]

    def search_volume(self):
        return self.predator_mass**self.search_exponent

    def feeding_level(self, abundance, log_ratio, width, max_intake):
        """Saturating functional response in [0, 1)."""
        e = encounter_rate(self, abundance, log_ratio, width)
        return e / (e + max_intake)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def encounter_rate(spectrum: SizeSpectrum, abundance, log_ratio, width):
    """Biomass that each predator class meets per unit time.

    The preference for a prey is log-normal in the predator-prey mass ratio;
    prey at least as heavy as the predator are never taken.

    Args:
        spectrum: the size grids.
        abundance: (..., Q) number densities of the prey classes.
        log_ratio: (P,) preferred log mass ratio of the predator classes.
        width: (P,) widths of the preference, positive.

    Returns:
        (..., P) encounter rates.
    """
    x = spectrum.log_mass_ratio()
    z = (x - log_ratio[:, None]) / width[:, None]
    kernel = jnp.where(x > 0.0, jnp.exp(-0.5 * z**2), 0.0)
    biomass = abundance * (spectrum.prey_mass * spectrum.prey_width)
    return spectrum.search_volume() * jnp.einsum("pq,...q->...p", kernel, biomass)


def _encounter_fwd(spectrum, abundance, log_ratio, width):
    return encounter_rate(spectrum, abundance, log_ratio, width), (abundance, log_ratio, width)


def _encounter_bwd(spectrum, res, g):
    # the (P, Q) kernel is cheap, rebuild it rather than keep it
    abundance, log_ratio, width = res
    z = (spectrum.log_mass_ratio() - log_ratio[:, None]) / width[:, None]
    kernel = jnp.exp(-0.5 * z**2)
    mass = spectrum.prey_mass * spectrum.prey_width
    g = g * spectrum.search_volume()
    g_abundance = jnp.einsum("...p,pq->...q", g, kernel) * mass
    flat_g = g.reshape(-1, g.shape[-1])
    flat_n = (abundance * mass).reshape(-1, abundance.shape[-1])
    g_kernel = kernel * jnp.einsum("bp,bq->pq", flat_g, flat_n)
    g_ratio = jnp.sum(g_kernel * z, axis=-1) / width
    g_width = jnp.sum(g_kernel * z**2, axis=-1) / width
    return g_abundance, g_ratio, g_width


encounter_rate.defvjp(_encounter_fwd, _encounter_bwd)


def make_pi_curve(depth_edges, *, average: bool = False) -> Callable:
    """Build a depth-integrated photosynthesis-irradiance model.

    Parameters
    ----------
    depth_edges : sequence of float
        Increasing edges of the layers, in metres.
    average : bool, default False
        Divide the integral by the total depth.

    Returns
    -------
    callable
        ``production(light, attenuation, params)`` with ``light`` and
        ``attenuation`` of shape ``(sites,)`` (surface irradiance > 0 and diffuse
        attenuation > 0) and ``params = (p_max, alpha, beta)``, scalars or
        ``(sites,)``.  Each layer follows Platt et al. with photoinhibition,
        ``p_max (1 - exp(-alpha I / p_max)) exp(-beta I / p_max)``, evaluated at
        the irradiance of its mid depth.
    """
    edges = np.asarray(depth_edges, dtype=float)
    mid = 0.5 * (edges[1:] + edges[:-1])
    dz = np.diff(edges)
    if average:
        dz = dz / (edges[-1] - edges[0])

    def _layers(light, attenuation, params):
        p_max, alpha, beta = (jnp.asarray(p)[..., None] for p in params)
        irr = light[:, None] * jnp.exp(-attenuation[:, None] * mid)
        rise = jnp.exp(-alpha * irr / p_max)
        inhib = jnp.exp(-beta * irr / p_max)
        return p_max, alpha, beta, irr, rise, inhib

    @jax.custom_vjp
    def production(light, attenuation, params):
        p_max, _, _, _, rise, inhib = _layers(light, attenuation, params)
        return jnp.sum(p_max * (1.0 - rise) * inhib * dz, axis=-1)

    def fwd(light, attenuation, params):
        return production(light, attenuation, params), (light, attenuation, params)

    def bwd(res, g):
        light, attenuation, params = res
        p_max, alpha, beta, irr, rise, inhib = _layers(light, attenuation, params)
        w = g[:, None] * dz
        sat = (1.0 - rise) * inhib
        d_alpha_arg = rise * inhib  # per unit of alpha * irr
        d_beta_arg = -sat  # per unit of beta * irr
        d_irr = alpha * d_alpha_arg + beta * d_beta_arg
        g_p = w * (sat - d_irr * irr / p_max)
        g_light = jnp.sum(w * d_irr * irr, axis=-1) / light
        g_att = -jnp.sum(w * d_irr * irr * mid, axis=-1)
        raw = (g_p, w * d_alpha_arg * irr, w * d_beta_arg * irr)
        g_params = tuple(
            r.sum() if jnp.ndim(p) == 0 else r.sum(axis=-1) for r, p in zip(raw, params)
        )
        return g_light, g_att, g_params

    production.defvjp(fwd, bwd)
    return production
