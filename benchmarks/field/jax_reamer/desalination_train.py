"""Reverse-osmosis desalination: one element, a train of elements, and the energy bill.

Fluxes are in L/m2/h, pressures in bar, concentrations in g/L, flows in m3/h.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp

NEWTON_STEPS = 25
BAR_M3H_TO_KW = 1.0 / 36.0


class Membrane(NamedTuple):
    permeability: jax.Array   # L/m2/h/bar
    mass_transfer: jax.Array  # L/m2/h
    osmotic: jax.Array        # bar per g/L


def seawater_membrane():
    return Membrane(jnp.array(1.4), jnp.array(90.0), jnp.array(0.75))


def _wall_osmotic(flux, salt, membrane):
    return membrane.osmotic * salt * jnp.exp(flux / membrane.mass_transfer)


@jax.custom_jvp
def element_flux(pressure, salt, membrane):
    """Water flux through a membrane element with salt polarised at its wall.

    Solves ``J = A (p - b c exp(J / k))`` for J.  `pressure` and `salt` may be
    scalars or arrays that broadcast against each other; `membrane` is a
    Membrane of scalars.
    """
    pressure, salt = jnp.broadcast_arrays(pressure, salt)

    def newton(_, flux):
        wall = _wall_osmotic(flux, salt, membrane)
        value = flux - membrane.permeability * (pressure - wall)
        slope = 1 + membrane.permeability * wall / membrane.mass_transfer
        return flux - value / slope

    return jax.lax.fori_loop(0, NEWTON_STEPS, newton, membrane.permeability * pressure)


@element_flux.defjvp
def _element_flux_jvp(primals, tangents):
    pressure, salt, membrane = primals
    dp, dc, dm = tangents
    a, k, b = membrane
    flux = element_flux(pressure, salt, membrane)
    growth = jnp.exp(flux / k)
    wall = b * salt * growth
    moved = (
        dm.permeability * (pressure - wall)
        + a * dp
        - a * growth * (dm.osmotic * salt + b * dc)
        + a * wall * flux / k**2 * dm.mass_transfer
    )
    return flux, moved / (1 + a * wall / k)


@jax.custom_vjp
def brine_profile(feed_salt, recovery, passage=0.0):
    """Salt in the concentrate after each element of a pressure vessel.

    Args:
      feed_salt: concentration entering the first element, scalar.
      recovery: (elements,) share of each element's feed that becomes permeate.
      passage: permeate salt as a share of the element's feed salt; 0 for an
        ideal membrane, 0.005 to 0.05 for real ones, more for nanofiltration.

    Returns:
      (elements,) concentrations; the last one leaves the plant.
    """
    return _brine_fwd(feed_salt, recovery, passage)[0]


def _brine_fwd(feed_salt, recovery, passage):
    def element(salt, r):
        after = salt * (1 - r * passage) / (1 - r)
        return after, (after, salt)

    _, (profile, entering) = jax.lax.scan(element, jnp.asarray(feed_salt, recovery.dtype), recovery)
    return profile, (entering, recovery, passage)


def _brine_bwd(res, g):
    entering, recovery, passage = res

    def element(carry, row):
        d_salt, d_passage = carry
        gi, salt, r = row
        total = gi + d_salt
        d_r = total * salt / (1 - r) ** 2
        d_passage = d_passage - total * salt * r / (1 - r)
        return (total * (1 - r * passage) / (1 - r), d_passage), d_r

    zero = jnp.zeros((), recovery.dtype)
    (d_feed, d_passage), d_recovery = jax.lax.scan(
        element, (zero, zero), (g, entering, recovery), reverse=True)
    return d_feed, d_recovery, d_passage


brine_profile.defvjp(_brine_fwd, _brine_bwd)


def _to_shape(grad, like):
    """Sum a gradient down to the shape of the input it belongs to."""
    extra = grad.ndim - jnp.ndim(like)
    grad = grad.sum(tuple(range(extra)))
    ones = tuple(i for i, n in enumerate(jnp.shape(like)) if n == 1 and grad.shape[i] != 1)
    return grad.sum(ones, keepdims=True)


def make_pump_power(device="turbine"):
    """Electric power of the high-pressure side, in kW.

    device "turbine": the pump lifts all of the feed and a turbine on its shaft
    gives back a share ``recover`` of the brine's power.
    device "exchanger": the pump lifts the permeate's volume only; the brine hands
    on a share ``recover`` of its pressure and a booster of the same pump
    efficiency makes good the rest.

    power(flow, pressure, recovery, pump_efficiency, recover): all scalars or
    arrays of one broadcast shape.
    """
    if device not in ("turbine", "exchanger"):
        raise ValueError(device)

    @jax.custom_gradient
    def power(flow, pressure, recovery, pump_efficiency, recover):
        hydraulic = flow * pressure * BAR_M3H_TO_KW
        brine = 1 - recovery
        if device == "turbine":
            per = 1 / pump_efficiency - brine * recover
        else:
            per = (recovery + brine * (1 - recover)) / pump_efficiency

        def pull(g):
            gh = g * hydraulic
            if device == "turbine":
                d_recovery = gh * recover
                d_eff = -gh / pump_efficiency**2
                d_recover = -gh * brine
            else:
                d_recovery = gh * recover / pump_efficiency
                d_eff = -gh * recovery / pump_efficiency**2
                d_recover = -gh * brine / pump_efficiency
            parts = (g * per * pressure * BAR_M3H_TO_KW, g * per * flow * BAR_M3H_TO_KW,
                     d_recovery, d_eff, d_recover)
            likes = (flow, pressure, recovery, pump_efficiency, recover)
            return tuple(_to_shape(jnp.asarray(p), x) for p, x in zip(parts, likes))

        return hydraulic * per, pull

    return power


def specific_energy(feed_flow, pressure, recovery, device="exchanger"):
    """kWh per cubic metre of fresh water at usual efficiencies."""
    kw = make_pump_power(device)(feed_flow, pressure, recovery, 0.88, 0.95)
    return kw / (feed_flow * recovery)


if __name__ == "__main__":
    m = seawater_membrane()
    print("flux", element_flux(60.0, jnp.array([35.0, 45.0, 55.0]), m))
    print("brine", brine_profile(35.0, jnp.full(6, 0.08), 0.01))
    print("kWh/m3", specific_energy(100.0, 60.0, 0.42))
