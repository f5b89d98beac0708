"""Zero-dimensional power balance pieces for the scenario optimiser."""
from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

C_BREMS = 5.35e-3  # MW m^-3, n in 1e20 m^-3, T in keV


class Impurities(NamedTuple):
    fraction: jax.Array  # (S,) or (S, R), n_s / n_e
    charge: jax.Array  # (S,)


class ScalingLaw(NamedTuple):
    """Exponents of a power-law confinement scaling (hashable)."""

    constant: float = 0.0562
    current: float = 0.93
    field: float = 0.15
    density: float = 0.41
    power: float = -0.69
    radius: float = 1.97


IPB98 = ScalingLaw()


def _unbroadcast(x, shape):
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, s in enumerate(shape) if s == 1 and x.shape[i] != 1)
    return x.sum(axis=axes, keepdims=True) if axes else x


def effective_charge(imp: Impurities):
    # quasi-neutral deuterium background: Z_eff = 1 + sum_s f_s Z_s (Z_s - 1)
    z = imp.charge
    return 1.0 + jnp.tensordot(z * (z - 1.0), imp.fraction, axes=1)


@jax.custom_vjp
def bremsstrahlung_power(n_e, t_e, imp):
    """Bremsstrahlung power density, ``C n_e^2 Z_eff sqrt(T_e)``.

    Args:
      n_e: electron density, 1e20 m^-3, shape ``(..., R)`` or anything that broadcasts with ``t_e``.
      t_e: electron temperature in keV, strictly positive, broadcasts with ``n_e``.
      imp: :class:`Impurities`; ``fraction`` is ``(S,)`` when the impurities are flat over the
        radius and ``(S, R)`` when they are profiles. ``charge`` is the mean charge ``(S,)``
        and gets a gradient too (it comes from a coronal fit).

    Returns:
      Power density in MW m^-3, of the broadcast shape.
    """
    return C_BREMS * n_e**2 * effective_charge(imp) * jnp.sqrt(t_e)


def _brems_fwd(n_e, t_e, imp):
    zeff = effective_charge(imp)
    root = jnp.sqrt(t_e)
    return C_BREMS * n_e**2 * zeff * root, (n_e, root, zeff, imp)


def _brems_bwd(res, g):
    n_e, root, zeff, imp = res
    g = C_BREMS * g
    d_n = _unbroadcast(2.0 * g * n_e * zeff * root, jnp.shape(n_e))
    d_t = _unbroadcast(0.5 * g * n_e**2 * zeff / root, jnp.shape(root))
    d_z = _unbroadcast(g * n_e**2 * root, jnp.shape(zeff))
    z = imp.charge
    d_frac = jnp.multiply.outer(z * (z - 1.0), d_z)
    weight = (imp.fraction * d_z).reshape(z.shape[0], -1).sum(axis=1)
    return d_n, d_t, Impurities(d_frac, (2.0 * z - 1.0) * weight)


bremsstrahlung_power.defvjp(_brems_fwd, _brems_bwd)


def _loss_power(shot, floor):
    return jnp.maximum(shot["p_heat"] - shot["p_rad"], floor)


def _tau(shot, law, floor):
    return (
        law.constant
        * shot["current"] ** law.current
        * shot["field"] ** law.field
        * shot["density"] ** law.density
        * shot["radius"] ** law.radius
        * _loss_power(shot, floor) ** law.power
    )


def _confinement_time(shot, law=IPB98, floor=0.5):
    """Energy confinement time (s) of shots; net power is floored at ``floor`` MW, all entries (shots,)."""
    return _tau(shot, law, floor)


confinement_time = jax.custom_vjp(_confinement_time, nondiff_argnums=(1, 2))


def _confinement_fwd(shot, law, floor):
    tau = _tau(shot, law, floor)
    return tau, (shot, tau, _loss_power(shot, floor))


def _confinement_bwd(law, floor, res, g):
    shot, tau, p_net = res
    gt = g * tau
    out = {k: gt * getattr(law, k) / shot[k] for k in ("current", "field", "density", "radius")}
    d_net = gt * law.power / p_net
    out["p_heat"] = d_net
    out["p_rad"] = -d_net
    return (out,)


confinement_time.defvjp(_confinement_fwd, _confinement_bwd)


def _trapezoid_weights(rho):
    h = jnp.diff(rho)
    return 0.5 * (jnp.pad(h, (0, 1)) + jnp.pad(h, (1, 0)))


def make_shell_average(axis=-1):
    @jax.custom_vjp
    def shell_average(profile, rho):
        y = jnp.moveaxis(profile, axis, -1) * rho
        return y @ _trapezoid_weights(rho) / (0.5 * (rho[-1] ** 2 - rho[0] ** 2))

    def fwd(profile, rho):
        mean = shell_average(profile, rho)
        return mean, (profile, rho, mean)

    def bwd(res, g):
        profile, rho, mean = res
        f = jnp.moveaxis(profile, axis, -1)
        w = _trapezoid_weights(rho)
        volume = 0.5 * (rho[-1] ** 2 - rho[0] ** 2)
        gv = g / volume
        d_profile = jnp.moveaxis(gv[..., None] * (w * rho), -1, axis)
        y = f * rho
        mid = 0.5 * (y[..., 1:] + y[..., :-1])
        pads = [(0, 0)] * (y.ndim - 1)
        d_num = f * w + jnp.pad(mid, pads + [(1, 0)]) - jnp.pad(mid, pads + [(0, 1)])
        d_rho = (gv[..., None] * d_num).reshape(-1, rho.shape[0]).sum(axis=0)
        gm = jnp.sum(gv * mean)
        d_rho = d_rho.at[-1].add(-gm * rho[-1]).at[0].add(gm * rho[0])
        return d_profile, d_rho

    shell_average.defvjp(fwd, bwd)
    return shell_average


shell_average = make_shell_average()
