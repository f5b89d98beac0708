"""A tide mill: pond, gate and wheel.

The flood fills the mill pond through the gate, the gate drops at high water and the pond is let out
over the wheel during the ebb.  We fit the pond's shape and the wheel's draw to logged levels, so the
model is differentiable from end to end.  Metres, seconds and cubic metres throughout.
"""
from typing import NamedTuple, Sequence

import tensorflow as tf

G = 9.81
RHO = 1025.0
CONTRACTION = 0.61  # of the jet under a sharp gate
SPEED_COEFF = 0.97


class Pond(NamedTuple):
    area: float = 5200.0
    crest: float = 3.4  # water above it leaves over the spillway
    efficiency: float = 0.45


def make_pond_volume(knots: Sequence[float]):
    """Stored volume as a function of level.

    Parameters
    ----------
    knots : increasing levels at which the surveyors give the surface area.

    Returns
    -------
    pond_volume(level, areas)
        `level` of any shape, `areas` one per knot. The area varies linearly between knots and stays
        at its last value above the top one; there is no water below the first.
    """
    z = [float(k) for k in knots]

    @tf.custom_gradient
    def pond_volume(level, areas):
        low = tf.constant(z[:-1], level.dtype)
        step = tf.constant([b - a for a, b in zip(z[:-1], z[1:])], level.dtype)
        s = tf.clip_by_value((level[..., None] - low) / step, 0.0, 1.0)
        over = tf.maximum(level - z[-1], 0.0)
        lower, upper = areas[:-1], areas[1:]
        volume = tf.reduce_sum(step * (lower * s + 0.5 * (upper - lower) * s * s), -1) + areas[-1] * over

        def grad(up):
            inside = (level[..., None] >= low) & (level[..., None] < low + step)
            here = tf.where(inside, lower + (upper - lower) * s, tf.zeros_like(s))
            surface = tf.reduce_sum(here, -1) + tf.where(level >= z[-1], areas[-1] + tf.zeros_like(level), tf.zeros_like(level))
            to_lower = tf.reshape(up[..., None] * step * (s - 0.5 * s * s), [-1, len(z) - 1])
            to_upper = tf.reshape(up[..., None] * step * 0.5 * s * s, [-1, len(z) - 1])
            d_areas = tf.pad(tf.reduce_sum(to_lower, 0), [[0, 1]]) + tf.pad(tf.reduce_sum(to_upper, 0), [[1, 0]])
            top = tf.one_hot(len(z) - 1, len(z), dtype=level.dtype)
            return up * surface, d_areas + top * tf.reduce_sum(up * over)

        return volume, grad

    return pond_volume


@tf.custom_gradient
def gate_discharge(up_level, down_level, opening, width):
    """Flow under the lifted gate, m3/s.

    The levels are above the sill and, like the opening, one per time step; width is one number.
    The jet contracts to CONTRACTION * opening. If the lower water stands above the jet, the gate is
    drowned and the difference of the levels drives it, otherwise the head over the jet does. The
    flap keeps water from going back.
    """
    jet = CONTRACTION * opening
    drowned = down_level > jet
    head = tf.maximum(up_level - tf.where(drowned, down_level, jet), 0.0)
    speed = SPEED_COEFF * tf.sqrt(2.0 * G * head)
    flow = width * jet * speed

    def grad(g):
        per_head = g * tf.math.divide_no_nan(flow, 2.0 * head)
        d_up = per_head
        d_down = tf.where(drowned, -per_head, tf.zeros_like(per_head))
        d_opening = g * width * CONTRACTION * speed
        d_width = tf.reduce_sum(g * jet * speed)
        return d_up, d_down, d_opening, d_width

    return flow, grad


def make_ebb_run(pond: Pond, dt: float):
    """Let several sister ponds out over their wheels.

    Each step of `dt` seconds adds the brook's inflow [steps, ponds] and takes draw * sqrt(level) for
    the wheel (draw: one per pond); what would stand above the crest spills.  The function returns the
    levels after every step [steps, ponds] and the work done by each wheel, in kWh.  Stop before a
    pond runs dry: there is no dry branch.
    """
    per_area = dt / pond.area
    to_kwh = RHO * G * pond.efficiency * dt / 3.6e6

    @tf.custom_gradient
    def ebb_run(start, inflow, draw):
        level, work = start, tf.zeros_like(start)
        trail, levels, spills = [], [], []
        for q in tf.unstack(inflow):
            root = tf.sqrt(level)
            trail.append((level, root))
            work += to_kwh * draw * root * level
            level = level + per_area * (q - draw * root)
            spills.append(level > pond.crest)
            level = tf.minimum(level, pond.crest)
            levels.append(level)

        def grad(g_levels, g_work):
            lam = tf.zeros_like(start)
            d_draw = tf.zeros_like(draw)
            d_inflow = []
            steps = list(zip(trail, spills, tf.unstack(g_levels)))
            for (before, root), spilt, g in reversed(steps):
                lam = lam + g
                kept = tf.where(spilt, tf.zeros_like(lam), lam)
                d_inflow.append(per_area * kept)
                d_draw += to_kwh * g_work * root * before - per_area * lam * root
                lam = kept * (1.0 - 0.5 * per_area * draw / root) + 1.5 * to_kwh * g_work * draw * root
            return lam, tf.stack(d_inflow[::-1]), d_draw

        return (tf.stack(levels), work), grad

    return ebb_run


def main():
    run = make_ebb_run(Pond(), dt=300.0)
    start = tf.constant([3.1, 2.8])
    draw = tf.Variable([0.9, 1.1])
    with tf.GradientTape() as tape:
        levels, work = run(start, tf.fill([24, 2], 0.2), tf.convert_to_tensor(draw))
        total = tf.reduce_sum(work)
    print("levels at the end", levels[-1].numpy(), "kWh", work.numpy())
    print("d kWh / d draw", tape.gradient(total, draw).numpy())


if __name__ == "__main__":
    main()
