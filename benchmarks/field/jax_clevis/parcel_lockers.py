"""Sizing a bank of parcel lockers at a railway station.

Three questions: how often does a courier find no free door, how long do parcels stay, and what does it cost when small
parcels spill into the large compartments. Each answer has a derivative, since the whole is tuned by gradient descent.
"""
import jax
import jax.numpy as jnp

MAX_DOORS = 120
HOURS = 24.0


def _blocking_pair(load, doors):
    """Blocking with `doors` doors, and with one door fewer, by the usual recursion."""
    load, doors = jnp.broadcast_arrays(load, doors)

    def more(k, pair):
        b, fewer = pair
        nxt = load * b / (k + load * b)
        return jnp.where(k <= doors, nxt, b), jnp.where(k == doors, b, fewer)

    return jax.lax.fori_loop(1, MAX_DOORS + 1, more, (jnp.ones_like(load), jnp.ones_like(load)))


@jax.custom_jvp
def door_blocking(load, doors):
    """Probability that all doors are taken (Erlang B).

    Parameters
    ----------
    load : array
        Offered load in erlang, zero or more.
    doors : integer array, broadcast against load
        0 ... MAX_DOORS.
    """
    return _blocking_pair(load, doors)[0]


@door_blocking.defjvp
def _door_blocking_jvp(primals, tangents):
    load, doors = primals
    b, fewer = _blocking_pair(load, doors)
    bottom = doors + load * fewer
    per_load = doors * fewer / jnp.where(doors > 0, bottom, 1.0)
    return b, (per_load - b + b * b) * tangents[0]


@jax.custom_vjp
def still_inside(hours, rate, shape, reminder, boost=1.0):
    """Share of parcels that are still in the locker after `hours` (a vector), Weibull with a reminder text message.

    Until `reminder` the cumulated hazard is (rate * hours) ** shape. From then on it grows `boost` times as fast;
    a boost of one is the case without any message. Rate, shape, reminder and boost are scalars.
    """
    return _still_fwd(hours, rate, shape, reminder, boost)[0]


def _still_fwd(hours, rate, shape, reminder, boost):
    plain = (rate * hours) ** shape
    at_reminder = (rate * reminder) ** shape
    late = hours > reminder
    hazard = jnp.where(late, at_reminder + boost * (plain - at_reminder), plain)
    share = jnp.exp(-hazard)
    return share, (hours, rate, shape, reminder, boost, plain, at_reminder, hazard, share)


def _still_bwd(res, g):
    hours, rate, shape, reminder, boost, plain, at_reminder, hazard, share = res
    late = hours > reminder
    pace = jnp.where(late, boost, 1.0)
    gh = -g * share
    d_hours = gh * pace * shape * rate * (rate * hours) ** (shape - 1)
    d_rate = jnp.sum(gh * shape * hazard / rate)
    log_age = jnp.log(jnp.where(hours > 0, rate * hours, 1.0))
    d_shape = jnp.sum(gh * pace * plain * log_age)
    d_reminder = jnp.sum(jnp.where(late, gh, 0.0)) * (1 - boost) * shape * at_reminder / reminder
    d_boost = jnp.sum(jnp.where(late, gh * (plain - at_reminder), 0.0))
    return d_hours, d_rate, d_shape, d_reminder, d_boost


still_inside.defvjp(_still_fwd, _still_bwd)


@jax.custom_gradient
def spill_cost(demand, capacity, fee, penalty):
    """Mean daily cost of a bank. demand: days x sizes, from small to large; capacity and fee: sizes; penalty: scalar.

    What does not fit into a size goes to the next larger one at that one's fee; what does not fit into the largest is
    driven back to the depot at `penalty` each.
    """
    def fill(over, now):
        want, room = now
        want = want + over
        return jnp.maximum(want - room, 0.0), (jnp.minimum(want, room), want > room)

    returned, (stored, full) = jax.lax.scan(fill, jnp.zeros_like(demand[:, 0]), (demand.T, capacity))
    days = demand.shape[0]
    cost = (jnp.sum(fee[:, None] * stored) + penalty * returned.sum()) / days

    def back(g):
        def unfill(price, now):
            full_s, fee_s = now
            mine = jnp.where(full_s, price, fee_s)
            return mine, (mine, jnp.where(full_s, fee_s - price, 0.0))

        _, (d_demand, d_room) = jax.lax.scan(
            unfill, jnp.full_like(returned, penalty), (full, fee), reverse=True)
        return (g * d_demand.T / days, g * d_room.sum(1) / days, g * stored.sum(1) / days, g * returned.sum() / days)

    return cost, back


def mean_stay(rate, shape, reminder, boost, horizon=3 * HOURS, n=145):
    t = jnp.linspace(1e-3, horizon, n)
    return jnp.trapezoid(still_inside(t, rate, shape, reminder, boost), t)


def main():
    stay = mean_stay(0.08, 1.3, 12.0, 2.0)
    arrivals = 2.5
    print("blocking", door_blocking(arrivals * stay, jnp.array([20, 30, 40])))


if __name__ == "__main__":
    main()
