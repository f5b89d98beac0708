"""Water clocks: draining vessels, cascades of tanks and the float that reads them.

Three constructions are covered.

* The Egyptian outflow vessel. The wall is a power of the height, so that the
  time to empty is a closed form; with exponent one quarter the level sinks
  uniformly.
* The Chinese cascade after Yan Su and Su Song: tanks one below another, each
  feeding the next through a jade spout, integrated with explicit steps.
* The float, its cord around a drum that carries the hand.

The makers' tables are fitted with gradient descent on spout coefficients, tank
areas and drum radii.

Units: cm, s, rad.
"""

import dataclasses
import functools
import math
from typing import Callable, Dict, Optional

import jax
import jax.numpy as jnp
import numpy as np

GRAVITY = 981.0
DISCHARGE = 0.62
LEVEL_FLOOR = 1e-6
UNIFORM_TAPER = 0.25
DOUBLE_HOUR = 7200.0
JET_SPEED = math.sqrt(2.0 * GRAVITY)


# ---------------------------------------------------------------------------
# outflow vessel
# ---------------------------------------------------------------------------


@jax.custom_jvp
def drain_time(level, taper, orifice, rim_radius, depth):
    """Seconds until a vessel filled to ``level`` (> 0) has run empty.

    The wall is ``r(h) = rim_radius * (h / depth) ** taper`` and the hole has
    area ``orifice``. Everything broadcasts elementwise.
    """
    power = 2.0 * taper + 0.5
    rim = math.pi * rim_radius ** 2
    fill = (level / depth) ** (2.0 * taper) * jnp.sqrt(level)
    return rim * fill / (power * DISCHARGE * orifice * JET_SPEED)


drain_time.defjvps(
    lambda t, ans, level, taper, orifice, rim_radius, depth:
        t * ans * (2.0 * taper + 0.5) / level,
    lambda t, ans, level, taper, orifice, rim_radius, depth:
        t * ans * (2.0 * jnp.log(level / depth) - 2.0 / (2.0 * taper + 0.5)),
    lambda t, ans, level, taper, orifice, rim_radius, depth:
        -t * ans / orifice,
    lambda t, ans, level, taper, orifice, rim_radius, depth:
        2.0 * t * ans / rim_radius,
    lambda t, ans, level, taper, orifice, rim_radius, depth:
        -2.0 * taper * t * ans / depth,
)


def hour_marks(taper, orifice, rim_radius, depth, count=12):
    """Times at which the level passes ``count`` equally spaced marks."""
    marks = depth * jnp.arange(1, count + 1) / count
    full = drain_time(depth, taper, orifice, rim_radius, depth)
    broad = lambda x: jnp.broadcast_to(x, marks.shape)
    left = drain_time(marks, broad(taper), broad(orifice), broad(rim_radius),
                      broad(depth))
    return full - left


# ---------------------------------------------------------------------------
# cascade
# ---------------------------------------------------------------------------


def _spouts(levels, coef):
    return coef * jnp.sqrt(jnp.maximum(levels, LEVEL_FLOOR))


def _cascade_step(levels, supply, coef, area, dt):
    out = _spouts(levels, coef)
    feed = jnp.concatenate([supply[None], out[:-1]])
    return levels + dt * (feed - out) / area


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def cascade_levels(supply, coef, area, start, dt):
    """Levels of a row of tanks, each running into the next.

    Parameters
    ----------
    supply : array, shape (steps,)
        Water poured in the uppermost tank, cm^3/s.
    coef : array, shape (tanks,)
        Spout coefficients; a tank at level h lets out ``coef * sqrt(h)``.
    area : array, shape (tanks,)
        Horizontal area of every tank.
    start : array, shape (tanks,)
        Levels at the beginning.
    dt : float
        Step, static.

    Returns
    -------
    array, shape (steps, tanks)
    """

    def body(levels, s):
        nxt = _cascade_step(levels, s, coef, area, dt)
        return nxt, nxt

    _, trace = jax.lax.scan(body, start, supply)
    return trace


def _cascade_fwd(supply, coef, area, start, dt):
    trace = cascade_levels(supply, coef, area, start, dt)
    before = jnp.concatenate([start[None], trace[:-1]], axis=0)
    return trace, (supply, coef, area, before)


def _cascade_bwd(dt, res, g):
    supply, coef, area, before = res

    def body(carry, inputs):
        lam, g_coef, g_area = carry
        g_t, s, levels = inputs
        lam = lam + g_t
        wet = jnp.maximum(levels, LEVEL_FLOOR)
        root = jnp.sqrt(wet)
        out = coef * root
        feed = jnp.concatenate([s[None], out[:-1]])

        pushed = lam * dt
        below = jnp.concatenate([pushed[1:], jnp.zeros(1, pushed.dtype)])
        g_out = (below - pushed) / area

        g_coef = g_coef + g_out * root
        g_area = g_area - pushed * (feed - out) / area ** 2
        slope = jnp.where(levels > LEVEL_FLOOR, 0.5 * coef / root, 0.0)
        return (lam + g_out * slope, g_coef, g_area), pushed[0] / area[0]

    zero = jnp.zeros_like(coef)
    (g_start, g_coef, g_area), g_supply = jax.lax.scan(
        body, (zero, zero, zero), (g, supply, before), reverse=True)
    return g_supply, g_coef, g_area, g_start


cascade_levels.defvjp(_cascade_fwd, _cascade_bwd)


# ---------------------------------------------------------------------------
# float and hand
# ---------------------------------------------------------------------------


def make_float_hand(rest: float, travel: float, gearing: float = 1.0) -> Callable:
    """Build the reading of a float with end stops.

    Args:
        rest: level below which the float sits on its lower stop.
        travel: rise after which it meets the upper stop.
        gearing: turns of the hand per turn of the drum.

    Returns:
        ``hand_angle(levels, drum_radius)``: levels of any shape, scalar radius.
    """

    @jax.custom_gradient
    def hand_angle(levels, drum_radius):
        # The stops are straight-through for the levels on purpose: a float that
        # sits on a stop still has to pull on the fit, so its level receives the
        # gradient of the free float. The radius sees the stopped rise.
        rise = jnp.clip(levels - rest, 0.0, travel)
        angle = gearing * rise / drum_radius

        def pull(g):
            g_levels = gearing * g / drum_radius
            g_radius = -jnp.sum(g * angle) / drum_radius
            return g_levels, g_radius

        return angle, pull

    return hand_angle


# ---------------------------------------------------------------------------
# workshop
# ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ClockPlan:
    tanks: int = 3
    dt: float = 20.0
    rest: float = 4.0
    travel: float = 60.0
    gearing: float = 1.0
    tank_area: float = 2500.0
    spout: float = 1.4


class CascadeClock:
    """A cascade ending in the float chamber.

    The float chamber is the last tank of the row; its spout is plugged (a
    small coefficient stands for seepage).
    """

    def __init__(self, plan: Optional[ClockPlan] = None):
        self.plan = plan or ClockPlan()
        self._hand = make_float_hand(self.plan.rest, self.plan.travel,
                                     self.plan.gearing)

    def init(self) -> Dict[str, jnp.ndarray]:
        n = self.plan.tanks
        coef = np.full(n, self.plan.spout)
        coef[-1] = 1e-2
        return {
            "coef": jnp.asarray(coef),
            "area": jnp.full(n, self.plan.tank_area),
            "start": jnp.asarray(np.r_[np.full(n - 1, 40.0), 5.0]),
            "drum": jnp.asarray(9.0),
        }

    def levels(self, params, supply):
        return cascade_levels(supply, params["coef"], params["area"],
                              params["start"], self.plan.dt)

    def reading(self, params, supply):
        """Angle of the hand after each step."""
        return self._hand(self.levels(params, supply)[:, -1], params["drum"])

    def error(self, params, supply, angle_per_second):
        steps = jnp.arange(1, supply.shape[0] + 1) * self.plan.dt
        origin = self._hand(params["start"][-1], params["drum"])
        return jnp.mean((self.reading(params, supply) - origin
                         - angle_per_second * steps) ** 2)

    def regulate(self, params, supply, angle_per_second, rounds=30, rate=1e-3):
        """Scaled descent on all parameters."""
        grad = jax.jit(jax.value_and_grad(self.error))
        value = None
        for _ in range(rounds):
            value, g = grad(params, supply, angle_per_second)
            params = jax.tree_util.tree_map(
                lambda p, d: p * (1.0 - rate * jnp.tanh(p * d)), params, g)
        return params, value


def even_vessel(depth=36.0, hours=6.0, rim_radius=20.0):
    """Orifice with which a uniform-sinking vessel lasts ``hours`` hours."""
    probe = drain_time(depth, UNIFORM_TAPER, 1.0, rim_radius, depth)
    return probe / (hours * DOUBLE_HOUR / 2.0)


def fit_taper(times, depth, orifice, rim_radius, rounds=200, rate=1e-3):
    """Recover the taper of a vessel from observed passages of its marks."""

    def loss(taper):
        model = hour_marks(taper, orifice, rim_radius, depth, times.shape[0])
        return jnp.mean(((model - times) / times[-1]) ** 2)

    taper = jnp.asarray(0.4)
    for _ in range(rounds):
        taper = taper - rate * jax.grad(loss)(taper)
    return taper


if __name__ == "__main__":
    clock = CascadeClock()
    water = jnp.full(120, 9.0)
    tuned, residual = clock.regulate(clock.init(), water, 4e-4)
    print("residual", float(residual))
    print({k: np.asarray(v).round(3) for k, v in tuned.items()})
    hole = even_vessel()
    print("hole", float(hole), "marks", hour_marks(0.25, hole, 20.0, 36.0)[:4])
