"""Constitutive pieces of the crystal plasticity and impact solvers."""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


def fcc_schmid_tensors():
    """The twelve {111}<110> Schmid tensors, (12, 3, 3)."""
    out = []
    for n in ((1, 1, 1), (-1, 1, 1), (1, -1, 1), (1, 1, -1)):
        for b in ((0, 1, -1), (1, 0, -1), (1, -1, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)):
            if np.dot(n, b) == 0:
                out.append(np.outer(b, n) / np.sqrt(6.0))
    return np.stack(out)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def slip_rates(stress, schmid, strength, exponent=20.0, rate0=1e-3):
    """Power-law slip rates (..., A) for stress (..., 3, 3), Schmid tensors (A, 3, 3), strengths (A,) or (..., A); exponent >= 1."""
    r = jnp.einsum("...ij,aij->...a", stress, schmid) / strength
    return rate0 * r * jnp.abs(r) ** (exponent - 1.0)


@slip_rates.defjvp
def _slip_rates_jvp(exponent, rate0, primals, tangents):
    stress, schmid, strength = primals
    d_stress, d_schmid, d_strength = tangents
    r = jnp.einsum("...ij,aij->...a", stress, schmid) / strength
    stiff = rate0 * jnp.abs(r) ** (exponent - 1.0)
    d_tau = jnp.einsum("...ij,aij->...a", d_stress, schmid) + jnp.einsum("...ij,aij->...a", stress, d_schmid)
    d_r = (d_tau - r * d_strength) / strength
    return stiff * r, exponent * stiff * d_r


class ForestConstants(NamedTuple):
    alpha: float = 0.35
    shear: float = 42.0e3  # MPa
    burgers: float = 2.56e-4  # um

    @property
    def prefactor(self):
        return self.alpha * self.shear * self.burgers


def make_forest_strength(const=ForestConstants()):
    c = const.prefactor

    @jax.custom_vjp
    def forest_strength(density, interaction, friction):
        return friction + c * jnp.sqrt(density @ interaction.T)

    def fwd(density, interaction, friction):
        root = jnp.sqrt(density @ interaction.T)
        return friction + c * root, (density, interaction, root)

    def bwd(res, g):
        density, interaction, root = res
        h = 0.5 * c * g / root
        n = density.shape[-1]
        d_density = h @ interaction.T
        d_interaction = h.reshape(-1, n).T @ density.reshape(-1, n)
        return d_density, d_interaction, g.reshape(-1, n).sum(axis=0)

    forest_strength.defvjp(fwd, bwd)
    return forest_strength


forest_strength = make_forest_strength()


@functools.partial(jax.custom_jvp, nondiff_argnums=(4, 5, 6))
def johnson_cook_flow(params, strain, rate, temp, rate_ref=1.0, t_ref=293.0, t_melt=1356.0):
    """Johnson-Cook flow stress.

    ``(A + B strain^n) (1 + C log max(rate / rate_ref, 1)) (1 - T*^m)`` with the homologous
    temperature ``T* = (temp - t_ref) / (t_melt - t_ref)`` clipped to ``[0, 1]``.

    Args:
      params: dict with ``A``, ``B``, ``n``, ``C``, ``m`` (scalars, or arrays that broadcast
        with the fields).
      strain: plastic strain, strictly positive.
      rate: plastic strain rate, positive; below ``rate_ref`` there is no rate hardening.
      temp: temperature in K. Below ``t_ref`` there is no softening, beyond ``t_melt`` no strength.
      rate_ref, t_ref, t_melt: static reference values.

    Returns:
      Flow stress in the units of ``A`` and ``B``, of the broadcast shape.
    """
    hard, visc, soft, _ = _jc_factors(params, strain, rate, temp, rate_ref, t_ref, t_melt)
    return hard * visc * soft


def _jc_factors(params, strain, rate, temp, rate_ref, t_ref, t_melt):
    hard = params["A"] + params["B"] * strain ** params["n"]
    visc = 1.0 + params["C"] * jnp.log(jnp.maximum(rate / rate_ref, 1.0))
    star = (temp - t_ref) / (t_melt - t_ref)
    inside = (star > 0.0) & (star < 1.0)
    safe = jnp.where(inside, star, 0.5)
    soft = jnp.where(inside, 1.0 - safe ** params["m"], jnp.where(star >= 1.0, 0.0, 1.0))
    return hard, visc, soft, (inside, safe)


@johnson_cook_flow.defjvp
def _jc_jvp(rate_ref, t_ref, t_melt, primals, tangents):
    params, strain, rate, temp = primals
    dp, d_strain, d_rate, d_temp = tangents
    hard, visc, soft, (inside, safe) = _jc_factors(params, strain, rate, temp, rate_ref, t_ref, t_melt)
    power = strain ** params["n"]
    d_hard = dp["A"] + dp["B"] * power + params["B"] * power * (
        jnp.log(strain) * dp["n"] + params["n"] / strain * d_strain
    )
    fast = rate > rate_ref
    d_visc = jnp.log(jnp.maximum(rate / rate_ref, 1.0)) * dp["C"] + jnp.where(fast, params["C"] / rate, 0.0) * d_rate
    power_t = safe ** params["m"]
    d_star = d_temp / (t_melt - t_ref)
    d_soft = -jnp.where(inside, power_t * jnp.log(safe), 0.0) * dp["m"] - jnp.where(
        inside, params["m"] * power_t / safe, 0.0
    ) * d_star
    out = hard * visc * soft
    return out, d_hard * visc * soft + hard * d_visc * soft + hard * visc * d_soft
