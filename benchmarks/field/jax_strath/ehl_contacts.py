"""Elastohydrodynamic contacts of roller bearings: film, pressure, wear.

SI units throughout. ``modulus`` is the effective modulus E' of the pair.
"""
from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

SPEED_EXP, MATERIAL_EXP, LOAD_EXP = 0.67, 0.53, -0.067


class Oil(NamedTuple):
    viscosity: jax.Array       # Pa s at inlet temperature
    piezo: jax.Array           # 1/Pa, Barus coefficient


def _reduce_to(g, like):
    """Sum a cotangent down to the shape that `like` had before broadcasting."""
    shape = jnp.shape(like)
    lead = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axis=axes, keepdims=True) if axes else g


def effective_modulus(e1, nu1, e2, nu2):
    return 2.0 / ((1 - nu1**2) / e1 + (1 - nu2**2) / e2)


@jax.custom_vjp
def film_thickness(oil, speed, load, radius, modulus, ellipticity):
    """Hamrock-Dowson central film thickness of a fully flooded point contact.

    h = 2.69 R U^0.67 G^0.53 W^-0.067 (1 - 0.61 exp(-0.73 k)) with
    U = eta u / (E' R), G = alpha E', W = w / (E' R^2).

    All entries broadcast against each other (e.g. speeds (S, 1) by loads (L,)),
    and are positive. Returns the broadcast shape.
    """
    u = oil.viscosity * speed / (modulus * radius)
    g = oil.piezo * modulus
    w = load / (modulus * radius**2)
    shape = 1.0 - 0.61 * jnp.exp(-0.73 * ellipticity)
    return 2.69 * radius * u**SPEED_EXP * g**MATERIAL_EXP * w**LOAD_EXP * shape


def _film_fwd(oil, speed, load, radius, modulus, ellipticity):
    h = film_thickness(oil, speed, load, radius, modulus, ellipticity)
    return h, (h, oil, speed, load, radius, modulus, ellipticity)


def _film_bwd(res, ct):
    h, oil, speed, load, radius, modulus, k = res
    gh = ct * h  # every power law: dh/dx = h * exponent / x
    radius_exp = 1.0 - SPEED_EXP - 2.0 * LOAD_EXP
    modulus_exp = MATERIAL_EXP - SPEED_EXP - LOAD_EXP
    decay = 0.61 * jnp.exp(-0.73 * k)
    d_oil = Oil(
        viscosity=_reduce_to(gh * SPEED_EXP / oil.viscosity, oil.viscosity),
        piezo=_reduce_to(gh * MATERIAL_EXP / oil.piezo, oil.piezo),
    )
    return (
        d_oil,
        _reduce_to(gh * SPEED_EXP / speed, speed),
        _reduce_to(gh * LOAD_EXP / load, load),
        _reduce_to(gh * radius_exp / radius, radius),
        _reduce_to(gh * modulus_exp / modulus, modulus),
        _reduce_to(gh * 0.73 * decay / (1.0 - decay), k),
    )


film_thickness.defvjp(_film_fwd, _film_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def wear_depth(pressure, speed, coeff, dt, axis=-1):
    """Running Archard wear depth ``cumsum(coeff * p * |v| * dt)`` along the time ``axis``.

    pressure, speed: same shape, time along ``axis``; coeff: scalar (k / H).
    """
    return jnp.cumsum(coeff * pressure * jnp.abs(speed) * dt, axis=axis)


def _wear_fwd(pressure, speed, coeff, dt, axis):
    return wear_depth(pressure, speed, coeff, dt, axis), (pressure, speed, coeff)


def _wear_bwd(dt, axis, res, g):
    pressure, speed, coeff = res
    remaining = jnp.cumsum(g[..., ::-1], axis=-1)[..., ::-1] * dt
    path = jnp.abs(speed)
    d_pressure = remaining * coeff * path
    d_speed = remaining * coeff * pressure * jnp.sign(speed)
    d_coeff = jnp.sum(remaining * pressure * path)
    return d_pressure, d_speed, d_coeff


wear_depth.defvjp(_wear_fwd, _wear_bwd)


@jax.custom_jvp
def line_contact_pressure(x, load, radius, modulus):
    a = jnp.sqrt(4.0 * load * radius / (jnp.pi * modulus))
    peak = jnp.sqrt(load * modulus / (jnp.pi * radius))
    return peak * jnp.sqrt(jnp.maximum(1.0 - (x / a) ** 2, 0.0))


@line_contact_pressure.defjvp
def _line_contact_jvp(primals, tangents):
    x, load, radius, modulus = primals
    dx, dload, dradius, dmodulus = tangents
    a = jnp.sqrt(4.0 * load * radius / (jnp.pi * modulus))
    peak = jnp.sqrt(load * modulus / (jnp.pi * radius))
    xi = x / a
    inside = jnp.abs(xi) < 1.0
    root = jnp.sqrt(jnp.where(inside, 1.0 - xi**2, 1.0))
    p = jnp.where(inside, peak * root, 0.0)
    rl, rr, rm = dload / load, dradius / radius, dmodulus / modulus
    dlog_peak = 0.5 * (rl + rm - rr)
    dlog_a = 0.5 * (rl + rr - rm)
    dxi = dx / a - xi * dlog_a
    dp = jnp.where(inside, peak * (root * dlog_peak - xi * dxi / root), 0.0)
    return p, dp


def lambda_ratio(film, rq_a, rq_b):
    """Film over composite roughness; below one the surfaces touch."""
    return film / jnp.hypot(rq_a, rq_b)
