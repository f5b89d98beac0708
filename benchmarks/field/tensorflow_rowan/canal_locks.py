"""Hydraulics and water budget of a lock-operated navigation canal.

The module supports calibration of a canal simulator against gauge boards and
paddle logs.  Four quantities carry hand-written derivatives because they sit in
the inner loop of the calibration:

* the level of every pound between the summit and the river, stepped over the day;
* the discharge through gate and ground paddles, drowned or free;
* seepage through the bed, by lining class;
* the squat and return current of a loaded boat (Schijf's relation).

Units are metres, seconds and cubic metres unless said otherwise.  Pounds are
numbered from the summit down, so pound ``p`` feeds pound ``p + 1``.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

import numpy as np
import tensorflow as tf

GRAVITY = 9.81
#: discharge coefficient of a ground paddle with a rounded culvert entry
DISCHARGE_COEFFICIENT = 0.62
#: heads below this many metres are blended into a linear law
HEAD_BLEND = 5.0e-3
#: weir law exponent for the by-wash crest
BYWASH_EXPONENT = 1.5
NEWTON_SWEEPS = 14
#: fraction of the limiting speed at which a steerer gives up
PRACTICAL_SPEED_SHARE = 0.92
SECONDS_PER_DAY = 86400.0

LINING_CLASSES = ("puddle_clay", "concrete", "sheet_pile", "rock_cutting")
#: m/s of seepage per metre of wetted perimeter, by lining class
TYPICAL_PERMEABILITY = np.array([2.3e-8, 4.0e-9, 1.1e-8, 6.5e-8])


class BywashState(NamedTuple):
    """Calibrated properties of the by-washes, one entry per pound."""

    crest: tf.Tensor
    coefficient: tf.Tensor


def _sum_to(value, like):
    """Reduce ``value`` over the axes along which ``like`` was broadcast."""
    extra = value.shape.rank - like.shape.rank
    if extra:
        value = tf.reduce_sum(value, axis=list(range(extra)))
    kept = [i for i, n in enumerate(like.shape) if n == 1 and value.shape[i] != 1]
    if kept:
        value = tf.reduce_sum(value, axis=kept, keepdims=True)
    return value


def _shift_down(volumes):
    """Volumes leaving pound p, as received by pound p + 1 (last axis)."""
    return tf.concat([tf.zeros_like(volumes[..., :1]), volumes[..., :-1]], axis=-1)


def _shift_up(volumes):
    return tf.concat([volumes[..., 1:], tf.zeros_like(volumes[..., :1])], axis=-1)


# ---------------------------------------------------------------------------
# pounds
# ---------------------------------------------------------------------------
@tf.custom_gradient
def pound_levels(start, feed, lockage, bywash):
    """Step the levels of a flight of pounds through the day.

    Parameters
    ----------
    start : tensor, (days, pounds)
        Level on the gauge board at midnight.
    feed : tensor, (steps, days, pounds)
        Rise from feeders during each step.
    lockage : tensor, (steps, days, pounds)
        Fall of pound p by boats locking down out of it.  The same depth enters
        the pound below.
    bywash : BywashState
        Crest level and coefficient, each (pounds,).

    Returns
    -------
    tensor, (steps, days, pounds)
        Level at the end of every step.  Water above the crest runs round the
        lock into the next pound at ``coefficient * (level - crest) ** 1.5`` per
        step; what leaves the last pound goes to the river.
    """
    feeds = tf.unstack(feed, axis=0)
    lockages = tf.unstack(lockage, axis=0)

    level = start
    history = []
    for rise, fall in zip(feeds, lockages):
        over = tf.nn.relu(level - bywash.crest)
        spill = bywash.coefficient * over**BYWASH_EXPONENT
        level = level + rise + _shift_down(spill + fall) - spill - fall
        history.append(level)

    def grad(upstream):
        pending = tf.unstack(upstream, axis=0)
        carry = tf.zeros_like(start)
        crest_bar = tf.zeros_like(bywash.crest)
        coefficient_bar = tf.zeros_like(bywash.coefficient)
        feed_bar, lockage_bar = [], []
        for step in reversed(range(len(history))):
            carry = carry + pending[step]
            moved = _shift_up(carry) - carry
            feed_bar.append(carry)
            lockage_bar.append(moved)
            over = tf.nn.relu(history[step] - bywash.crest)
            slope = BYWASH_EXPONENT * bywash.coefficient * tf.sqrt(over)
            coefficient_bar += _sum_to(moved * over**BYWASH_EXPONENT, bywash.coefficient)
            crest_bar -= _sum_to(moved * slope, bywash.crest)
            carry = carry + slope * moved
        return (
            carry,
            tf.stack(feed_bar[::-1], axis=0),
            tf.stack(lockage_bar[::-1], axis=0),
            BywashState(crest_bar, coefficient_bar),
        )

    return tf.stack(history, axis=0), grad


# ---------------------------------------------------------------------------
# paddles
# ---------------------------------------------------------------------------
@tf.custom_gradient
def paddle_discharge(upper, lower, sill, opening):
    """Discharge through open paddles.

    ``upper`` and ``lower`` are water levels on both sides, (records, paddles).
    ``sill`` is the level of the culvert outfall and ``opening`` the open area in
    m2, both (paddles,).  While the tail water stands below the outfall the jet
    is free and the outfall sets the head; otherwise the tail water does.  The
    square-root law is blended to a line within ``HEAD_BLEND`` of zero head and
    is odd, so reversed heads give negative discharge.
    """
    tail = tf.maximum(lower, sill)
    head = upper - tail
    soft = head * head + HEAD_BLEND**2
    velocity = math.sqrt(2.0 * GRAVITY) * head * soft**-0.25
    flow = DISCHARGE_COEFFICIENT * opening * velocity

    def grad(upstream):
        steep = soft**-0.25 - 0.5 * head * head * soft**-1.25
        per_head = DISCHARGE_COEFFICIENT * math.sqrt(2.0 * GRAVITY) * opening * steep
        head_bar = upstream * per_head
        opening_bar = _sum_to(upstream * DISCHARGE_COEFFICIENT * velocity, opening)
        return head_bar, -head_bar, tf.zeros_like(sill), opening_bar

    return flow, grad


# ---------------------------------------------------------------------------
# seepage
# ---------------------------------------------------------------------------
class SeepageModel:
    """Seepage from the bed and banks of surveyed reaches.

    Args:
        lining: integer code per reach, indexing ``LINING_CLASSES``; -1 where no
            survey exists, in which case the mean of all classes is used.
        lengths: reach lengths in metres.
    """

    def __init__(self, lining: Sequence[int], lengths: Sequence[float]):
        self.lining = np.asarray(lining, np.int32)
        self.lengths = np.asarray(lengths)
        self.num_classes = len(LINING_CLASSES)
        if self.lining.shape != self.lengths.shape:
            raise ValueError("one lining code per reach is needed")
        self.daily_loss = self._build()

    def _build(self):
        lining = tf.constant(self.lining)
        unknown = tf.constant(self.lining < 0)
        lengths, num_classes = self.lengths, self.num_classes

        @tf.custom_gradient
        def daily_loss(permeability, depth, bed_width, side_slope):
            # permeability (classes,), depth (seasons, reaches), rest (reaches,)
            span = tf.constant(lengths, depth.dtype) * SECONDS_PER_DAY
            surveyed = tf.gather(permeability, tf.maximum(lining, 0))
            rate = tf.where(unknown, tf.reduce_mean(permeability), surveyed)
            flare = tf.sqrt(1.0 + side_slope * side_slope)
            wet = tf.nn.relu(depth)
            perimeter = bed_width + 2.0 * wet * flare
            loss = rate * span * perimeter

            def grad(upstream):
                rate_bar = tf.reduce_sum(upstream * perimeter * span, axis=0)
                by_class = tf.math.unsorted_segment_sum(rate_bar, lining, num_classes)
                orphan = tf.reduce_sum(tf.where(unknown, rate_bar, tf.zeros_like(rate_bar)))
                perimeter_bar = upstream * rate * span
                depth_bar = tf.where(depth > 0.0, 2.0 * perimeter_bar * flare, 0.0)
                flare_bar = tf.reduce_sum(2.0 * perimeter_bar * wet, axis=0)
                return (
                    by_class + orphan / num_classes,
                    depth_bar,
                    tf.reduce_sum(perimeter_bar, axis=0),
                    flare_bar * side_slope / flare,
                )

            return loss, grad

        return daily_loss

    def __call__(self, permeability, depth, bed_width, side_slope):
        return self.daily_loss(permeability, depth, bed_width, side_slope)


# ---------------------------------------------------------------------------
# boats
# ---------------------------------------------------------------------------
def limiting_speed(section, midship, surface_width):
    """Schijf's limiting speed of a boat in a channel, m/s."""
    free = 1.0 - midship / section
    froude = (2.0 * tf.sin(tf.asin(free) / 3.0)) ** 1.5
    return froude * tf.sqrt(GRAVITY * section / surface_width)


@tf.custom_gradient
def boat_squat(speed, section, midship, surface_width):
    """Water-level depression and return current beside a moving boat.

    All four inputs are float tensors of one shape ``(...)``: speed in m/s below
    the limiting speed, canal section in m2 (about 15 to 40), immersed midship
    section in m2 (2 to 5) and canal surface width in m (9 to 18).

    Returns the pair (depression in m, return current in m/s).  The depression
    is the lower root of the energy balance

        V^2 [(A / (A - m - B z))^2 - 1] = 2 g z.
    """
    drop = tf.zeros_like(speed)
    for _ in range(NEWTON_SWEEPS):
        clear = section - midship - surface_width * drop
        balance = speed**2 * ((section / clear) ** 2 - 1.0) - 2.0 * GRAVITY * drop
        tangent = 2.0 * speed**2 * section**2 * surface_width / clear**3 - 2.0 * GRAVITY
        drop = drop - balance / tangent
    clear = section - midship - surface_width * drop
    current = speed * (section / clear - 1.0)

    def grad(drop_bar, current_bar):
        squeeze = section / clear**2
        cube = 2.0 * section**2 / clear**3
        tangent = speed**2 * cube * surface_width - 2.0 * GRAVITY
        through = drop_bar + current_bar * speed * squeeze * surface_width
        weight = -through / tangent
        speed_bar = weight * 2.0 * speed * ((section / clear) ** 2 - 1.0)
        speed_bar += current_bar * (section / clear - 1.0)
        section_bar = weight * speed**2 * (2.0 * squeeze - cube)
        section_bar += current_bar * speed * (1.0 / clear - squeeze)
        midship_bar = weight * speed**2 * cube + current_bar * speed * squeeze
        width_bar = drop * midship_bar
        return speed_bar, section_bar, midship_bar, width_bar

    return (drop, current), grad


def bank_wash(demand_speed, section, midship, surface_width):
    """Return current at the speed a steerer can actually hold."""
    ceiling = PRACTICAL_SPEED_SHARE * limiting_speed(section, midship, surface_width)
    held = tf.minimum(demand_speed, ceiling)
    drop, current = boat_squat(held, section, midship, surface_width)
    return current + tf.sqrt(GRAVITY * tf.nn.relu(drop)) * 0.1


class FlightCalibration(tf.Module):
    """Fits by-wash crests and coefficients to gauge-board readings."""

    def __init__(self, crest, coefficient, name=None):
        super().__init__(name=name)
        self.crest = tf.Variable(crest)
        self.log_coefficient = tf.Variable(np.log(coefficient))

    def bywash(self) -> BywashState:
        return BywashState(
            tf.convert_to_tensor(self.crest),
            tf.exp(tf.convert_to_tensor(self.log_coefficient)),
        )

    def misfit(self, start, feed, lockage, observed):
        levels = pound_levels(start, feed, lockage, self.bywash())
        return tf.reduce_mean((levels - observed) ** 2)

    def step(self, batch, rate=0.05):
        with tf.GradientTape() as tape:
            loss = self.misfit(*batch)
        variables = [self.crest, self.log_coefficient]
        for variable, slope in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(rate * slope)
        return loss


def _demo():
    rng = np.random.default_rng(3)
    steps, days, pounds = 12, 2, 4
    start = tf.constant(1.8 + 0.1 * rng.random((days, pounds)))
    feed = tf.constant(0.02 * rng.random((steps, days, pounds)))
    lockage = tf.constant(0.04 * rng.random((steps, days, pounds)))
    truth = BywashState(
        tf.constant([1.80, 1.78, 1.82, 1.79], tf.float64),
        tf.constant([0.3, 0.25, 0.4, 0.35], tf.float64),
    )
    observed = pound_levels(start, feed, lockage, truth)
    fit = FlightCalibration(truth.crest + 0.02, np.full(pounds, 0.3))
    for _ in range(5):
        print("misfit", float(fit.step((start, feed, lockage, observed))))

    seepage = SeepageModel([0, 0, 3, -1, 1], [900.0, 1200.0, 400.0, 650.0, 300.0])
    loss = seepage(
        tf.constant(TYPICAL_PERMEABILITY),
        tf.constant(1.2 + 0.3 * rng.random((3, 5))),
        tf.constant([8.0, 8.5, 6.0, 7.5, 9.0], tf.float64),
        tf.constant([1.5, 1.5, 0.3, 1.0, 0.5], tf.float64),
    )
    print("seepage m3/day", loss.numpy().round(1))
    print("bank wash", bank_wash(*[tf.constant([v]) for v in (1.1, 20.0, 3.1, 13.0)]).numpy())


if __name__ == "__main__":
    _demo()
