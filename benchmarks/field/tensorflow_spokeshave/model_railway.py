# Fitting a model railway: decoder speed tables, voltage along the bus wire, and the easements of curves.
#
# Lengths in metres, volts, amperes, ohms.  Used with a generic least-squares loop (see `main`).
from typing import NamedTuple

import tensorflow as tf

SPEED_STEPS = 28


class Gauge(NamedTuple):
    name: str
    scale: float
    min_radius: float


N = Gauge("N", 1 / 160, 0.22)
HO = Gauge("HO", 1 / 87, 0.45)


def reduce_like(grad, ref):
    """Sum a broadcast cotangent back to ref's shape."""
    extra = grad.shape.rank - ref.shape.rank
    grad = tf.reduce_sum(grad, axis=list(range(extra))) if extra else grad
    axes = [a for a, n in enumerate(ref.shape) if n == 1 and grad.shape[a] != 1]
    return tf.reduce_sum(grad, axis=axes, keepdims=True) if axes else grad


@tf.custom_gradient
def rail_voltage(supply, ohms, amps):
    """Voltage at each tap of a bus wire that is fed from its first end.

    supply: volts at the feed, a scalar or one a booster district [district, 1].
    ohms:   [taps], resistance of the piece of wire that leads to each tap.
    amps:   [..., taps], current drawn at each tap (locomotives, lights).  The wire to a tap carries its own current and that
            of all the taps behind it.
    """
    through = tf.cumsum(amps, axis=-1, reverse=True)
    volts = supply - tf.cumsum(ohms * through, axis=-1)

    def grad(g):
        behind = tf.cumsum(g, axis=-1, reverse=True)
        d_ohms = -behind * through
        d_amps = -tf.cumsum(ohms * behind, axis=-1)
        return reduce_like(g, supply), reduce_like(d_ohms, ohms), reduce_like(d_amps, amps)

    return volts, grad


@tf.custom_gradient
def easement_offset(s, radius, length):
    """
    Sideways offset of the track at arc distance `s` past the start of an easement.

    Before the easement (s < 0) the track is straight.  Over `length` the curvature grows evenly from 0 to 1/radius (cubic
    parabola); after it the curve goes on with constant curvature, as the second-order parabola. A negative radius bends
    to the left. The three arguments broadcast.
    """
    on = s / length
    rest = s - length
    inside = s ** 3 / (6.0 * radius * length)
    beyond = length ** 2 / (6.0 * radius) + length * rest / (2.0 * radius) + rest ** 2 / (2.0 * radius)
    y = tf.where(on < 0.0, tf.zeros_like(inside), tf.where(on < 1.0, inside, beyond))

    def grad(g):
        slope = tf.where(on < 1.0, s ** 2 / (2.0 * radius * length), length / (2.0 * radius) + rest / radius)
        wrt_len = tf.where(on < 1.0, -inside / length, (2.0 * length - 3.0 * s) / (6.0 * radius))
        curved = tf.cast(on >= 0.0, g.dtype)
        return (
            reduce_like(g * curved * slope, s),
            reduce_like(-g * y / radius, radius),
            reduce_like(g * curved * wrt_len, length),
        )

    return y, grad


def speed_table(beyond="hold"):
    """Linear interpolation in a decoder's speed table.

    The returned ``volts(step, table)`` takes speed steps of any shape (0 is the first entry, fractions lie between two
    entries) and the motor volts of the entries, [entries].  Steps outside of the table, as momentum settings
    ask for them, take the end entry with ``beyond="hold"``; with ``beyond="extend"`` the first or last piece is
    continued as a straight line.
    """
    assert beyond in ("hold", "extend")

    @tf.custom_gradient
    def volts(step, table):
        last = table.shape[0] - 1
        held = tf.clip_by_value(step, 0.0, float(last))
        low = tf.clip_by_value(tf.cast(tf.floor(held), tf.int32), 0, last - 1)
        frac = (step if beyond == "extend" else held) - tf.cast(low, step.dtype)
        v0, v1 = tf.gather(table, low), tf.gather(table, low + 1)

        def grad(g):
            flat_low = tf.reshape(low, [-1])
            d_table = tf.math.unsorted_segment_sum(tf.reshape(g * (1.0 - frac), [-1]), flat_low, last + 1)
            d_table += tf.math.unsorted_segment_sum(tf.reshape(g * frac, [-1]), flat_low + 1, last + 1)
            moving = tf.logical_and(step > 0.0, step < float(last))
            d_step = tf.where(moving, g * (v1 - v0), tf.zeros_like(g))
            return d_step, d_table

        return v0 + frac * (v1 - v0), grad

    return volts


def fit_easement(measured_s, measured_y, gauge=HO, steps=200, rate=0.02):
    """Fit radius and easement length to offsets that were measured with a ruler."""
    log_r = tf.Variable(tf.math.log(2.0 * gauge.min_radius))
    log_l = tf.Variable(tf.math.log(gauge.min_radius))
    for _ in range(steps):
        with tf.GradientTape() as tape:
            model = easement_offset(measured_s, tf.exp(log_r), tf.exp(log_l))
            loss = tf.reduce_mean((model - measured_y) ** 2) / gauge.scale ** 2
        for var, d in zip((log_r, log_l), tape.gradient(loss, [log_r, log_l])):
            var.assign_sub(rate * tf.clip_by_value(d, -1.0, 1.0))
    return tf.exp(log_r), tf.exp(log_l)


def main():
    s = tf.linspace(-0.1, 1.2, 14)
    y = easement_offset(s, tf.constant(0.7), tf.constant(0.4))
    radius, length = fit_easement(s, y)
    print(f"radius {radius:.3f} m, easement {length:.3f} m")
    table = tf.linspace(1.5, 12.0, SPEED_STEPS)
    print(speed_table("hold")(tf.constant([0.0, 3.5, 31.0]), table).numpy())
    print(rail_voltage(tf.constant(14.5), tf.fill([4], 0.08), tf.constant([0.3, 0.0, 0.8, 0.5])).numpy())


if __name__ == "__main__":
    main()
