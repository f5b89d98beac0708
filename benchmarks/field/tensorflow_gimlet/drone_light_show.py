# Choreography of drone light shows: cost terms for the path optimiser.
#
# A show is a tensor of way points, [drones, time, 3] in metres (one drone alone: [time, 3]).  The optimiser moves all way
# points at once, so that each term must hand back its derivative cheaply.

from typing import Optional

import tensorflow as tf

GRAVITY = 9.81
PAUSE = 1.0 / 3.0  # seconds between way points


def hover_power(mass_kg: float, disc_m2: float, air=1.2) -> float:
    """Ideal induced power of a hovering rotorcraft, watts."""
    thrust = mass_kg * GRAVITY
    return thrust * (thrust / (2.0 * air * disc_m2)) ** 0.5


def make_separation(d_min: float = 1.5):
    """Penalty for drones that come closer than ``d_min`` metres.

    The returned function takes

    * ``positions``: [..., drones, 3], every leading index is a moment of the show;
    * ``priority``: [drones, drones], ``priority[i, j]`` says how much drone i minds drone j (a lead drone minds nobody).

    and returns, of shape [...], the sum over ordered pairs i != j of priority * max(d_min^2 - distance^2, 0)^2. The square of
    the distance makes the term smooth even if two drones are ordered to one spot.
    """

    @tf.custom_gradient
    def separation_penalty(positions, priority):
        offset = positions[..., :, None, :] - positions[..., None, :, :]
        lack = tf.nn.relu(d_min**2 - tf.reduce_sum(tf.square(offset), axis=-1))
        lack = lack * (1.0 - tf.eye(tf.shape(priority)[0], dtype=lack.dtype))
        squared = tf.square(lack)
        penalty = tf.reduce_sum(priority * squared, axis=[-2, -1])

        def grad(upstream):
            mutual = priority + tf.transpose(priority)
            pull = -4.0 * mutual * lack
            d_positions = tf.einsum("...ij,...ijk->...ik", pull, offset) * upstream[..., None, None]
            n = tf.shape(priority)[0]
            each = tf.reshape(upstream[..., None, None] * squared, [-1, n, n])
            return d_positions, tf.reduce_sum(each, axis=0)

        return penalty, grad

    return separation_penalty


def make_leg_energy(closed: bool = False, dt: float = PAUSE):
    """Energy that a battery has to give for a path.

    Args:
        closed: the figure is flown in a loop; the leg from the last way point back to the first one counts as well.
        dt: seconds a leg.

    Returns:
        ``leg_energy(path, hover, drag)``, joules for each drone: path [..., time, 3], the power of hovering in watts and the
        drag coefficient (W s^3 / m^3), both scalars.
    """

    def legs_of(path):
        if closed:
            return tf.roll(path, shift=-1, axis=-2) - path
        return path[..., 1:, :] - path[..., :-1, :]

    @tf.custom_gradient
    def leg_energy(path, hover, drag):
        legs = legs_of(path)
        length = tf.sqrt(tf.reduce_sum(tf.square(legs), axis=-1))
        cubes = tf.reduce_sum(length**3, axis=-1) / dt**2
        count = tf.cast(tf.shape(legs)[-2], path.dtype)
        energy = hover * dt * count + drag * cubes

        def grad(upstream):
            push = (3.0 * drag / dt**2) * length[..., None] * legs * upstream[..., None, None]
            if closed:
                d_path = tf.roll(push, shift=1, axis=0) - push
            else:
                lead = [[0, 0]] * (len(path.shape) - 2)
                d_path = tf.pad(push, lead + [[1, 0], [0, 0]]) - tf.pad(push, lead + [[0, 1], [0, 0]])
            d_hover = dt * count * tf.reduce_sum(upstream)
            d_drag = tf.reduce_sum(upstream * cubes)
            return d_path, d_hover, d_drag

        return energy, grad

    return leg_energy


class ShowCost:
    """Sum of all terms for a fleet; call it with [drones, time, 3]."""

    def __init__(self, priority, closed: bool = False, mass: float = 0.34, drag: float = 0.02, weight: Optional[float] = None):
        self.priority = tf.convert_to_tensor(priority, tf.float32)
        self.separation = make_separation()
        self.energy = make_leg_energy(closed)
        self.hover = tf.constant(hover_power(mass, 0.05), tf.float32)
        self.drag = tf.constant(drag, tf.float32)
        self.weight = 50.0 if weight is None else weight

    def __call__(self, path):
        moments = tf.transpose(path, [1, 0, 2])
        near = tf.reduce_sum(self.separation(moments, self.priority))
        return self.weight * near + tf.reduce_sum(self.energy(path, self.hover, self.drag))
