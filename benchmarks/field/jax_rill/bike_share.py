"""Demand and rebalancing model of a docked bike-sharing system."""

import dataclasses
from functools import partial
from typing import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


@dataclasses.dataclass
class Network:
    """Static description of the stations.

    Attributes:
        names: Station names, in table order.
        docks: Number of docks per station.
        origin: Departure station of every scheduled lane.
        dest: Arrival station of every lane. Several lanes may share stations and
            a lane may come back to where it left.
    """

    names: Sequence[str]
    docks: np.ndarray
    origin: np.ndarray
    dest: np.ndarray

    @property
    def size(self) -> int:
        return len(self.names)


def make_station_balance(origin, dest, n_stations: int) -> Callable[[Array, Array], Array]:
    """Builds the operator from lane volumes to the net change of bikes per station.

    Args:
        origin: int table of shape (lanes,).
        dest: int table of shape (lanes,).
        n_stations: number of stations.

    Returns:
        A function of ``trips`` with shape (..., lanes) and ``arriving``, the fraction
        of the bikes that arrive in riding condition, with shape (lanes,) and shared by
        every day. It gives an array of shape (..., n_stations).
    """
    origin = jnp.asarray(origin)
    dest = jnp.asarray(dest)

    @jax.custom_gradient
    def balance(trips, arriving):
        out = jnp.zeros(trips.shape[:-1] + (n_stations,), trips.dtype)
        out = out.at[..., dest].add(trips * arriving)
        out = out.at[..., origin].add(-trips)

        def grad(g):
            at_dest = g[..., dest]
            g_trips = at_dest * arriving - g[..., origin]
            g_arriving = (at_dest * trips).reshape(-1, trips.shape[-1]).sum(axis=0)
            return g_trips, g_arriving

        return out, grad

    return balance


@jax.custom_vjp
def pickup_logsum(utilities: Array, is_open: Array, scale: Array) -> Array:
    """Inclusive value of the pick-up choice of every zone.

    Args:
        utilities: (zones, stations) systematic utility of walking to a station.
        is_open: (zones, stations) booleans, False where the station is closed or
            out of walking range. Every zone has an open station.
        scale: (zones,) or scalar, positive Gumbel scale.

    Returns:
        (zones,) expected maximum utility.
    """
    s = jnp.expand_dims(jnp.broadcast_to(scale, utilities.shape[:-1]), -1)
    z = jnp.where(is_open, utilities / s, -jnp.inf)
    return scale * jax.nn.logsumexp(z, axis=-1)


def _pickup_fwd(utilities, is_open, scale):
    value = pickup_logsum(utilities, is_open, scale)
    return value, (utilities, is_open, scale, value)


def _pickup_bwd(res, g):
    utilities, is_open, scale, value = res
    s = jnp.broadcast_to(scale, g.shape)[..., None]
    share = jax.nn.softmax(utilities / s, axis=-1)
    share = jnp.where(is_open, share, 0.0)
    g_util = g[..., None] * share
    g_scale = g * (value - jnp.sum(share * utilities, axis=-1)) / s[..., 0]
    if jnp.ndim(scale) == 0:
        g_scale = g_scale.sum()
    return g_util, None, g_scale


pickup_logsum.defvjp(_pickup_fwd, _pickup_bwd)


@jax.custom_vjp
def truck_cost(moves: Array, per_bike: Array, surcharge: Array, capacity: Array) -> Array:
    """Cost of loading (positive) or unloading (negative) bikes at each station.

    The first ``capacity`` bikes of a stop cost ``per_bike`` each; the part above takes
    a second run, which adds ``surcharge`` times its square.

    Args:
        moves: (stations,) signed number of bikes, relaxed to reals.
        per_bike: (stations,) handling cost.
        surcharge: scalar.
        capacity: scalar, bed size of the truck.

    Returns:
        (stations,) cost.
    """
    load = jnp.abs(moves)
    return per_bike * load + surcharge * jnp.maximum(load - capacity, 0.0) ** 2


def _truck_fwd(moves, per_bike, surcharge, capacity):
    over = jnp.maximum(jnp.abs(moves) - capacity, 0.0)
    cost = per_bike * jnp.abs(moves) + surcharge * over**2
    return cost, (moves, per_bike, surcharge, over)


def _truck_bwd(res, g):
    moves, per_bike, surcharge, over = res
    g_over = 2.0 * surcharge * over * g
    g_moves = g * per_bike * jnp.sign(moves) + g_over
    return g_moves, g * jnp.abs(moves), jnp.sum(g * over**2), -jnp.sum(g_over)


truck_cost.defvjp(_truck_fwd, _truck_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def empty_probability(returns: Array, pickups: Array, docks: tuple) -> Array:
    """Long-run probability that a station has no bike.

    A station is a birth-death chain on 0..docks with Poisson returns and pick-ups.

    Args:
        returns: (..., stations) arrival rate of bikes.
        pickups: (..., stations) demand rate of riders, positive.
        docks: tuple of ints, docks of each station.

    Returns:
        (..., stations) probability.
    """
    levels = np.arange(max(docks) + 1)
    exists = levels <= np.asarray(docks)[:, None]
    rho = (returns / pickups)[..., None]
    return 1.0 / jnp.sum(jnp.where(exists, rho**levels, 0.0), axis=-1)


@empty_probability.defjvp
def _empty_jvp(docks, primals, tangents):
    returns, pickups = primals
    d_returns, d_pickups = tangents
    p0 = empty_probability(returns, pickups, docks)
    rho = returns / pickups
    k = np.arange(1, max(docks) + 1)
    exists = k <= np.asarray(docks)[:, None]
    slope = jnp.sum(jnp.where(exists, k * rho[..., None] ** (k - 1), 0.0), axis=-1)
    d_rho = (d_returns - rho * d_pickups) / pickups
    return p0, -p0 * p0 * slope * d_rho


def nightly_objective(plan, network: Network, trips, arriving, rates, tariff):
    """Operator's cost of a day: trucks, drift of the stock and riders left standing."""
    balance = make_station_balance(network.origin, network.dest, network.size)
    drift = balance(trips, arriving).mean(axis=0) + plan
    trucks = truck_cost(plan, tariff["per_bike"], tariff["second_run"], tariff["bed"])
    empty = empty_probability(
        rates["returns"], rates["pickups"], tuple(int(d) for d in network.docks)
    )
    return trucks.sum() + tariff["drift"] * jnp.sum(drift**2) + tariff["lost"] * empty.sum()
