"""Vehicle-ferry terminal: marshalling yard, car deck and choice of sailing.

The planner optimises boarding rates, fares and the stowage of a day's
sailings jointly.  It needs slopes through

* the marshalling yard, where lanes fill and turn traffic away when full;
* the stability sheet of the loaded ship;
* the share of bookings going to each departure.
"""

from typing import Dict, NamedTuple, Optional

import jax
import jax.numpy as jnp
import numpy as np

LANE_CLASSES = ("car", "van", "coach", "lorry")
MINUTES_PER_STEP = 5.0
HEEL_ALARM = 0.07
MIN_GM = 0.9


class YardState(NamedTuple):
    waiting: jnp.ndarray       # (steps, lanes) vehicles standing after each step
    turned_away: jnp.ndarray   # (steps, lanes) vehicles refused in each step


class Ship(NamedTuple):
    """Hydrostatics of the ship without its vehicles."""

    lightship: float      # tonnes
    metacentric: float    # metres, GM of the empty ship
    centre: float         # metres above keel


# -- marshalling yard ----------------------------------------------------------


@jax.custom_vjp
def yard_queue(arrivals, boarding, yard_limit, standing):
    """Run the lanes of the marshalling yard through the day.

    In each step the arrivals join their lane and up to ``boarding`` vehicles
    leave for the ship; whatever exceeds the lane's ``yard_limit`` is turned
    away and does not come back.

    Parameters
    ----------
    arrivals, boarding : (steps, lanes)
    yard_limit : (lanes,)
    standing : (lanes,)
        Vehicles left over from the previous day.

    Returns
    -------
    YardState
    """
    state, _ = _yard_queue_fwd(arrivals, boarding, yard_limit, standing)
    return state


def _yard_queue_fwd(arrivals, boarding, yard_limit, standing):
    def step(queue, inputs):
        joined, served = inputs
        balance = queue + joined - served
        refused = jnp.maximum(balance - yard_limit, 0.0)
        queue = jnp.clip(balance, 0.0, yard_limit)
        return queue, (queue, refused, balance)

    _, (waiting, refused, balance) = jax.lax.scan(step, standing, (arrivals, boarding))
    return YardState(waiting, refused), (balance, yard_limit)


def _yard_queue_bwd(saved, g):
    balance, yard_limit = saved
    full = balance > yard_limit
    moving = (balance > 0.0) & ~full

    def step(carry, inputs):
        lam, g_limit = carry
        g_wait, g_refused, is_full, is_moving = inputs
        lam = lam + g_wait
        g_limit = g_limit + jnp.where(is_full, lam, 0.0)
        g_balance = jnp.where(is_moving, lam, 0.0) + jnp.where(is_full, g_refused, 0.0)
        return (g_balance, g_limit), g_balance

    start = (jnp.zeros_like(yard_limit), jnp.zeros_like(yard_limit))
    (g_standing, g_limit), g_balance = jax.lax.scan(
        step, start, (g.waiting, g.turned_away, full, moving), reverse=True
    )
    return g_balance, -g_balance, g_limit, g_standing


yard_queue.defvjp(_yard_queue_fwd, _yard_queue_bwd)


def arrival_profile(daily, peak_step, width, steps):
    """Bell-shaped arrivals of every lane; totals in ``daily`` (lanes,)."""
    t = jnp.arange(steps)[:, None]
    bell = jnp.exp(-0.5 * ((t - peak_step) / width) ** 2)
    return daily * bell / jnp.sum(bell, axis=0)


def yard_cost(state: YardState, wait_price, refusal_price):
    """Money lost to waiting and to refused traffic."""
    waiting = MINUTES_PER_STEP * jnp.sum(state.waiting, axis=0)
    refused = jnp.sum(state.turned_away, axis=0)
    return jnp.sum(wait_price * waiting + refusal_price * refused)


def yard_layout_cost(limits, arrivals, boarding, prices: Dict[str, jnp.ndarray]):
    """Daily cost of a yard layout, including the rent of its lanes."""
    empty = jnp.zeros_like(limits)
    state = yard_queue(arrivals, boarding, limits, empty)
    return yard_cost(state, prices["wait"], prices["refusal"]) + jnp.sum(
        prices["rent"] * limits
    )


# -- car deck --------------------------------------------------------------------


class DeckPlan:
    """Stability sheet of one ship.

    The plan is for a fixed list of stowage positions; the day's sailings are
    rows of the mass table, all using the same positions.
    """

    def __init__(self, ship: Ship):
        self.ship = ship
        self.sheet = self.build()

    def build(self):
        lightship, metacentric, centre = self.ship

        def hydrostatics(masses, across, above):
            displacement = lightship + jnp.sum(masses, axis=1)
            raised = masses @ (above - centre)
            gm = metacentric - raised / displacement
            lever = (masses @ across) / (displacement * gm)
            return displacement, raised, gm, lever

        @jax.custom_vjp
        def heel_and_gm(masses, across, above):
            """Static heel (radians) and metacentric height of each sailing.

            masses: (sailings, positions); across, above: (positions,), metres
            to starboard of the centre line and above the keel.
            """
            _, _, gm, lever = hydrostatics(masses, across, above)
            return jnp.arctan(lever), gm

        def forward(masses, across, above):
            displacement, raised, gm, lever = hydrostatics(masses, across, above)
            kept = (masses, across, above, displacement, raised, gm, lever)
            return (jnp.arctan(lever), gm), kept

        def backward(kept, g):
            masses, across, above, displacement, raised, gm, lever = kept
            g_heel, g_gm = g
            g_lever = g_heel / (1.0 + lever**2)
            g_moment = g_lever / (displacement * gm)
            g_gm = g_gm - g_lever * lever / gm
            g_displacement = -g_lever * lever / displacement
            g_displacement = g_displacement + g_gm * raised / displacement**2
            g_raised = -g_gm / displacement
            g_masses = (
                g_moment[:, None] * across
                + g_raised[:, None] * (above - centre)
                + g_displacement[:, None]
            )
            g_across = g_moment @ masses
            g_above = jnp.mean(g_raised[:, None] * masses, axis=0)
            return g_masses, g_across, g_above

        heel_and_gm.defvjp(forward, backward)
        return heel_and_gm

    def stow(self, vehicle_mass, position_of_vehicle, positions):
        """Mass table from vehicles (sailings, vehicles) and their positions.

        Vehicles sharing a position (a trailer and its tractor) add up.
        """
        table = jnp.zeros((vehicle_mass.shape[0], positions), vehicle_mass.dtype)
        rows = jnp.arange(vehicle_mass.shape[0])[:, None]
        return table.at[rows, position_of_vehicle].add(vehicle_mass)

    def penalty(self, masses, across, above):
        """Smooth penalty for heel near the alarm and for little stability."""
        heel, gm = self.sheet(masses, across, above)
        leaning = jnp.sum((heel / HEEL_ALARM) ** 2)
        tender = jnp.sum(jax.nn.softplus((MIN_GM - gm) / 0.05))
        return leaning + tender


# -- choice of sailing -------------------------------------------------------------


@jax.custom_vjp
def departure_shares(utility, on_sale, scale):
    """Logit shares of the departures and the inclusive value of each segment.

    utility [segments, departures]; on_sale booleans of that shape; scale a
    scalar.  The inclusive value is log-sum-exp of scaled utilities over scale.
    Segments with nothing on sale have zero shares and zero inclusive value;
    utilities of departures that are not on sale are not looked at.
    """
    (shares, inclusive), _ = _departure_shares_fwd(utility, on_sale, scale)
    return shares, inclusive


def _departure_shares_fwd(utility, on_sale, scale):
    usable = jnp.where(on_sale, utility, 0.0)
    offered = jnp.any(on_sale, axis=1, keepdims=True)
    level = jnp.where(on_sale, scale * usable, -jnp.inf)
    top = jnp.where(offered, jnp.max(level, axis=1, keepdims=True), 0.0)
    weight = jnp.where(on_sale, jnp.exp(level - top), 0.0)
    total = jnp.where(offered, jnp.sum(weight, axis=1, keepdims=True), 1.0)
    shares = weight / total
    log_total = jnp.where(offered, top + jnp.log(total), 0.0)[:, 0]
    return (shares, log_total / scale), (usable, shares, log_total, scale)


def _departure_shares_bwd(saved, g):
    usable, shares, log_total, scale = saved
    g_shares, g_inclusive = g
    centred = g_shares - jnp.sum(g_shares * shares, axis=1, keepdims=True)
    g_level = shares * centred
    g_utility = scale * g_level + g_inclusive[:, None] * shares
    expected = jnp.sum(shares * usable, axis=1)
    g_scale = jnp.sum(g_level * usable)
    g_scale = g_scale + jnp.sum(g_inclusive * (expected - log_total / scale) / scale)
    return g_utility, None, g_scale


departure_shares.defvjp(_departure_shares_fwd, _departure_shares_bwd)


def timetable_utility(params, wanted, departs, fares):
    """Utility from schedule delay, early and late priced apart, and fare."""
    early = jnp.maximum(wanted[:, None] - departs, 0.0)
    late = jnp.maximum(departs - wanted[:, None], 0.0)
    return -params["early"] * early - params["late"] * late - params["fare"] * fares


def expected_revenue(params, wanted, departs, fares, volumes, on_sale: Optional[jnp.ndarray] = None):
    """Revenue and rider benefit of a set of fares."""
    utility = timetable_utility(params, wanted, departs, fares)
    if on_sale is None:
        on_sale = jnp.ones(utility.shape, bool)
    shares, inclusive = departure_shares(utility, on_sale, params["scale"])
    revenue = jnp.sum(volumes[:, None] * shares * fares)
    benefit = jnp.sum(volumes * inclusive) / params["fare"]
    return revenue, benefit


def fare_step(params, wanted, departs, fares, volumes, weight=0.3, rate=1e-3):
    def objective(f):
        revenue, benefit = expected_revenue(params, wanted, departs, f, volumes)
        return revenue + weight * benefit

    return fares + rate * jax.grad(objective)(fares)


if __name__ == "__main__":
    rng = np.random.default_rng(8)
    arrivals = arrival_profile(jnp.array([220.0, 60.0, 9.0, 40.0]), 30.0, 9.0, 72)
    boarding = jnp.zeros((72, 4)).at[40:52].set(jnp.array([16.0, 4.0, 0.8, 3.0]))
    prices = {
        "wait": jnp.array([0.1, 0.1, 0.9, 0.4]),
        "refusal": jnp.array([60.0, 75.0, 600.0, 240.0]),
        "rent": jnp.array([1.0, 1.3, 3.0, 3.5]),
    }
    limits = jnp.array([260.0, 80.0, 12.0, 55.0])
    print(jax.grad(yard_layout_cost)(limits, arrivals, boarding, prices))

    plan = DeckPlan(Ship(lightship=3200.0, metacentric=1.9, centre=7.2))
    masses = plan.stow(
        jnp.asarray(rng.uniform(1.2, 30.0, (1, 10))), jnp.arange(10) % 6, 6
    )
    across = jnp.array([-6.0, -3.6, -1.2, 1.2, 3.6, 6.0])
    print(plan.penalty(masses, across, jnp.full(6, 8.1)))

    taste = {"early": 0.4, "late": 0.7, "fare": 0.05, "scale": jnp.array(1.0)}
    fares = jnp.array([42.0, 55.0, 38.0])
    print(fare_step(taste, jnp.array([9.0, 13.0]), jnp.array([8.0, 12.5, 18.0]), fares,
                    jnp.array([120.0, 90.0])))
