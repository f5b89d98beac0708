"""Differentiable pieces of the terminal simulator.

The demand model upstream predicts arrivals and passenger counts; the functions here turn them into carousel loads,
walking times, waiting penalties and gate-closing times, all of which end up in one planning loss.
"""

import dataclasses
from typing import Tuple

import tensorflow as tf

MIN_RIDERS = 1e-6
WAIT_KINDS = ("hinge", "squared", "softplus")


@dataclasses.dataclass(frozen=True)
class Terminal:
    """Fixed layout of a terminal.

    Attributes:
        gates: number of gates.
        legs: number of corridor legs between security and a gate (ramp, concourse, pier).
        carousels: number of reclaim carousels.
        closing_sharpness: inverse minutes; the larger, the nearer `closing_time` is to the last arrival.
    """

    gates: int = 12
    legs: int = 3
    carousels: int = 4
    closing_sharpness: float = 0.7


def _time_major(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x, [1, 0, 2])


def _retain(series: tf.Tensor, keep: tf.Tensor) -> tf.Tensor:
    """Runs `y[t] = series[t] + keep * y[t - 1]` over the leading axis."""
    return tf.scan(lambda y, a: a + keep * y, series, initializer=tf.zeros_like(series[0]))


@tf.custom_gradient
def carousel_load(arrivals: tf.Tensor, keep: tf.Tensor):
    """Bags going round on each carousel.

    Args:
        arrivals: bags put down in each minute, `[days, minutes, carousels]`.
        keep: share of bags not picked up within a minute, `[carousels]`.

    Returns:
        Load at the end of each minute, `[days, minutes, carousels]`.
    """
    load = _retain(_time_major(arrivals), keep)

    def grad(upstream):
        lam = tf.reverse(_retain(tf.reverse(_time_major(upstream), [0]), keep), [0])
        d_keep = tf.reduce_sum(lam[1:] * load[:-1], axis=[0, 1])
        return _time_major(lam), d_keep

    return _time_major(load), grad


@tf.custom_gradient
def walk_time(corridors: tf.Tensor, pace: tf.Tensor, gate_ids: tf.Tensor):
    """Minutes from security to the gate, for each passenger.

    Args:
        corridors: metres of each leg to each gate, `[gates, legs]`.
        pace: metres per minute of each passenger on each leg, `[passengers, legs]`.
        gate_ids: gate of each passenger, int `[passengers]`.

    Returns:
        `[passengers]`.
    """
    metres = tf.gather(corridors, gate_ids)
    minutes = metres / pace

    def grad(upstream):
        per_leg = upstream[:, tf.newaxis] / pace
        d_corridors = tf.tensor_scatter_nd_update(
            tf.zeros_like(corridors), gate_ids[:, tf.newaxis], per_leg
        )
        return d_corridors, -per_leg * minutes, None

    return tf.reduce_sum(minutes, axis=-1), grad


def make_wait_penalty(kind: str = "hinge"):
    """Builds the penalty on waiting longer than promised.

    Args:
        kind: "hinge" (minutes over), "squared" (squared minutes over) or "softplus".

    Returns:
        `penalty(wait, target, riders)`, the rider-weighted mean over hours and queues.
    """
    if kind not in WAIT_KINDS:
        raise ValueError(f"unknown penalty {kind!r}, want one of {WAIT_KINDS}")

    def _loss_and_slope(late):
        over = tf.nn.relu(late)
        if kind == "hinge":
            return over, tf.cast(late > 0, late.dtype)
        if kind == "squared":
            return over * over, 2.0 * over
        return tf.nn.softplus(late), tf.nn.sigmoid(late)

    @tf.custom_gradient
    def wait_penalty(wait, target, riders):
        # wait [hours, queues] minutes; target [queues] minutes; riders [hours, queues], from the demand model
        each, slope = _loss_and_slope(wait - target)
        total = tf.reduce_sum(riders) + MIN_RIDERS
        value = tf.reduce_sum(riders * each) / total

        def grad(upstream):
            share = upstream / total
            d_wait = share * riders * slope
            d_target = -tf.reduce_sum(d_wait, axis=0)
            d_riders = share * each
            return d_wait, d_target, d_riders

        return value, grad

    return wait_penalty


@tf.custom_gradient
def closing_time(times: tf.Tensor, present: tf.Tensor, sharpness: tf.Tensor):
    """Smooth time of the last passenger at the gate.

    Args:
        times: arrival minute of each booked passenger, `[flights, seats]`.
        present: bool `[flights, seats]`, whether the seat is taken. A flight may be empty; it closes at 0.
        sharpness: positive scalar.

    Returns:
        `[flights]`, `log(sum(exp(sharpness * times))) / sharpness` over the taken seats.
    """
    low = tf.where(present, times, tf.fill(tf.shape(times), times.dtype.min))
    peak = tf.reduce_max(low, axis=1, keepdims=True)
    peak = tf.where(tf.reduce_any(present, axis=1, keepdims=True), peak, tf.zeros_like(peak))
    gap = tf.where(present, times - peak, tf.zeros_like(times))
    mass = tf.where(present, tf.exp(sharpness * gap), tf.zeros_like(times))
    norm = tf.reduce_sum(mass, axis=1, keepdims=True)
    some = norm[:, 0] > 0
    safe = tf.where(norm > 0, norm, tf.ones_like(norm))
    closing = peak[:, 0] + tf.math.log(safe[:, 0]) / sharpness

    def grad(upstream):
        share = mass / safe
        # the peak moves out of both terms, so only distances to it are left
        inner = tf.reduce_sum(share * gap, axis=1) - tf.math.log(safe[:, 0]) / sharpness
        d_sharp = tf.reduce_sum(tf.where(some, upstream * inner, tf.zeros_like(inner))) / sharpness
        return upstream[:, tf.newaxis] * share, None, d_sharp

    return closing, grad


def planning_loss(
    terminal: Terminal, plan: dict, demand: dict, kind: str = "hinge"
) -> Tuple[tf.Tensor, dict]:
    """One scalar for the planner, and its parts for the dashboard."""
    load = carousel_load(demand["bags"], plan["keep"])
    walk = walk_time(plan["corridors"], demand["pace"], demand["gate_ids"])
    wait = make_wait_penalty(kind)(plan["wait"], plan["target"], demand["riders"])
    reach = demand["security_exit"] + tf.reshape(walk, tf.shape(demand["security_exit"]))
    closing = closing_time(
        reach, demand["present"], tf.cast(terminal.closing_sharpness, reach.dtype)
    )
    parts = {
        "belt": tf.reduce_mean(tf.square(load)),
        "walk": tf.reduce_mean(walk),
        "wait": wait,
        "closing": tf.reduce_mean(tf.nn.relu(closing - demand["departure"])),
    }
    return tf.add_n(list(parts.values())), parts


def plan_step(terminal, plan, demand, rate=1e-3, kind="hinge"):
    with tf.GradientTape() as tape:
        tape.watch(plan)
        loss, parts = planning_loss(terminal, plan, demand, kind)
    slopes = tape.gradient(loss, plan)
    return {k: v - rate * slopes[k] for k, v in plan.items()}, parts
