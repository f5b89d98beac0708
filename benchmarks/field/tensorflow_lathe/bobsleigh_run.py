"""Differentiable descent of a bobsleigh run, sector by sector.

A run is cut into ``S`` sectors.  For a batch of ``B`` descents we keep the
kinetic energy per unit mass at the end of each sector and work out

* the steel-on-ice friction coefficient of each sector,
* the normal load the sled feels in the curves,
* the energy march down the track, and
* the timing sheet (sector times, splits at the timing eyes, finish).

The pieces carry their own reverse-mode rules so that the whole sheet can be
fitted to timing-eye records (a few thousand descents, 14 to 20 curves) without
the tape holding every intermediate of the march.

Units are SI throughout, temperatures in degrees Celsius.
"""

from __future__ import annotations

import collections
import math
from typing import Dict, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

GRAVITY = 9.81
ICE_MELT = 0.0
ICE_SPAN = 10.0            # degrees below melting at which the cold term is `cold_gain`
SPEED_REF = 30.0
LOAD_REF = GRAVITY
AIR_DENSITY = 1.29

#: exponent of the cold term for the ice of a track
ICE_KINDS = {"natural": 1.0, "refrigerated": 1.6, "spray_built": 1.25}

TrackPlan = collections.namedtuple(
    "TrackPlan", ["lengths", "drops", "curve_of", "curvature", "eyes"]
)


class RunSheet(NamedTuple):
    times: tf.Tensor
    splits: tf.Tensor
    finish: tf.Tensor
    exit_speed: tf.Tensor


def _sum_to(grad: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """Adds `grad` up over the axes along which `shape` was broadcast."""
    extra = grad.shape.rank - shape.rank
    if extra > 0:
        grad = tf.reduce_sum(grad, axis=list(range(extra)))
    ones = [i for i, (n, m) in enumerate(zip(shape, grad.shape)) if n == 1 and m != 1]
    if ones:
        grad = tf.reduce_sum(grad, axis=ones, keepdims=True)
    return grad


def demo_plan(dtype=np.float32) -> TrackPlan:
    """Nine sectors with four curves, loosely after a lower-Alps track."""
    lengths = np.array([90.0, 120.0, 80.0, 150.0, 140.0, 110.0, 160.0, 130.0, 100.0])
    drops = np.array([5.0, 14.0, 9.0, 16.0, 15.0, 10.0, 17.0, 11.0, 4.0])
    curve_of = np.array([-1, 0, 1, 1, -1, 2, 3, 3, -1], dtype=np.int32)
    curvature = np.array([1 / 45.0, 1 / 30.0, 1 / 38.0, 1 / 27.0])
    eyes = np.array([1, 3, 6, 8], dtype=np.int32)
    return TrackPlan(
        lengths.astype(dtype), drops.astype(dtype), curve_of, curvature.astype(dtype), eyes
    )


# ---------------------------------------------------------------------------
# friction
# ---------------------------------------------------------------------------


def make_runner_friction(
    cold_exponent: float = 1.0,
    cold_gain: float = 0.35,
    speed_exponent: float = 0.5,
    load_exponent: float = 0.25,
):
    """Builds the friction law of polished runners for one kind of ice.

    Args:
      cold_exponent: Exponent of the cold term, at least one. See `ICE_KINDS`.
      cold_gain: Relative rise of friction `ICE_SPAN` degrees below melting.
      speed_exponent: How fast the melt film thins friction with speed.
      load_exponent: Same, for the normal load.

    Returns:
      A function `(load, speed, ice_temp, polish) -> mu` whose arguments
      broadcast against each other; typically load and speed are
      `[batch, sectors]`, ice_temp `[sectors]` and polish a scalar or
      `[batch, 1]`.
    """
    if cold_exponent < 1.0:
        raise ValueError("cold_exponent must be at least 1")

    @tf.custom_gradient
    def runner_friction(load, speed, ice_temp, polish):
        load, speed, ice_temp, polish = (
            tf.convert_to_tensor(a) for a in (load, speed, ice_temp, polish)
        )
        chill = tf.nn.relu(ICE_MELT - ice_temp) / ICE_SPAN
        cold = 1.0 + cold_gain * tf.pow(chill, cold_exponent)
        film = tf.pow(speed / SPEED_REF, -speed_exponent) * tf.pow(
            load / LOAD_REF, -load_exponent
        )
        mu = polish * cold * film

        def grad(upstream):
            through = upstream * mu
            d_load = _sum_to(-load_exponent * through / load, load.shape)
            d_speed = _sum_to(-speed_exponent * through / speed, speed.shape)
            d_polish = _sum_to(upstream * cold * film, polish.shape)
            slope = tf.where(
                chill > 0.0,
                tf.pow(chill, cold_exponent - 1.0),
                tf.zeros_like(chill),
            )
            d_temp = _sum_to(
                -upstream * polish * film * cold_gain * slope / ICE_SPAN, ice_temp.shape
            )
            return d_load, d_speed, d_temp, d_polish

        return mu, grad

    return runner_friction


# ---------------------------------------------------------------------------
# curves
# ---------------------------------------------------------------------------


@tf.custom_gradient
def curve_load(speed, curvature, curve_of):
    """Normal load and lateral acceleration in every sector.

    Parameters
    ----------
    speed : (B, S) tensor
        Sled speed in the sector.
    curvature : (C,) tensor
        One signed curvature per curve, positive when the track turns left.
    curve_of : (S,) int tensor
        The curve a sector belongs to; a long curve spans several sectors.
        ``-1`` for a straight.

    Returns
    -------
    load : (B, S) tensor
        Acceleration normal to the ice, gravity included.
    lateral : (B, S) tensor
        Magnitude of the centripetal acceleration.
    """
    n_curves = curvature.shape[0]
    on_curve = curve_of >= 0
    bend = tf.gather(curvature, tf.maximum(curve_of, 0))
    bend = tf.where(on_curve, tf.abs(bend), tf.zeros_like(bend))
    squared = tf.square(speed)
    lateral = squared * bend
    load = tf.sqrt(GRAVITY**2 + tf.square(lateral))

    def grad(g_load, g_lateral):
        d_lateral = g_load * lateral / load + g_lateral
        d_speed = 2.0 * d_lateral * speed * bend
        d_bend = tf.reduce_sum(d_lateral * squared, axis=0)
        d_curvature = tf.math.unsorted_segment_sum(d_bend, curve_of, n_curves)
        return d_speed, d_curvature, None

    return (load, lateral), grad


# ---------------------------------------------------------------------------
# march
# ---------------------------------------------------------------------------


@tf.custom_gradient
def energy_march(entry, terms, active):
    """March the specific kinetic energy down the track.

    ``terms`` is ``{"gain": [B, S], "keep": [B, S]}``; sector k turns an
    incoming energy e into ``keep * e + gain`` where ``active`` (bool, [B, S])
    and hands it on untouched where the sled was lifted off or stopped early.
    Returns the energy at the end of every sector.
    """
    gain, keep = terms["gain"], terms["keep"]
    live = tf.cast(active, gain.dtype)
    kept = live * keep + (1.0 - live)
    added = live * gain

    state = entry
    before, after = [], []
    for factor, addend in zip(tf.unstack(kept, axis=1), tf.unstack(added, axis=1)):
        before.append(state)
        state = factor * state + addend
        after.append(state)
    energies = tf.stack(after, axis=1)

    def grad(upstream):
        adjoint = tf.zeros_like(entry)
        d_gain, d_keep = [], []
        factors = tf.unstack(kept, axis=1)
        incoming = tf.unstack(upstream, axis=1)
        for k in reversed(range(len(factors))):
            adjoint = adjoint + incoming[k]
            d_gain.append(adjoint)
            d_keep.append(adjoint * before[k])
            adjoint = adjoint * factors[k]
        d_gain = live * tf.stack(d_gain[::-1], axis=1)
        d_keep = live * tf.stack(d_keep[::-1], axis=1)
        return adjoint, {"gain": d_gain, "keep": d_keep}, None

    return energies, grad


# ---------------------------------------------------------------------------
# timing sheet
# ---------------------------------------------------------------------------


@tf.custom_gradient
def timing_sheet(entry, energies, lengths, eyes):
    """Sector times, splits at the eyes, finish time and exit speed.

    A sector is taken at the mean of its entry and exit speeds.  `eyes` holds
    sector indices (an eye sits at the end of its sector); two clocks may share
    one sector.
    """
    n_sectors = energies.shape[-1]
    every = tf.concat([entry[:, None], energies], axis=1)
    speeds = tf.sqrt(2.0 * every)
    closing = speeds[:, :-1] + speeds[:, 1:]
    times = 2.0 * lengths / closing
    clock = tf.cumsum(times, axis=1)
    sheet = RunSheet(
        times=times,
        splits=tf.gather(clock, eyes, axis=1),
        finish=clock[:, -1],
        exit_speed=speeds[:, -1],
    )

    def grad(g_times, g_splits, g_finish, g_exit):
        placed = tf.one_hot(eyes, n_sectors, dtype=times.dtype)
        d_clock = tf.matmul(g_splits, placed)
        last = tf.one_hot(n_sectors - 1, n_sectors, dtype=times.dtype)
        d_clock = d_clock + g_finish[:, None] * last
        d_times = g_times + tf.cumsum(d_clock, axis=1, reverse=True)
        d_lengths = tf.reduce_sum(2.0 * d_times / closing, axis=0)
        d_closing = -d_times * times / closing
        d_speeds = tf.pad(d_closing, [[0, 0], [0, 1]]) + tf.pad(d_closing, [[0, 0], [1, 0]])
        d_speeds = d_speeds + tf.pad(g_exit[:, None], [[0, 0], [n_sectors, 0]])
        d_every = d_speeds / speeds
        return d_every[:, 0], d_every[:, 1:], d_lengths, None

    return sheet, grad


# ---------------------------------------------------------------------------
# model
# ---------------------------------------------------------------------------


class BobsleighRun(tf.Module):
    """Track with trainable polish, drag area and curve radii.

    Two sweeps are made: the first with frictionless speeds to get the loads,
    the second with the friction those loads bring.
    """

    def __init__(self, plan: TrackPlan, ice: str = "natural", mass: float = 390.0, name=None):
        super().__init__(name=name)
        self.plan = plan
        self.mass = mass
        dtype = plan.lengths.dtype
        self.friction = make_runner_friction(cold_exponent=ICE_KINDS[ice])
        self.log_polish = tf.Variable(np.array(math.log(0.009), dtype), name="log_polish")
        self.log_drag_area = tf.Variable(np.array(math.log(0.12), dtype), name="log_drag_area")
        self.curvature = tf.Variable(plan.curvature, name="curvature")

    def _decay(self, lengths):
        rate = AIR_DENSITY * tf.exp(self.log_drag_area) / self.mass
        return tf.exp(-rate * lengths)

    def _terms(self, batch: int, mu, load) -> Dict[str, tf.Tensor]:
        keep = self._decay(self.plan.lengths)
        mean_keep = 0.5 * (1.0 + keep)
        work = GRAVITY * self.plan.drops - mu * load * self.plan.lengths
        gain = mean_keep * work
        shape = [batch, len(self.plan.lengths)]
        return {
            "gain": tf.broadcast_to(gain, shape),
            "keep": tf.broadcast_to(keep, shape),
        }

    def __call__(self, start_speed, ice_temp, active=None) -> RunSheet:
        start_speed = tf.convert_to_tensor(start_speed)
        batch = start_speed.shape[0]
        n_sectors = len(self.plan.lengths)
        if active is None:
            active = tf.ones([batch, n_sectors], tf.bool)
        entry = 0.5 * tf.square(start_speed)
        free = energy_march(entry, self._terms(batch, 0.0, GRAVITY), active)
        speed = tf.sqrt(2.0 * free)
        load, _ = curve_load(speed, tf.convert_to_tensor(self.curvature), self.plan.curve_of)
        polish = tf.exp(self.log_polish)
        mu = self.friction(load, speed, tf.convert_to_tensor(ice_temp), polish)
        energies = energy_march(entry, self._terms(batch, mu, load), active)
        return timing_sheet(entry, energies, tf.constant(self.plan.lengths), self.plan.eyes)

    def misfit(self, sheet: RunSheet, splits) -> tf.Tensor:
        return tf.reduce_mean(tf.square(sheet.splits - splits))


def fit(run: BobsleighRun, start_speed, ice_temp, splits, steps: int = 20, rate: float = 0.02):
    """Gradient steps on polish and drag area against measured splits."""
    history: Sequence[float] = []
    variables = [run.log_polish, run.log_drag_area]
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = run.misfit(run(start_speed, ice_temp), splits)
        for variable, slope in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(rate * slope)
        history.append(float(loss))
    return history


if __name__ == "__main__":
    plan_ = demo_plan()
    run_ = BobsleighRun(plan_)
    push_ = np.array([9.5, 10.2, 11.0], np.float32)
    ice_ = np.linspace(-9.0, -4.0, len(plan_.lengths)).astype(np.float32)
    sheet_ = run_(push_, ice_)
    print("finish:", sheet_.finish.numpy())
    print("misfit:", fit(run_, push_, ice_, sheet_.splits.numpy() * 1.01, steps=5))
