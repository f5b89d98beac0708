"""Sale-lot building for greasy wool: blends of bales, comfort, strength discounts.

A classer builds sale lots out of tested bales.  Core tests give mean fibre
diameter (micron) and its coefficient of variation; the staple test gives
strength in newton per kilotex.  This module values a lot and lets an optimiser
move weight between bales: diameter and spread of the mixed lot, the comfort
factor of the mixture, and the price from the week's strength schedule.

Fibre diameter is a property of fibres, not of mass: a kilogram of finer wool
holds more fibre, and the mixed lot's mean is a mean over lengths of fibre.
With equal density the length of fibre in mass ``w`` of a bale with mean ``d``
and coefficient of variation ``c`` goes as ``w / (d^2 (1 + c^2))``.
"""
from __future__ import annotations

import dataclasses
import functools
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr

COMFORT_LIMIT = 30.0            # micron, fibres coarser than this prickle
MIN_LOT_MASS = 1e-9
STRENGTH_KNOTS = (18.0, 24.0, 28.0, 32.0, 36.0, 42.0)   # N/ktex
STYLES = ("choice", "superior", "spinners", "best_topmaking", "good_topmaking", "inferior")


# ----------------------------------------------------------------- blending

def make_blend(floor: float = MIN_LOT_MASS) -> Callable:
    """Build the blending function of a lot.

    ``floor`` is the least total length of fibre by which the lot is divided.
    """

    @jax.custom_gradient
    def blend(mass, diameter, cv):
        """Mean diameter and coefficient of variation of the mixed lot.

        mass: (..., bales) kg; diameter: (..., bales) micron; cv: (..., bales)
        as a fraction, usually 0.15 to 0.28.  Returns two arrays (...,).
        """
        spread = 1.0 + cv ** 2
        length = mass / (diameter ** 2 * spread)
        total = jnp.maximum(jnp.sum(length, axis=-1, keepdims=True), floor)
        mean = jnp.sum(length * diameter, axis=-1, keepdims=True) / total
        square = jnp.sum(length * diameter ** 2 * spread, axis=-1, keepdims=True) / total
        sd = jnp.sqrt(square - mean ** 2)

        def backward(cts):
            ct_mean, ct_cv = (ct[..., None] for ct in cts)
            # cv = sqrt(square - mean^2) / mean
            g_square = ct_cv / (2.0 * sd * mean)
            g_mean = ct_mean - ct_cv * (1.0 / sd + sd / mean ** 2)
            # both moments are means weighted by length
            second = diameter ** 2 * spread
            g_length = (g_mean * (diameter - mean) + g_square * (second - square)) / total
            share = length / total
            d_mass = g_length / second
            d_diameter = share * (g_mean + 2.0 * g_square * diameter * spread) \
                - 2.0 * g_length * length / diameter
            d_cv = share * g_square * 2.0 * diameter ** 2 * cv
            return d_mass, d_diameter, d_cv

        return (mean[..., 0], (sd / mean)[..., 0]), backward

    return blend


blend_lot = make_blend()


# ------------------------------------------------------------------ comfort

@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def comfort_factor(diameter, cv, limit=COMFORT_LIMIT):
    """Fraction of fibres finer than ``limit`` micron, diameters taken as normal."""
    return ndtr((limit - diameter) / (diameter * cv))


@comfort_factor.defjvp
def _comfort_factor_jvp(limit, primals, tangents):
    diameter, cv = primals
    d_diameter, d_cv = tangents
    z = (limit - diameter) / (diameter * cv)
    density = jnp.exp(-0.5 * z ** 2) / jnp.sqrt(2.0 * jnp.pi)
    slope = -limit / (diameter ** 2 * cv) * d_diameter - z / cv * d_cv
    return ndtr(z), density * slope


def spinning_fineness(diameter, cv):
    """Fineness at 24 per cent variation that spins alike (Martindale)."""
    return diameter * jnp.sqrt((1.0 + 5.0 * cv ** 2) / (1.0 + 5.0 * 0.24 ** 2))


# ----------------------------------------------------------------- schedule

@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def schedule_price(knots, table, style, strength):
    """Premium or discount in cents per kg from the strength schedule.

    The schedule is linear between its knots and flat beyond the first and the
    last of them.

    Args:
      knots: tuple of K increasing strengths, static.
      table: prices at the knots for every style, shape (styles, K).
      style: style number of each lot, integers of shape (lots,).
      strength: staple strength of each lot, shape (lots,).

    Returns:
      Cents per kg, shape (lots,).
    """
    price, _ = _schedule_fwd(knots, table, style, strength)
    return price


def _bracket(knots, strength):
    grid = jnp.asarray(knots, strength.dtype)
    low = jnp.clip(jnp.searchsorted(grid, strength, side="right") - 1, 0, len(knots) - 2)
    width = grid[low + 1] - grid[low]
    part = (strength - grid[low]) / width
    return low, width, part


def _schedule_fwd(knots, table, style, strength):
    low, width, part = _bracket(knots, strength)
    held = jnp.clip(part, 0.0, 1.0)
    left, right = table[style, low], table[style, low + 1]
    price = left + held * (right - left)
    moving = (part >= 0.0) & (part <= 1.0)
    slope = jnp.where(moving, (right - left) / width, 0.0)
    return price, (table.shape, style, low, held, slope)


def _schedule_bwd(knots, res, ct):
    shape, style, low, held, slope = res
    d_table = jnp.zeros(shape, ct.dtype)
    d_table = d_table.at[style, low].add(ct * (1.0 - held))
    d_table = d_table.at[style, low + 1].add(ct * held)
    return d_table, None, ct * slope


schedule_price.defvjp(_schedule_fwd, _schedule_bwd)


# -------------------------------------------------------------- lot builder

@dataclasses.dataclass(frozen=True)
class Bale:
    mass: float
    diameter: float
    cv: float
    strength: float
    style: str = "spinners"


@dataclasses.dataclass
class WeekSchedule:
    """Prices quoted for the week.

    Attributes
    ----------
    base : price at 21 micron in cents per kg clean
    per_micron : cents per kg lost for each micron above 21
    table : strength schedule, (styles, knots)
    prickle_discount : cents per kg lost at a comfort factor of zero
    """

    base: float
    per_micron: float
    table: jax.Array
    prickle_discount: float = 900.0
    knots: Tuple[float, ...] = STRENGTH_KNOTS

    @classmethod
    def example(cls) -> "WeekSchedule":
        ramp = jnp.array([-160.0, -85.0, -40.0, 0.0, 22.0, 35.0])
        drop = jnp.array([1.0, 1.0, 1.1, 1.25, 1.4, 1.7])
        return cls(base=1250.0, per_micron=55.0, table=drop[:, None] * ramp)


def pack(bales: Sequence[Bale]) -> Dict[str, jax.Array]:
    """Column arrays of a list of bales."""
    return {
        "mass": jnp.array([b.mass for b in bales]),
        "diameter": jnp.array([b.diameter for b in bales]),
        "cv": jnp.array([b.cv for b in bales]),
        "strength": jnp.array([b.strength for b in bales]),
        "style": jnp.array([STYLES.index(b.style) for b in bales], dtype=jnp.int32),
    }


class LotBuilder:
    """Splits bales over lots so that the clip earns the most.

    The split is a softmax over lots for each bale, so that a bale may be
    divided; ``round_split`` settles the halves at the end.
    """

    def __init__(self, schedule: WeekSchedule, lots: int = 2,
                 blend: Optional[Callable] = None):
        self.schedule = schedule
        self.lots = lots
        self.blend = blend or blend_lot

    def init(self, n_bales: int, key: jax.Array) -> jax.Array:
        return 0.1 * jax.random.normal(key, (self.lots, n_bales))

    def measures(self, logits: jax.Array, columns: Dict[str, jax.Array]):
        part = jax.nn.softmax(logits, axis=0)
        mass = part * columns["mass"]
        wide = [jnp.broadcast_to(columns[k], mass.shape) for k in ("diameter", "cv")]
        mean, cv = self.blend(mass, *wide)
        weight = jnp.sum(mass, axis=-1)
        strength = jnp.sum(mass * columns["strength"], axis=-1) / weight
        return mean, cv, strength, weight

    def proceeds(self, logits, columns, lot_style):
        """Earnings of the clip in dollars."""
        week = self.schedule
        mean, cv, strength, weight = self.measures(logits, columns)
        comfort = comfort_factor(mean, cv)
        price = week.base - week.per_micron * (mean - 21.0) \
            + schedule_price(week.knots, week.table, lot_style, strength) \
            - week.prickle_discount * (1.0 - comfort)
        return jnp.sum(price * weight) / 100.0

    def improve(self, logits, columns, lot_style, steps: int = 25, rate: float = 1e-3):
        climb = jax.jit(jax.grad(self.proceeds))
        for _ in range(steps):
            logits = logits + rate * climb(logits, columns, lot_style)
        return logits

    @staticmethod
    def round_split(logits) -> List[int]:
        return [int(i) for i in jnp.argmax(logits, axis=0)]


def schedule_fit(table, knots, style, strength, paid, steps: int = 40, rate: float = 0.3):
    """Least-squares update of the schedule table from prices paid at the sale."""
    def misfit(t):
        return jnp.mean((schedule_price(knots, t, style, strength) - paid) ** 2)

    for _ in range(steps):
        table = table - rate * jax.grad(misfit)(table)
    return table


if __name__ == "__main__":
    clip = [Bale(178.0, 19.2, 0.20, 34.0), Bale(181.0, 20.4, 0.22, 29.0),
            Bale(176.0, 22.8, 0.24, 38.0), Bale(183.0, 25.1, 0.26, 31.0)]
    cols = pack(clip)
    builder = LotBuilder(WeekSchedule.example())
    style = jnp.array([2, 3])
    start = builder.init(len(clip), jax.random.PRNGKey(0))
    end = builder.improve(start, cols, style)
    print("before", builder.proceeds(start, cols, style))
    print("after ", builder.proceeds(end, cols, style), builder.round_split(end))
