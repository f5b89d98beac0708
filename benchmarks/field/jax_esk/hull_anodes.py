"""Cathodic protection of steel hulls: rest potentials, sacrificial anodes and ageing coatings."""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jax import lax


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Couple:
    """One electrode reaction per row: exchange current density, equilibrium potential, Tafel slope (e-fold), [M]."""

    i0: jax.Array
    e_eq: jax.Array
    slope: jax.Array


BRACKET = (-3.0, 3.0)
_STEPS = 80


def _net_current(e, anodic, cathodic, areas):
    ia = anodic.i0 * jnp.exp((e - anodic.e_eq) / anodic.slope)
    ic = cathodic.i0 * jnp.exp(-(e - cathodic.e_eq) / cathodic.slope)
    return jnp.sum(areas * (ia - ic), -1)


@jax.custom_vjp
def rest_potential(anodic, cathodic, areas):
    """Potential at which the coupled metals draw no net current.

    ``anodic`` and ``cathodic`` are ``Couple`` with leaves ``[M]``, one entry per metal; ``areas`` is ``[N, M]`` wetted
    area of each metal at N assemblies, non-negative and with some area in each row. Volts, A/m2, m2. The root is found by
    bisection within ``BRACKET`` and is unique, as the net current rises with the potential. Gradients come from the
    implicit function theorem.
    """
    lo = jnp.full(areas.shape[:-1], BRACKET[0], areas.dtype)
    hi = jnp.full(areas.shape[:-1], BRACKET[1], areas.dtype)

    def halve(_, lims):
        lo, hi = lims
        mid = 0.5 * (lo + hi)
        up = _net_current(mid[..., None], anodic, cathodic, areas) < 0
        return jnp.where(up, mid, lo), jnp.where(up, hi, mid)

    lo, hi = lax.fori_loop(0, _STEPS, halve, (lo, hi))
    return 0.5 * (lo + hi)


def _rest_fwd(anodic, cathodic, areas):
    e = rest_potential(anodic, cathodic, areas)
    return e, (e, anodic, cathodic, areas)


def _rest_bwd(res, g):
    e, an, ca, areas = res
    x = e[:, None]
    ia = an.i0 * jnp.exp((x - an.e_eq) / an.slope)
    ic = ca.i0 * jnp.exp(-(x - ca.e_eq) / ca.slope)
    conductance = jnp.sum(areas * (ia / an.slope + ic / ca.slope), -1)
    lam = -(g / conductance)[:, None]
    aa = lam * areas * ia
    cc = lam * areas * ic
    d_an = Couple(
        (aa / an.i0).sum(0),
        (-aa / an.slope).sum(0),
        (-aa * (x - an.e_eq) / an.slope**2).sum(0),
    )
    d_ca = Couple(
        (-cc / ca.i0).sum(0),
        (-cc / ca.slope).sum(0),
        (-cc * (x - ca.e_eq) / ca.slope**2).sum(0),
    )
    return d_an, d_ca, lam * (ia - ic)


rest_potential.defvjp(_rest_fwd, _rest_bwd)

SLENDER = 4.0


@jax.custom_jvp
def anode_resistance(resistivity, length, radius):
    """Stand-off anode resistance (ohm): Dwight's formula for L >= 4 r, the modified one for stubby anodes."""
    u = radius / (2.0 * length)
    s = jnp.sqrt(1.0 + u * u)
    slim = jnp.log(4.0 * length / radius) - 1.0
    stubby = jnp.log((1.0 + s) / u) + u - s
    shape = jnp.where(length >= SLENDER * radius, slim, stubby)
    return resistivity / (2.0 * math.pi * length) * shape


@anode_resistance.defjvp
def _anode_jvp(primals, tangents):
    rho, length, radius = primals
    d_rho, d_len, d_rad = tangents
    r = anode_resistance(rho, length, radius)
    c = rho / (2.0 * math.pi * length)
    tangent = r * (d_rho / rho - d_len / length) + c * (d_len / length - d_rad / radius)
    return r, tangent


@jax.custom_jvp
def coating_breakdown(a, b, life):
    # (mean, final) breakdown factor over a design life; 0 <= a < 1, b > 0, life > 0
    final = jnp.minimum(a + b * life, 1.0)
    mean = jnp.where(
        a + b * life > 1.0, 1.0 - (1.0 - a) ** 2 / (2.0 * b * life), a + 0.5 * b * life
    )
    return mean, final


@coating_breakdown.defjvp
def _coating_jvp(primals, tangents):
    a, b, life = primals
    da, db, dl = tangents
    worn = a + b * life > 1.0
    rise = b * dl + db * life
    spare = (1.0 - a) / (b * life)
    d_mean = jnp.where(worn, spare * da + 0.5 * spare**2 * rise, da + 0.5 * rise)
    d_final = jnp.where(worn, 0.0, da + rise)
    return coating_breakdown(a, b, life), (d_mean, d_final)


def anode_count(area, density, a, b, life, output):
    _, final = coating_breakdown(a, b, life)
    return jnp.ceil(area * density * final / output)
