from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

RHO_ICE = 917.0
GRAVITY = 9.81
GLEN_N = 3.0


class StrainRates(NamedTuple):
    exx: jax.Array
    eyy: jax.Array
    exy: jax.Array


def strain_rates(u, v, dx, dy):
    """Centred strain rates of a velocity field on (..., Y, X)."""
    ux = jnp.gradient(u, dx, axis=-1)
    uy = jnp.gradient(u, dy, axis=-2)
    vx = jnp.gradient(v, dx, axis=-1)
    vy = jnp.gradient(v, dy, axis=-2)
    return StrainRates(ux, vy, 0.5 * (uy + vx))


def _sum_to(x, shape):
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra)))
    squeezed = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=squeezed, keepdims=True) if squeezed else x


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def glen_viscosity(rates, softness, n=GLEN_N, eps=1e-4):
    """Effective viscosity of the shallow-shelf stress balance.

        eta = 1/2 A^(-1/n) (e^2 + eps^2)^((1 - n) / 2n),
        e^2 = exx^2 + eyy^2 + exx eyy + exy^2

    Args:
      rates: StrainRates, each of one shape (..., Y, X).
      softness: rate factor A > 0, anything that broadcasts to the rates (a scalar, one
        value per ensemble member (M, 1, 1), a field (Y, X)).
      n: Glen exponent, static.
      eps: regularising strain rate, static.
    """
    return _glen_fwd(rates, softness, n, eps)[0]


def _glen_fwd(rates, softness, n, eps):
    exx, eyy, exy = rates
    e2 = exx ** 2 + eyy ** 2 + exx * eyy + exy ** 2 + eps ** 2
    eta = 0.5 * softness ** (-1.0 / n) * e2 ** ((1.0 - n) / (2.0 * n))
    return eta, (rates, softness, e2, eta)


def _glen_bwd(n, eps, res, g):
    (exx, eyy, exy), softness, e2, eta = res
    common = g * eta / e2 * (1.0 - n) / (2.0 * n)
    d_rates = StrainRates(
        _sum_to(common * (2 * exx + eyy), jnp.shape(exx)),
        _sum_to(common * (2 * eyy + exx), jnp.shape(eyy)),
        _sum_to(common * 2 * exy, jnp.shape(exy)))
    d_soft = _sum_to(-g * eta / (n * softness), jnp.shape(softness))
    return d_rates, d_soft


glen_viscosity.defvjp(_glen_fwd, _glen_bwd)


def _rolled_or_cut(x, periodic):
    right = jnp.roll(x, -1, axis=-1)
    if periodic:
        return x, right
    return x[..., :-1], x[..., 1:]


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def membrane_force(u, viscosity, thickness, dx, periodic=False):
    """Depth-integrated membrane stress 4 eta H du/dx on the faces i + 1/2 of a flowline.

    All fields (..., X) at the nodes; X faces if periodic, else the X - 1 inner ones.
    """
    return _membrane_fwd(u, viscosity, thickness, dx, periodic)[0]


def _membrane_fwd(u, viscosity, thickness, dx, periodic):
    u0, u1 = _rolled_or_cut(u, periodic)
    m0, m1 = _rolled_or_cut(viscosity * thickness, periodic)
    stretch = (u1 - u0) / dx
    stiffness = 2.0 * (m0 + m1)
    return stiffness * stretch, (viscosity, thickness, stretch, stiffness)


def _membrane_bwd(dx, periodic, res, g):
    viscosity, thickness, stretch, stiffness = res
    gs = g * stiffness / dx
    gm = 2.0 * g * stretch
    if periodic:
        d_u = jnp.roll(gs, -1, axis=-1) - gs
        d_m = jnp.roll(gm, -1, axis=-1) + gm
    else:
        ends = [(0, 0)] * (g.ndim - 1)
        d_u = jnp.pad(gs, ends + [(1, 0)]) - jnp.pad(gs, ends + [(0, 1)])
        d_m = jnp.pad(gm, ends + [(1, 0)]) + jnp.pad(gm, ends + [(0, 1)])
    return d_u, d_m * thickness, d_m * viscosity


membrane_force.defvjp(_membrane_fwd, _membrane_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(4, 5, 6))
def sliding_drag(u, v, pressure, friction, m=3.0, u0=100.0, eps=1e-2):
    speed = jnp.sqrt(u * u + v * v + eps * eps)
    f = friction * jnp.maximum(pressure, 0.0) * (speed / (speed + u0)) ** (1.0 / m) / speed
    return f * u, f * v


@sliding_drag.defjvp
def _sliding_drag_jvp(m, u0, eps, primals, tangents):
    u, v, pressure, friction = primals
    du, dv, dp, dc = tangents
    speed = jnp.sqrt(u * u + v * v + eps * eps)
    per_load = (speed / (speed + u0)) ** (1.0 / m) / speed
    load = friction * jnp.maximum(pressure, 0.0)
    f = load * per_load
    dspeed = (u * du + v * dv) / speed
    dlog = (u0 / (m * (speed + u0)) - 1.0) / speed
    dload = dc * jnp.maximum(pressure, 0.0) + friction * jnp.where(pressure > 0, dp, 0.0)
    df = f * dlog * dspeed + per_load * dload
    return (f * u, f * v), (df * u + f * du, df * v + f * dv)


def driving_stress(thickness, surface, dx):
    return -RHO_ICE * GRAVITY * thickness * jnp.gradient(surface, dx, axis=-1)
