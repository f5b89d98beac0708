"""Water-bath cooking: how warm is the middle of the steak, and how much of the flora is dead by then?

Two differentiable pieces for fitting time constants to probe logs and for planning a bath programme by gradient descent.
Temperatures are in degrees Celsius, times in minutes.
"""
import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Organism(NamedTuple):
    name: str
    d_minutes: float      # minutes for one decimal reduction at the reference temperature
    z_degrees: float
    reference: float
    growth_limit: float   # below this nothing is counted as killed


SALMONELLA = Organism("salmonella", 5.5, 6.5, 60.0, 52.0)
LISTERIA = Organism("listeria", 2.4, 7.0, 65.0, 52.0)


@tf.custom_gradient
def core_temperature(bath, start, tau, dt):
    """Core temperature of several pieces in one bath.

    Parameters
    ----------
    bath : [time]
        Water temperature during each step.
    start : [pieces]
        Core temperature when the bags go in.
    tau : [pieces]
        Time constant of every piece (thickness squared over diffusivity, more or less).
    dt : [time]
        Length of each step; the logger does not tick evenly.

    Returns
    -------
    [time, pieces]
        Core temperature at the end of each step, exact for a bath that is constant within a step.
    """
    steps = bath.shape[0]
    decay = tf.exp(-dt[:, None] / tau[None, :])
    core = start
    path = []
    for t in range(steps):
        core = bath[t] + (core - bath[t]) * decay[t]
        path.append(core)
    out = tf.stack(path)

    def grad(upstream):
        before = tf.concat([start[None], out[:-1]], axis=0)
        carry = tf.zeros_like(start)
        carried = []
        for t in reversed(range(steps)):
            carry = upstream[t] + carry
            carried.append(carry)
            carry = carry * decay[t]
        adjoint = tf.stack(carried[::-1])
        d_bath = tf.reduce_sum(adjoint * (1.0 - decay), axis=1)
        d_exponent = adjoint * (before - bath[:, None]) * decay
        d_dt = -tf.reduce_sum(d_exponent / tau, axis=1)
        d_tau = tf.reduce_sum(d_exponent * dt[:, None], axis=0) / tf.square(tau)
        return d_bath, carry, d_tau, d_dt

    return out, grad


def trapezoid_weights(minutes):
    """Weights w such that sum(w * f) is the trapezoidal integral of f over `minutes`."""
    minutes = np.asarray(minutes, dtype="float64")
    gaps = np.diff(minutes)
    weights = np.zeros_like(minutes)
    weights[:-1] += 0.5 * gaps
    weights[1:] += 0.5 * gaps
    return weights


def make_lethality(organism: Organism, minutes, reference=None):
    """Differentiable number of decimal reductions of `organism` over a logged programme.

    `minutes` are the times of the log. `reference` is the temperature to which the D value belongs, for tables that state it
    at another one than the organism's own. The returned function takes core temperatures [..., time], the D value and the
    z value (scalars both), and gives [...] decimal reductions.
    """
    weights = trapezoid_weights(minutes)
    at = organism.reference if reference is None else float(reference)

    def rate_of(temps, d_value, z_value):
        rate = tf.pow(tf.cast(10.0, temps.dtype), (temps - at) / z_value) / d_value
        return tf.where(temps >= organism.growth_limit, rate, tf.zeros_like(rate))

    @tf.custom_gradient
    def log_reduction(temps, d_value, z_value):
        w = tf.constant(weights, temps.dtype)
        kill = w * rate_of(temps, d_value, z_value)
        total = tf.reduce_sum(kill, axis=-1)

        def grad(upstream):
            pulled = upstream[..., None] * kill * math.log(10.0)
            d_temps = pulled / z_value
            d_d = -tf.reduce_sum(upstream * total) / d_value
            d_z = -tf.reduce_sum(pulled * (temps - organism.reference)) / tf.square(z_value)
            return d_temps, d_d, d_z

        return total, grad

    return log_reduction


def main():
    minutes = np.linspace(0.0, 90.0, 31)
    dt = tf.constant(np.diff(minutes), tf.float32)
    core = core_temperature(tf.fill([30], 60.0), tf.constant([5.0, 5.0]), tf.constant([14.0, 22.0]), dt)
    lethal = make_lethality(SALMONELLA, minutes[1:])
    print(lethal(tf.transpose(core), tf.constant(5.5), tf.constant(6.5)).numpy())


if __name__ == "__main__":
    main()
