import math

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr

_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


def _phi(z):
    return _INV_SQRT_2PI * jnp.exp(-0.5 * z * z)


@jax.custom_jvp
def expected_spill(mean, sd, capacity):
    """Expected passengers turned away when demand is N(mean, sd^2) and `capacity` seats are sold (sd > 0)."""
    z = (capacity - mean) / sd
    return sd * (_phi(z) - z * ndtr(-z))


@expected_spill.defjvp
def _expected_spill_jvp(primals, tangents):
    mean, sd, capacity = primals
    t_mean, t_sd, t_capacity = tangents
    z = (capacity - mean) / sd
    density, tail = _phi(z), ndtr(-z)
    spill = sd * (density - z * tail)
    return spill, tail * (t_mean - t_capacity) + density * t_sd


def _leg_loads(flows, legs, num_legs):
    slots = jnp.where(legs >= 0, legs, num_legs)
    spread = jnp.broadcast_to(flows[:, None], legs.shape)
    return jnp.zeros(num_legs, flows.dtype).at[slots].add(spread, mode="drop")


@jax.custom_vjp
def leg_overload(flows, capacity, legs):
    """Half squared overload of the flight network.

    flows    (itineraries,)            booked passengers per itinerary
    capacity (legs,)                   seats per leg
    legs     (itineraries, max_legs)   leg numbers of each itinerary, padded with -1
    """
    over = jnp.maximum(_leg_loads(flows, legs, capacity.shape[0]) - capacity, 0.0)
    return 0.5 * jnp.sum(over * over)


def _leg_overload_fwd(flows, capacity, legs):
    over = jnp.maximum(_leg_loads(flows, legs, capacity.shape[0]) - capacity, 0.0)
    return 0.5 * jnp.sum(over * over), (over, legs)


def _leg_overload_bwd(res, g):
    over, legs = res
    return g * over[legs].sum(axis=1), -g * over, None


leg_overload.defvjp(_leg_overload_fwd, _leg_overload_bwd)


def make_fare_mix(outside=True):
    def shares(price, appeal, sensitivity, is_open):
        u = appeal - sensitivity[:, None, None] * price
        u = jnp.where(is_open, u, -jnp.inf)
        top = jnp.maximum(u.max(axis=-1, keepdims=True), 0.0)
        e = jnp.exp(u - top)
        total = e.sum(axis=-1, keepdims=True)
        return e / (total + jnp.exp(-top) if outside else total)

    @jax.custom_vjp
    def fare_mix(price, appeal, sensitivity, mix, is_open):
        # price, appeal, is_open: (markets, fares); sensitivity, mix: (segments,)
        return jnp.einsum("k,kmf->mf", mix, shares(price, appeal, sensitivity, is_open))

    def fwd(price, appeal, sensitivity, mix, is_open):
        s = shares(price, appeal, sensitivity, is_open)
        bought = jnp.einsum("k,kmf->mf", mix, s)
        return bought, (price, sensitivity, mix, s, bought)

    def bwd(res, g):
        price, sensitivity, mix, s, bought = res
        inner = jnp.sum(g * bought, axis=-1, keepdims=True) / mix.sum()
        d_u = mix[:, None, None] * s * (g - inner)
        d_price = -jnp.einsum("k,kmf->mf", sensitivity, d_u)
        d_sens = -jnp.einsum("kmf,mf->k", d_u, price)
        d_mix = jnp.einsum("kmf,mf->k", s, g)
        return d_price, d_u.sum(0), d_sens, d_mix, None

    fare_mix.defvjp(fwd, bwd)
    return fare_mix


fare_mix = make_fare_mix()
