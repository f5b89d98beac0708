# Design sums for a zipline park: speed along the cable, height of the rider under it, and the brake at the end.
#
# SI units. Angles of the course are downhill slopes in radians, one per time step, as they were surveyed from the
# trolley's log.  Riders are the last axis everywhere.
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

GRAVITY = 9.81
ROPE_WEIGHT = 9.8      # N per metre of rope, 16 mm wire rope
STIFFENING = 0.35      # 1/m, of the bungee past its knee


@dataclass(frozen=True)
class Course:
    slopes: np.ndarray
    dt: float = 0.25
    rolling: float = 0.02
    name: str = field(default="unnamed", compare=False)


def _sum_to(g, like):
    """Sum a gradient down to the shape of the operand it belongs to (scalars or full rider vectors)."""
    return tf.reduce_sum(g) if like.shape.rank == 0 else g


def make_ride(course: Course):
    """Trolley speeds by explicit steps; a trolley that stops does not roll backwards."""
    push = GRAVITY * (np.sin(course.slopes) - course.rolling * np.cos(course.slopes))
    dt = course.dt

    @tf.custom_gradient
    def speeds(start, mass, drag):
        """start (riders,), mass (riders,), drag () = half rho Cd A shared by all riders -> (steps + 1, riders)"""
        path = [start]
        for a in push:
            v = path[-1]
            path.append(tf.nn.relu(v + dt * (float(a) - drag / mass * v * v)))

        def grad(upstream):
            lam = upstream[len(push)]
            d_mass = tf.zeros_like(mass)
            d_drag = tf.zeros_like(drag)
            for k in reversed(range(len(push))):
                v = path[k]
                step = dt * tf.where(path[k + 1] > 0, lam, tf.zeros_like(lam))
                lam = upstream[k] + step / dt - 2 * step * drag / mass * v
                d_mass += step * drag * (v / mass) ** 2
                d_drag -= tf.reduce_sum(step * v * v / mass)
            return lam, d_mass, d_drag

        return tf.stack(path), grad

    return speeds


@tf.custom_gradient
def depth_below_anchor(x, span, drop, tension, rider):
    """Depth of the rope at the rider below the upper anchor.

    Parabolic rope between anchors ``span`` apart, the lower one ``drop`` below the upper, with horizontal tension
    ``tension`` and a rider of weight ``rider`` (N) at ``x`` metres from the upper anchor.  The rope weighs per metre
    of rope, hence sec(chord angle) more per metre of ground.
    x and rider are (riders,); span, drop and tension are scalars or (riders,).
    """
    sec = tf.sqrt(1 + (drop / span) ** 2)
    reach = x * (span - x)
    own = ROPE_WEIGHT * sec / (2 * tension)
    point = rider / (tension * span)

    def grad(upstream):
        d_x = upstream * (drop / span + (own + point) * (span - 2 * x))
        d_span = upstream * (-drop * x / span ** 2 + own * x + point * x - point * reach / span)
        d_drop = upstream * x / span
        d_tension = -upstream * (own + point) * reach / tension
        d_rider = upstream * reach / (tension * span)
        return d_x, _sum_to(d_span, span), _sum_to(d_drop, drop), _sum_to(d_tension, tension), d_rider

    return drop * x / span + (own + point) * reach, grad


def sag_profile(x, span, tension, rider, drop=0.0):
    x = tf.convert_to_tensor(x)
    return depth_below_anchor(x, *(tf.cast(t, x.dtype) for t in (span, drop, tension, rider)))


def make_brake_pack(cords="single", knee=3.0, lead=1.5):
    """Bungee brake.

    Parameters
    ----------
    cords : {"single", "double"}
        with "double" a second, equal cord takes up `lead` metres after the first
    knee : float
        stretch of a cord from which it stiffens

    Returns
    -------
    function of (travel, stiffness, line_of_rider) -> (force, energy), each per rider
    """
    slack = {"single": (0.0,), "double": (0.0, lead)}[cords]

    @tf.custom_gradient
    def brake_pack(travel, stiffness, line_of_rider):
        # travel: riders; stiffness: lines; line_of_rider: int per rider
        k = tf.gather(stiffness, line_of_rider)
        pull = work = slope = tf.zeros_like(travel)
        for s in slack:
            u = tf.nn.relu(travel - s)
            past = tf.nn.relu(travel - s - knee)
            pull += u + STIFFENING * past ** 2
            work += u ** 2 / 2 + STIFFENING * past ** 3 / 3
            slope += tf.cast(u > 0, u.dtype) + 2 * STIFFENING * past

        def grad(d_force, d_energy):
            d_travel = k * (d_force * slope + d_energy * pull)
            d_k = d_force * pull + d_energy * work
            return d_travel, tf.math.unsorted_segment_sum(d_k, line_of_rider, tf.shape(stiffness)[0]), None

        return (k * pull, k * work), grad

    return brake_pack


def main():
    course = Course(np.r_[np.full(40, 0.12), np.linspace(0.1, -0.08, 20)], name="gorge")
    v = make_ride(course)(tf.constant([0.5, 1.0]), tf.constant([62.0, 95.0]), tf.constant(0.35))
    print(course.name, "arrival speeds", v[-1].numpy())
    print("depth mid-span", sag_profile([150.0], 300.0, 9000.0, [800.0], drop=30.0).numpy())


if __name__ == "__main__":
    main()
