"""Bench tuning of recurve and longbows.

The workshop measures a bow on a draw board (force at a handful of stations),
weighs the arrows and shoots through a pair of light gates.  This module holds
the forward models we fit to those measurements:

* the work done on the string up to a given draw length,
* launch speed from stored energy and the virtual mass of the limbs,
* balance of a finished arrow (FOC),
* a drag-limited flight with a fixed time step.

Archers are vectorised along the leading axis.  Draw lengths and stations are
inches and draw forces are pounds, as on the draw board; the conversion to SI
happens in :class:`BowSheet`.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

GRAVITY = 9.80665
INCH = 0.0254
POUND_FORCE = 4.44822
GRAIN = 6.479891e-5
AIR_DENSITY = 1.204

#: Draw board stations of the club jig.  The first is the brace height.
CLUB_STATIONS = (8.0, 12.0, 16.0, 20.0, 24.0, 26.0, 28.0)


class ArrowBuild(NamedTuple):
    """Everything that goes on the scale, in grains; lengths in inches."""

    length: jax.Array
    point: jax.Array
    shaft_per_inch: jax.Array
    fletching: jax.Array
    fletching_position: jax.Array


class BowParams(NamedTuple):
    forces: jax.Array        # (stations,) pounds
    virtual_mass: jax.Array  # (bows,) grains
    efficiency_logit: jax.Array


def _fit_shape(cotangent, shape):
    """Sum a broadcast cotangent back to `shape`."""
    lead = cotangent.ndim - len(shape)
    if lead:
        cotangent = cotangent.sum(axis=tuple(range(lead)))
    stretched = tuple(
        i for i, n in enumerate(shape) if n == 1 and cotangent.shape[i] != 1
    )
    if stretched:
        cotangent = cotangent.sum(axis=stretched, keepdims=True)
    return cotangent


# ---------------------------------------------------------------------------
# Draw force curve
# ---------------------------------------------------------------------------

def _segment_fractions(draw, stations):
    knots = jnp.asarray(stations, dtype=draw.dtype)
    widths = jnp.diff(knots)
    t = jnp.clip((draw[:, None] - knots[:-1]) / widths, 0.0, 1.0)
    return knots, widths, t


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def stored_energy(draw, forces, stations):
    """Area under the draw force curve from brace height to full draw.

    The curve is linear between stations.  Some archers draw past the last
    station of the jig; the last measured force is carried on there.  A draw
    short of the brace height stores nothing.

    Parameters
    ----------
    draw : (archers,) array
        Draw length in inches.
    forces : (stations,) array
        Holding force at each station, pounds.
    stations : tuple of float
        Positions of the stations, ascending.

    Returns
    -------
    (archers,) array of inch-pounds.
    """
    knots, widths, t = _segment_fractions(draw, stations)
    left, right = forces[:-1], forces[1:]
    areas = widths * (left * (t - 0.5 * t * t) + right * 0.5 * t * t)
    overdraw = jnp.maximum(draw - knots[-1], 0.0)
    return areas.sum(axis=1) + overdraw * forces[-1]


def _stored_energy_fwd(draw, forces, stations):
    return stored_energy(draw, forces, stations), (draw, forces)


def _stored_energy_bwd(stations, saved, g):
    draw, forces = saved
    knots, widths, t = _segment_fractions(draw, stations)
    holding = jnp.where(draw > knots[0], jnp.interp(draw, knots, forces), 0.0)

    rising = 0.5 * t * t * widths
    falling = t * widths - rising
    d_forces = jnp.zeros_like(forces)
    d_forces = d_forces.at[:-1].add(g @ falling)
    d_forces = d_forces.at[1:].add(g @ rising)
    return g * holding, d_forces


stored_energy.defvjp(_stored_energy_fwd, _stored_energy_bwd)


# ---------------------------------------------------------------------------
# Launch
# ---------------------------------------------------------------------------

@jax.custom_gradient
def launch_speed(energy, arrow_mass, virtual_mass):
    """Speed at string release, v = sqrt(2 E / (m + K)).

    The arguments broadcast, so a column of bows against a row of arrows gives
    the full table in one call.  Energies in joules, masses in kilograms.
    """
    moving = arrow_mass + virtual_mass
    speed = jnp.sqrt(2.0 * energy / moving)

    def pull_back(g):
        d_energy = g / (speed * moving)
        d_mass = -0.5 * g * speed / moving
        return (
            _fit_shape(d_energy, jnp.shape(energy)),
            _fit_shape(d_mass, jnp.shape(arrow_mass)),
            _fit_shape(d_mass, jnp.shape(virtual_mass)),
        )

    return speed, pull_back


# ---------------------------------------------------------------------------
# Balance of the finished arrow
# ---------------------------------------------------------------------------

def _moments(length, point, shaft, fletching, position):
    total = point + shaft * length + fletching
    moment = point * length + 0.5 * shaft * length**2 + fletching * position
    return total, moment


@jax.custom_jvp
def front_of_centre(length, point, shaft, fletching, position):
    """Front-of-centre balance in percent of arrow length.

    Args:
      length: nock groove to end of shaft, inches.
      point: point plus insert, grains.
      shaft: shaft weight in grains per inch.
      fletching: weight of vanes and wrap, grains; 0.0 when bare-shafting.
      position: centre of the vanes measured from the nock, inches.

    Returns:
      100 * (balance / length - 1/2).
    """
    total, moment = _moments(length, point, shaft, fletching, position)
    return 100.0 * (moment / (total * length) - 0.5)


def _foc_length(dot, foc, length, point, shaft, fletching, position):
    total = point + shaft * length + fletching
    ahead = point * length + 0.5 * shaft * length**2
    balance = ahead / total
    d_balance = (point + shaft * length - shaft * balance) / total
    return 100.0 * dot * (d_balance - balance / length) / length


def _foc_point(dot, foc, length, point, shaft, fletching, position):
    total, moment = _moments(length, point, shaft, fletching, position)
    return 100.0 * dot * (length - moment / total) / (total * length)


def _foc_shaft(dot, foc, length, point, shaft, fletching, position):
    total, moment = _moments(length, point, shaft, fletching, position)
    arm = 0.5 * length - moment / total
    return 100.0 * dot * arm / total


def _foc_fletching(dot, foc, length, point, shaft, fletching, position):
    total, moment = _moments(length, point, shaft, fletching, position)
    return 100.0 * dot * (position - moment / total) / (total * length)


def _foc_position(dot, foc, length, point, shaft, fletching, position):
    total, _ = _moments(length, point, shaft, fletching, position)
    return 100.0 * dot * fletching / (total * length)


front_of_centre.defjvps(
    _foc_length, _foc_point, _foc_shaft, _foc_fletching, _foc_position
)


# ---------------------------------------------------------------------------
# Flight
# ---------------------------------------------------------------------------

def _drag_acceleration(vx, vy, drag):
    speed = jnp.sqrt(vx * vx + vy * vy)
    return -drag * speed * vx, -GRAVITY - drag * speed * vy, speed


def _fly(speed, elevation, drag, steps, dt):
    start = (
        jnp.zeros_like(speed),
        jnp.zeros_like(speed),
        speed * jnp.cos(elevation),
        speed * jnp.sin(elevation),
    )

    def advance(state, _):
        x, y, vx, vy = state
        ax, ay, _ = _drag_acceleration(vx, vy, drag)
        nvx, nvy = vx + dt * ax, vy + dt * ay
        new = (x + dt * nvx, y + dt * nvy, nvx, nvy)
        return new, (new[0], new[1], vx, vy)

    _, (xs, ys, old_vx, old_vy) = jax.lax.scan(advance, start, None, length=steps)
    return xs, ys, old_vx, old_vy


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def arrow_flight(speed, elevation, drag, steps, dt):
    """March arrows down range with quadratic drag.

    speed, elevation and drag have one entry per arrow; drag is
    rho Cd A / (2 m) in 1/m.  Returns two (steps, arrows) tables, distance and
    height relative to the nock, after each step of `dt` seconds.
    """
    xs, ys, _, _ = _fly(speed, elevation, drag, steps, dt)
    return xs, ys


def _arrow_flight_fwd(speed, elevation, drag, steps, dt):
    xs, ys, old_vx, old_vy = _fly(speed, elevation, drag, steps, dt)
    return (xs, ys), (speed, elevation, drag, old_vx, old_vy)


def _arrow_flight_bwd(steps, dt, saved, cotangents):
    speed, elevation, drag, old_vx, old_vy = saved
    gx, gy = cotangents

    def retreat(carry, inputs):
        lx, ly, lvx, lvy, d_drag = carry
        gx_t, gy_t, vx, vy = inputs
        lx, ly = lx + gx_t, ly + gy_t
        # The position update uses the new velocity.
        lvx, lvy = lvx + dt * lx, lvy + dt * ly
        s = jnp.maximum(jnp.sqrt(vx * vx + vy * vy), 1e-9)
        along = vx * lvx + vy * lvy
        d_drag = d_drag - dt * s * along
        pull = dt * drag
        new_lvx = lvx - pull * (s * lvx + along * vx / s)
        new_lvy = lvy - pull * (s * lvy + along * vy / s)
        return (lx, ly, new_lvx, new_lvy, d_drag), None

    zero = jnp.zeros_like(speed)
    (_, _, lvx, lvy, d_drag), _ = jax.lax.scan(
        retreat, (zero,) * 5, (gx, gy, old_vx, old_vy), reverse=True
    )
    c, s = jnp.cos(elevation), jnp.sin(elevation)
    return lvx * c + lvy * s, speed * (lvy * c - lvx * s), d_drag


arrow_flight.defvjp(_arrow_flight_fwd, _arrow_flight_bwd)


# ---------------------------------------------------------------------------
# Fitting sheet
# ---------------------------------------------------------------------------

class BowSheet:
    """One bow on the bench together with the archers who shoot it."""

    def __init__(self, stations=CLUB_STATIONS, dt=0.01, steps=60):
        self.stations = tuple(float(s) for s in stations)
        self.dt = dt
        self.steps = steps

    def initial(self, peak=38.0):
        ramp = jnp.linspace(0.0, 1.0, len(self.stations))
        return BowParams(
            forces=peak * ramp**0.8,
            virtual_mass=jnp.array([80.0]),
            efficiency_logit=jnp.array(1.6),
        )

    def gate_speed(self, params, draw, arrow_grains):
        """Speeds in m/s for every archer (rows) and arrow (columns)."""
        work = stored_energy(draw, params.forces, self.stations)
        joules = work * INCH * POUND_FORCE * jax.nn.sigmoid(params.efficiency_logit)
        return launch_speed(
            joules[:, None], arrow_grains[None, :] * GRAIN, params.virtual_mass * GRAIN
        )

    def gate_misfit(self, params, draw, arrow_grains, observed):
        residual = self.gate_speed(params, draw, arrow_grains) - observed
        return jnp.mean(residual**2)

    def drop_at(self, speed, elevation, drag, distance):
        """Height when each arrow passes `distance` metres."""
        xs, ys = arrow_flight(speed, elevation, drag, self.steps, self.dt)
        return jax.vmap(lambda x, y: jnp.interp(distance, x, y), in_axes=1)(xs, ys)

    def balance_misfit(self, build: ArrowBuild, wanted):
        foc = front_of_centre(*build)
        return jnp.mean((foc - wanted) ** 2)


def drag_constant(diameter, mass, coefficient=2.0):
    """rho Cd A / 2m for a shaft of the given diameter (m) and mass (kg)."""
    area = 0.25 * jnp.pi * diameter**2
    return 0.5 * AIR_DENSITY * coefficient * area / mass


if __name__ == "__main__":
    sheet = BowSheet()
    params = sheet.initial()
    draw = jnp.array([26.5, 27.75, 29.25])
    arrows = jnp.array([320.0, 385.0])
    table = sheet.gate_speed(params, draw, arrows)
    print("gate speeds", table)
    print(jax.grad(sheet.gate_misfit)(params, draw, arrows, table * 1.02))
    build = ArrowBuild(
        length=jnp.array([28.5, 29.25, 30.0]),
        point=jnp.array([120.0, 100.0, 140.0]),
        shaft_per_inch=jnp.array([7.3, 8.5, 6.9]),
        fletching=jnp.array([24.0, 18.0, 30.0]),
        fletching_position=jnp.array([2.2, 2.0, 2.6]),
    )
    print("FOC", front_of_centre(*build))
    print(jax.grad(sheet.balance_misfit)(build, 12.0))
