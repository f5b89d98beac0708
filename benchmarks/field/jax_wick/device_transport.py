"""Drift-diffusion building blocks for a one-carrier finite-volume device solver.

Volts, centimetres, seconds and elementary charges; the mesh is an edge list.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

T_REF = 300.0

# exponents of (T / 300 K): floor, range, reference doping
_POWERS = {"electron": (-0.57, -2.33, 2.4), "hole": (-0.57, -2.23, 2.4)}


class MobilityParams(NamedTuple):
    mu_min: jax.Array
    mu_max: jax.Array
    n_ref: jax.Array
    alpha: jax.Array


ARSENIC = MobilityParams(jnp.asarray(52.2), jnp.asarray(1417.0), jnp.asarray(9.68e16), jnp.asarray(0.68))


def _fold(value, like):
    """Sum ``value`` down to the shape of ``like``."""
    extra = value.ndim - jnp.ndim(like)
    value = value.sum(axis=tuple(range(extra)))
    keep = tuple(i for i, n in enumerate(jnp.shape(like)) if n == 1 and value.shape[i] != 1)
    return value.sum(axis=keep, keepdims=True) if keep else value


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def lattice_mobility(params, doping, temperature, carrier="electron"):
    """Caughey-Thomas low-field mobility with lattice temperature.

    Parameters
    ----------
    params : MobilityParams
        Scalars of the material.
    doping : array, shape (..., nodes)
        Total ionised impurity density, strictly positive.
    temperature : array
        Lattice temperature in kelvin, a scalar or anything that broadcasts
        against ``doping``.
    carrier : {"electron", "hole"}
        Picks the temperature exponents.
    """
    return _mobility_fwd(params, doping, temperature, carrier)[0]


def _mobility_fwd(params, doping, temperature, carrier):
    p_floor, p_range, p_ref = _POWERS[carrier]
    tn = temperature / T_REF
    ratio = (doping / (params.n_ref * tn**p_ref)) ** params.alpha
    share = 1.0 / (1.0 + ratio)
    floor = tn**p_floor
    span = tn**p_range
    mu = params.mu_min * floor + (params.mu_max - params.mu_min) * span * share
    return mu, (params, doping, temperature, ratio, share, floor, span)


def _mobility_bwd(carrier, saved, g):
    p_floor, p_range, p_ref = _POWERS[carrier]
    params, doping, temperature, ratio, share, floor, span = saved
    wide = (params.mu_max - params.mu_min) * span
    # d mu / d log(ratio)
    fall = -wide * share * (1.0 - share)
    d_params = MobilityParams(
        mu_min=jnp.sum(g * floor * (1.0 - share)),
        mu_max=jnp.sum(g * span * share),
        n_ref=jnp.sum(-g * fall) * params.alpha / params.n_ref,
        alpha=jnp.sum(g * fall * jnp.log(ratio)) / params.alpha,
    )
    d_doping = g * fall * params.alpha / doping
    d_temp = g * (p_floor * params.mu_min * floor + p_range * wide * share - p_ref * params.alpha * fall) / temperature
    return d_params, _fold(d_doping, doping), _fold(d_temp, temperature)


lattice_mobility.defvjp(_mobility_fwd, _mobility_bwd)


def bernoulli(x):
    small = jnp.abs(x) < 1e-2
    y = jnp.where(small, 1.0, x)
    series = 1.0 - x / 2.0 + x**2 / 12.0 - x**4 / 720.0
    return jnp.where(small, series, y / jnp.expm1(y))


def _bernoulli_slope(x):
    small = jnp.abs(x) < 1e-2
    y = jnp.where(small, 1.0, x)
    series = -0.5 + x / 6.0 - x**3 / 180.0 + x**5 / 5040.0
    return jnp.where(small, series, bernoulli(y) * (1.0 - bernoulli(-y)) / y)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def edge_current(psi, density, mobility, coupling, edges, v_t=0.025852):
    """Scharfetter-Gummel electron current along every edge.

    Parameters
    ----------
    psi, density : array, shape (bias, nodes)
        Potential and electron density for a sweep of bias points.
    mobility, coupling : array, shape (edges,)
        Edge mobility, and face area over edge length.
    edges : int array, shape (edges, 2)
        Tail and head node of each edge; a node takes part in many edges.
    v_t : float
        Thermal voltage.
    """
    return _edge_fwd(psi, density, mobility, coupling, edges, v_t)[0]


def _edge_fwd(psi, density, mobility, coupling, edges, v_t):
    tail, head = edges[:, 0], edges[:, 1]
    drop = (psi[:, head] - psi[:, tail]) / v_t
    flow = density[:, head] * bernoulli(drop) - density[:, tail] * bernoulli(-drop)
    return v_t * mobility * coupling * flow, (psi, drop, flow, density, mobility, coupling, edges)


def _edge_bwd(v_t, saved, g):
    psi, drop, flow, density, mobility, coupling, edges = saved
    tail, head = edges[:, 0], edges[:, 1]
    k = v_t * mobility * coupling
    gk = g * k
    slope = density[:, head] * _bernoulli_slope(drop) + density[:, tail] * _bernoulli_slope(-drop)
    d_drop = gk * slope / v_t
    d_psi = jnp.zeros_like(psi).at[:, head].add(d_drop).at[:, tail].add(-d_drop)
    d_density = jnp.zeros_like(density)
    d_density = d_density.at[:, head].add(gk * bernoulli(drop)).at[:, tail].add(-gk * bernoulli(-drop))
    per_edge = v_t * jnp.einsum("be,be->e", g, flow)
    return d_psi, d_density, per_edge * coupling, per_edge * mobility, None


edge_current.defvjp(_edge_fwd, _edge_bwd)


@jax.custom_jvp
def srh_rate(n, p, tau_n, tau_p, trap_level, region):
    """Shockley-Read-Hall recombination rate.

    Parameters
    ----------
    n, p : array, shape (nodes,)
        Densities in units of the intrinsic density.
    tau_n, tau_p : array, shape (regions,)
        Lifetimes of each region.
    trap_level : scalar
        Trap energy above midgap over kT.
    region : int array, shape (nodes,)
    """
    deep = jnp.exp(trap_level)
    return (n * p - 1.0) / (tau_p[region] * (n + deep) + tau_n[region] * (p + 1.0 / deep))


@srh_rate.defjvp
def _srh_jvp(primals, tangents):
    n, p, tau_n, tau_p, trap_level, region = primals
    dn, dp, dtn, dtp, dlevel, _ = tangents
    deep = jnp.exp(trap_level)
    tn, tp = tau_n[region], tau_p[region]
    den = tp * (n + deep) + tn * (p + 1.0 / deep)
    rate = (n * p - 1.0) / den
    dden = dtp[region] * (n + deep) + dtn[region] * (p + 1.0 / deep)
    dden = dden + tp * dn + tn * dp + dlevel * (tp * deep - tn / deep)
    return rate, (dn * p + n * dp - rate * dden) / den


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def terminal_current(current, weight, contact, num_contacts):
    """Current leaving through each contact.

    Parameters
    ----------
    current : array, shape (bias, edges)
    weight : array, shape (edges,)
        Test-function weight of the edge, with its sign.
    contact : int array, shape (edges,)
        Contact that the edge ends on, ``-1`` for interior edges.
    num_contacts : int
    """
    return _terminal_fwd(current, weight, contact, num_contacts)[0]


def _terminal_fwd(current, weight, contact, num_contacts):
    touching = jnp.where(contact >= 0, current * weight, 0.0)
    total = jax.ops.segment_sum(touching.T, jnp.maximum(contact, 0), num_segments=num_contacts)
    return total.T, (current, weight, contact)


def _terminal_bwd(num_contacts, saved, g):
    current, weight, contact = saved
    per_edge = g[:, contact]
    return per_edge * weight, jnp.sum(per_edge * current, axis=0), None


terminal_current.defvjp(_terminal_fwd, _terminal_bwd)
