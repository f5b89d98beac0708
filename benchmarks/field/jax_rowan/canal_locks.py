"""Operation of a flight of canal locks.

Hydraulics and traffic terms used when the keeper's schedule of a staircase is
tuned with gradients:

* filling of a chamber through ground culverts whose paddles are wound up
  steadily (``chamber_fill_time``),
* economising on water with side ponds (``economise``),
* waiting of boats that share locks (``boat_delay``),
* forces in the mooring lines while the water rises (``make_mooring``).

All quantities are SI (m, s, N) apart from traffic, which is counted per hour.
"""

from functools import partial
from typing import Dict, List, NamedTuple, Tuple

import jax
import jax.numpy as jnp
import numpy as np

GRAVITY = 9.81
CULVERT_DISCHARGE = 0.62
SECONDS_PER_HOUR = 3600.0
NARROW_CHAMBER = (22.0, 2.2)      # length, width of a narrow lock
BROAD_CHAMBER = (23.5, 4.5)


class Ponds(NamedTuple):
    """Side ponds in the order in which they are opened, each field ``[n]``."""

    area: jax.Array
    level: jax.Array


class LockSite(NamedTuple):
    plan_area: jax.Array        # [L]
    head: jax.Array             # [L]
    culvert_area: jax.Array     # [L]
    winding_time: jax.Array     # [L] or scalar


# ---------------------------------------------------------------------------
# small helpers
# ---------------------------------------------------------------------------


def chamber_plan(length: float, width: float, taper: float = 0.0) -> float:
    """Plan area of a chamber whose tail is narrowed by ``taper`` metres."""
    return length * width - 0.5 * taper * length


def culvert_section(diameter):
    return 0.25 * jnp.pi * jnp.square(diameter)


def draining_rate(plan_area, culvert_area):
    """Rate at which the root of the head falls, times two, paddles fully up."""
    return CULVERT_DISCHARGE * culvert_area * jnp.sqrt(2.0 * GRAVITY) / plan_area


def _sum_to(value, like):
    """Sum ``value`` over the axes that broadcasting added to ``like``."""
    shape = jnp.shape(like)
    extra = value.ndim - len(shape)
    value = jnp.sum(value, axis=tuple(range(extra)))
    stretched = tuple(
        k for k, size in enumerate(shape) if size == 1 and value.shape[k] != 1
    )
    return jnp.sum(value, axis=stretched, keepdims=True) if stretched else value


# ---------------------------------------------------------------------------
# filling
# ---------------------------------------------------------------------------


@jax.custom_jvp
def chamber_fill_time(plan_area, head, culvert_area, winding_time):
    """Seconds until a chamber makes a level.

    The paddles open linearly during ``winding_time``.  With
    ``c = Cd a sqrt(2 g) / A`` the root of the head falls by ``c t^2 / (4 w)``
    while they are being wound and by ``c / 2`` per second afterwards, so a
    shallow chamber may be level before the paddles are fully up.

    Parameters
    ----------
    plan_area : array
        Plan area of the chamber, m2.
    head : array
        Difference of levels at the start, m, positive.
    culvert_area : array
        Open area of both culverts with the paddles up, m2.
    winding_time : array
        Time to wind the paddles up, s.

    Returns
    -------
    array
        Broadcast of the four arguments.
    """
    rate = draining_rate(plan_area, culvert_area)
    root = jnp.sqrt(head)
    level_early = root < 0.25 * rate * winding_time
    slow = 2.0 * jnp.sqrt(winding_time * root / rate)
    return jnp.where(level_early, slow, 2.0 * root / rate + 0.5 * winding_time)


@chamber_fill_time.defjvp
def _chamber_fill_time_jvp(primals, tangents):
    plan_area, head, culvert_area, winding_time = primals
    d_plan, d_head, d_culvert, d_winding = tangents
    seconds = chamber_fill_time(plan_area, head, culvert_area, winding_time)
    rate = draining_rate(plan_area, culvert_area)
    root = jnp.sqrt(head)
    level_early = root < 0.25 * rate * winding_time

    # logarithmic change of root / rate
    relative = 0.5 * d_head / head - d_culvert / culvert_area + d_plan / plan_area
    drained = jnp.where(level_early, 0.5 * seconds, 2.0 * root / rate)
    return seconds, drained * relative + 0.5 * d_winding


def lockage_minutes(site: LockSite, gate_seconds: float = 90.0):
    """Minutes for a boat through each lock of the site, gates included."""
    fill = chamber_fill_time(
        site.plan_area, site.head, site.culvert_area, site.winding_time
    )
    return (fill + 2.0 * gate_seconds) / 60.0


# ---------------------------------------------------------------------------
# side ponds
# ---------------------------------------------------------------------------


def _equalise(chamber_area, carry, pond):
    area, level = pond
    common = (chamber_area * carry + area * level) / (chamber_area + area)
    return common, (common, carry)


@jax.custom_vjp
def economise(chamber_area, chamber_level, ponds: Ponds) -> Tuple[jax.Array, jax.Array]:
    """Let the chamber down into the side ponds, one after another.

    Returns the level of every pond after its paddle has been dropped, ``[n]``,
    and the level at which the chamber is left.
    """
    last, (levels, _) = jax.lax.scan(
        partial(_equalise, chamber_area), chamber_level, tuple(ponds)
    )
    return levels, last


def _economise_fwd(chamber_area, chamber_level, ponds):
    last, (levels, before) = jax.lax.scan(
        partial(_equalise, chamber_area), chamber_level, tuple(ponds)
    )
    return (levels, last), (chamber_area, ponds, before, levels)


def _economise_bwd(saved, cotangents):
    chamber_area, ponds, before, levels = saved
    ct_levels, ct_last = cotangents

    def back(carry, row):
        ct_chamber, ct_area = carry
        area, level, start, common, ct_level = row
        total = ct_chamber + ct_level
        pooled = total / (chamber_area + area)
        carry = (pooled * chamber_area, ct_area + pooled * (start - common))
        return carry, (pooled * (level - common), pooled * area)

    (ct_start, ct_chamber_area), (ct_area, ct_level) = jax.lax.scan(
        back,
        (ct_last, jnp.zeros_like(chamber_area)),
        (ponds.area, ponds.level, before, levels, ct_levels),
        reverse=True,
    )
    return ct_chamber_area, ct_start, Ponds(ct_area, ct_level)


economise.defvjp(_economise_fwd, _economise_bwd)


def water_saved(chamber_area, chamber_level, ponds: Ponds):
    """Volume held back for the next boat going up, m3."""
    levels, _ = economise(chamber_area, chamber_level, ponds)
    return jnp.sum(ponds.area * (levels - ponds.level))


# ---------------------------------------------------------------------------
# traffic
# ---------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def boat_delay(rate, service, openings, lock_of, num_locks):
    """Mean hours each class of boats loses at its lock.

    Args:
        rate: boats per hour of each class, ``[b]``.
        service: hours one boat of the class occupies the lock, ``[b]``.
        openings: hours per hour that each lock is staffed, ``[num_locks]``.
        lock_of: int index of the lock the class passes, ``[b]``.
        num_locks: number of locks (python int).

    Returns:
        ``[b]`` service plus queueing, ``service * (1 + load / (openings - load))``
        with the load of a lock summed over all classes that pass it.
    """
    load = jax.ops.segment_sum(rate * service, lock_of, num_segments=num_locks)
    queue = load / (openings - load)
    return service * (1.0 + queue[lock_of])


def _boat_delay_fwd(rate, service, openings, lock_of, num_locks):
    load = jax.ops.segment_sum(rate * service, lock_of, num_segments=num_locks)
    spare = openings - load
    out = service * (1.0 + (load / spare)[lock_of])
    return out, (rate, service, openings, load, spare, lock_of)


def _boat_delay_bwd(num_locks, saved, ct):
    rate, service, openings, load, spare, lock_of = saved
    ct_queue = ct * service
    ct_load = ct_queue * (openings / jnp.square(spare))[lock_of]
    ct_rate = ct_load * service
    ct_service = ct * (1.0 + (load / spare)[lock_of]) + ct_load * rate
    ct_openings = jax.ops.segment_sum(
        -ct_queue * (load / jnp.square(spare))[lock_of],
        lock_of,
        num_segments=num_locks,
    )
    return ct_rate, ct_service, ct_openings, None


boat_delay.defvjp(_boat_delay_fwd, _boat_delay_bwd)


# ---------------------------------------------------------------------------
# mooring lines
# ---------------------------------------------------------------------------


def make_mooring(unit: float = 0.1):
    """Force law of lines that hang slack until the boat has drifted.

    ``unit`` is the stretch (m) at which the force equals the stiffness.
    """

    @jax.custom_gradient
    def line_force(stiffness, drift, slack, stiffening):
        # drift [boats, lines]; stiffness, slack [lines]; stiffening scalar >= 1
        stretch = (drift - slack) / unit
        taut = stretch > 0.0
        safe = jnp.where(taut, stretch, 1.0)
        power = jnp.where(taut, safe**stiffening, 0.0)
        force = stiffness * power

        def pullback(ct):
            slope = jnp.where(taut, stiffening * safe ** (stiffening - 1.0), 0.0)
            along = ct * stiffness * slope / unit
            return (
                _sum_to(ct * power, stiffness),
                _sum_to(along, drift),
                _sum_to(-along, slack),
                _sum_to(ct * force * jnp.log(safe), stiffening),
            )

        return force, pullback

    return line_force


class MooringPlan:
    """Two or more lines per boat, evaluated while the chamber fills."""

    def __init__(self, lines: int, unit: float = 0.1):
        self.lines = lines
        self.force = make_mooring(unit)

    def init(self) -> Dict[str, jax.Array]:
        return {
            "stiffness": jnp.full((self.lines,), 4.0e3),
            "slack": jnp.linspace(0.05, 0.15, self.lines),
            "stiffening": jnp.asarray(1.4),
        }

    def __call__(self, params, drift):
        lines = self.force(
            params["stiffness"], drift, params["slack"], params["stiffening"]
        )
        return jnp.sum(lines, axis=-1)


# ---------------------------------------------------------------------------


def demo_site(count: int = 5, seed: int = 3) -> LockSite:
    rng = np.random.default_rng(seed)
    area = chamber_plan(*BROAD_CHAMBER)
    return LockSite(
        plan_area=jnp.asarray(area * rng.uniform(0.95, 1.05, count)),
        head=jnp.asarray(rng.uniform(0.8, 3.2, count)),
        culvert_area=jnp.asarray(rng.uniform(0.3, 0.7, count)),
        winding_time=jnp.asarray(rng.uniform(40.0, 300.0, count)),
    )


def schedule_cost(site: LockSite, rate, openings, lock_of: List[int]):
    """Boat hours lost per hour on the flight."""
    index = jnp.asarray(lock_of)
    hours = lockage_minutes(site)[index] / 60.0
    delay = boat_delay(rate, hours, openings, index, openings.shape[0])
    return jnp.sum(rate * delay)


if __name__ == "__main__":
    site = demo_site()
    traffic = jnp.array([0.8, 0.5, 0.9, 0.4, 0.7, 0.3, 0.6])
    staffed = jnp.ones(5)
    print("minutes", lockage_minutes(site))
    print(
        "cost gradient",
        jax.grad(schedule_cost)(site, traffic, staffed, [0, 0, 1, 2, 3, 3, 4]),
    )
    ponds = Ponds(jnp.array([60.0, 60.0]), jnp.array([1.6, 0.8]))
    print("saved", water_saved(jnp.asarray(105.0), jnp.asarray(2.4), ponds))
    plan = MooringPlan(lines=3)
    print("pull", plan(plan.init(), jnp.linspace(0.0, 0.3, 6).reshape(2, 3)))
