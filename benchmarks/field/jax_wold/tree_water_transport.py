"""Water transport in woody plants.

Pressures are in MPa (negative under tension), flows in mmol s-1.  The curves follow the usual two-parameter Weibull
form; species parameters sit on the last axis so that a stand can be evaluated in one call.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class WeibullXylem:
    """Default parameters for one species."""

    d: float = 2.0  # tension at 63 % loss, MPa
    c: float = 3.0  # steepness
    kmax: float = 4.0  # mmol s-1 MPa-1


def _reduce_to(grad, shape):
    """Sum ``grad`` down to ``shape`` (the reverse of numpy broadcasting)."""
    extra = grad.ndim - len(shape)
    grad = grad.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return grad.sum(axis=axes, keepdims=True) if axes else grad


def _weibull_terms(psi, d, c):
    """Return f, t**c and log t with t = tension / d; all safe at zero tension."""
    tension = jnp.maximum(-psi, 0.0)
    t = tension / d
    wet = t <= 0
    t_safe = jnp.where(wet, 1.0, t)
    log_t = jnp.log(t_safe)
    power = jnp.where(wet, 0.0, jnp.exp(c * log_t))
    return jnp.exp(-power), power, log_t, wet


@jax.custom_vjp
def retained_fraction(psi, d, c):
    """Fraction of maximal conductance left at water potential ``psi``.

    Parameters
    ----------
    psi : array (..., S)
        Water potential; values above zero count as zero tension.
    d, c : arrays that broadcast against ``psi``
        Weibull scale (> 0) and steepness (> 1).
    """
    return _weibull_terms(psi, d, c)[0]


def _retained_fwd(psi, d, c):
    f, power, log_t, wet = _weibull_terms(psi, d, c)
    return f, (psi, d, c, f, power, log_t, wet)


def _retained_bwd(res, g):
    psi, d, c, f, power, log_t, wet = res
    slope = -g * f * power  # d f / d log(t**c)
    tension = jnp.where(wet, 1.0, -psi)
    g_psi = jnp.where(wet, 0.0, -slope * c / tension)
    g_d = -slope * c / d
    g_c = slope * log_t
    return (
        _reduce_to(g_psi, jnp.shape(psi)),
        _reduce_to(g_d, jnp.shape(d)),
        _reduce_to(g_c, jnp.shape(c)),
    )


retained_fraction.defvjp(_retained_fwd, _retained_bwd)


def _nodes(order, dtype):
    x, w = np.polynomial.legendre.leggauss(order)
    return jnp.asarray(0.5 * (x + 1.0), dtype), jnp.asarray(0.5 * w, dtype)


@partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def supply_flux(psi_soil, psi_leaf, kmax, d, c, allow_reverse=True, order=24):
    """Flow from soil to leaf, ``kmax`` times the integral of the vulnerability curve between the two potentials.

    Parameters
    ----------
    psi_soil, psi_leaf : arrays (B, S), below zero
    kmax, d, c : arrays (S,)
    allow_reverse : bool
        If False, trees whose leaves are wetter than the soil carry no flow.
    order : int
        Gauss-Legendre nodes.
    """
    return _supply(psi_soil, psi_leaf, kmax, d, c, allow_reverse, order)[0]


def _supply(psi_soil, psi_leaf, kmax, d, c, allow_reverse, order):
    x, w = _nodes(order, psi_soil.dtype)
    drop = psi_soil - psi_leaf
    path = psi_leaf[..., None] + drop[..., None] * x
    f, power, log_t, _ = _weibull_terms(path, d[:, None], c[:, None])
    area = drop * (f @ w)
    open_ = jnp.ones_like(drop) if allow_reverse else (drop > 0).astype(drop.dtype)
    return kmax * area * open_, (drop, area, open_, f * power, log_t)


def _supply_fwd(psi_soil, psi_leaf, kmax, d, c, allow_reverse, order):
    flux, (drop, area, open_, fp, log_t) = _supply(
        psi_soil, psi_leaf, kmax, d, c, allow_reverse, order
    )
    return flux, (psi_soil, psi_leaf, kmax, d, c, drop, area, open_, fp, log_t)


def _supply_bwd(allow_reverse, order, res, g):
    psi_soil, psi_leaf, kmax, d, c, drop, area, open_, fp, log_t = res
    _, w = _nodes(order, psi_soil.dtype)
    through = g * open_
    g_soil = through * kmax * _weibull_terms(psi_soil, d, c)[0]
    g_leaf = -through * kmax * _weibull_terms(psi_leaf, d, c)[0]
    g_kmax = (through * area).sum(0)
    scaled = g * kmax * drop
    g_d = (scaled * (fp @ w) * c / d).sum(0)
    g_c = -(scaled * ((fp * log_t) @ w)).sum(0)
    return g_soil, g_leaf, g_kmax, g_d, g_c


supply_flux.defvjp(_supply_fwd, _supply_bwd)


def _gather_up(values, parent):
    """Add every segment's value to all of its ancestors; children come after parents."""
    n = parent.shape[0]

    def body(k, acc):
        i = n - 1 - k
        p = parent[i]
        add = jnp.where(p >= 0, acc[:, i], 0.0)
        return acc.at[:, jnp.maximum(p, 0)].add(add)

    return jax.lax.fori_loop(0, n, body, values)


def _push_down(values, parent):
    """Running sum from the base of the tree out to every segment."""

    def body(i, acc):
        p = parent[i]
        return acc.at[:, i].add(jnp.where(p >= 0, acc[:, jnp.maximum(p, 0)], 0.0))

    return jax.lax.fori_loop(0, parent.shape[0], body, values)


@jax.custom_vjp
def crown_potentials(resistance, demand, psi_base, parent):
    """Potential at the outer end of each segment of a branching crown.

    ``resistance`` (N,), ``demand`` (B, N) drawn at each segment, ``psi_base`` (B,), ``parent`` (N,) with -1 for the
    segments that start at the stem base.  A segment carries its own demand and that of everything beyond it.
    """
    carried = _gather_up(demand, parent)
    return psi_base[:, None] + _push_down(-resistance * carried, parent)


def _crown_fwd(resistance, demand, psi_base, parent):
    carried = _gather_up(demand, parent)
    psi = psi_base[:, None] + _push_down(-resistance * carried, parent)
    return psi, (resistance, carried, parent)


def _crown_bwd(res, g):
    resistance, carried, parent = res
    beyond = _gather_up(g, parent)
    g_resistance = -(carried * beyond).sum(0)
    g_demand = _push_down(-resistance * beyond, parent)
    return g_resistance, g_demand, g.sum(1), None


crown_potentials.defvjp(_crown_fwd, _crown_bwd)
