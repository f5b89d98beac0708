"""Strength and stiffness of graded timber, for fitting design tables to test data.

Stresses in MPa, lengths in mm, forces in N, moisture in percent of dry weight, angles in radians.
"""
from typing import NamedTuple

import tensorflow as tf

REFERENCE_MOISTURE = 12.0
GREEN_MOISTURE = 25.0


class Section(NamedTuple):
    width: tf.Tensor
    depth: tf.Tensor


def _sum_to(value, like):
    """Undo broadcasting: reduce `value` to the shape of `like`."""
    extra = value.shape.rank - like.shape.rank
    if extra:
        value = tf.reduce_sum(value, axis=list(range(extra)))
    axes = [i for i, n in enumerate(like.shape) if n == 1 and value.shape[i] != 1]
    return tf.reduce_sum(value, axis=axes, keepdims=True) if axes else value


def make_hankinson(exponent=2.0):
    """Strength of wood loaded at an angle to the grain (Hankinson's formula, generalised).

        f(a) = P Q / (P sin(a)^n + Q cos(a)^n)

    Args:
        exponent: n; 2 for Hankinson's own curve, 1.5 ... 2.5 in the design codes.

    Returns:
        A function of `parallel` P, `perpendicular` Q (both positive) and `angle` a in (0, pi/2);
        the three broadcast against each other.
    """
    n = float(exponent)

    @tf.custom_gradient
    def hankinson_strength(parallel, perpendicular, angle):
        s, c = tf.sin(angle), tf.cos(angle)
        sn, cn = tf.pow(s, n), tf.pow(c, n)
        denominator = parallel * sn + perpendicular * cn
        strength = parallel * perpendicular / denominator

        def grad(upstream):
            ratio = strength / denominator
            d_parallel = upstream * perpendicular * cn * perpendicular / tf.square(denominator)
            d_perpendicular = upstream * parallel * sn * parallel / tf.square(denominator)
            d_angle = -upstream * ratio * (parallel - perpendicular) * 2.0 * s * c
            return (_sum_to(d_parallel, parallel), _sum_to(d_perpendicular, perpendicular),
                    _sum_to(d_angle, angle))

        return strength, grad

    return hankinson_strength


class SpeciesTable:
    """Dry modulus and green modulus of each species, trainable from outside."""

    def __init__(self, names):
        self.index = {name: i for i, name in enumerate(names)}

    def __len__(self):
        return len(self.index)

    def lookup(self, names):
        return tf.constant([self.index[n] for n in names], tf.int32)

    def modulus(self, dry, green, moisture, species):
        """Modulus of boards at `moisture` (any shape), species ids of the same shape."""
        count = len(self)

        @tf.custom_gradient
        def kiln_modulus(dry, green, moisture):
            span = GREEN_MOISTURE - REFERENCE_MOISTURE
            t = (tf.minimum(moisture, GREEN_MOISTURE) - REFERENCE_MOISTURE) / span
            log_dry = tf.gather(tf.math.log(dry), species)
            log_green = tf.gather(tf.math.log(green), species)
            value = tf.exp(log_dry + (log_green - log_dry) * t)

            def grad(upstream):
                g = upstream * value
                below = tf.cast(moisture < GREEN_MOISTURE, g.dtype)
                by_dry = tf.math.unsorted_segment_sum(g * (1.0 - t), species, count)
                by_green = tf.math.unsorted_segment_sum(g * t, species, count)
                return by_dry / dry, by_green / green, g * below * (log_green - log_dry) / span

            return value, grad

        return kiln_modulus(dry, green, moisture)


@tf.custom_gradient
def laminated_stiffness(modulus, thickness, width):
    # modulus, thickness: (..., L), bottom lamination first; width: (...)
    t = thickness + tf.zeros_like(modulus)
    centre = tf.cumsum(t, axis=-1) - 0.5 * t
    w = width[..., None]
    axial = modulus * t
    neutral = (tf.reduce_sum(axial * centre, -1, keepdims=True)
               / tf.reduce_sum(axial, -1, keepdims=True))
    arm = centre - neutral
    per_width = tf.reduce_sum(modulus * t ** 3 / 12.0 + axial * arm ** 2, -1)

    def grad(upstream):
        g = upstream[..., None]
        d_modulus = g * w * (t ** 3 / 12.0 + t * arm ** 2)
        # the neutral axis minimises the stiffness, so its own shift adds nothing
        pull = 2.0 * axial * arm
        lift = tf.cumsum(pull, axis=-1, reverse=True, exclusive=True) + 0.5 * pull
        d_thickness = g * w * (modulus * (t ** 2 / 4.0 + arm ** 2) + lift)
        return (_sum_to(d_modulus, modulus), _sum_to(d_thickness, thickness),
                _sum_to(upstream * per_width, width))

    return width * per_width, grad


@tf.custom_gradient
def combined_loading(axial, moment, width, depth, compressive, bending, euler):
    """Interaction index and bending stress of members under thrust and moment; all args of one shape."""
    area = width * depth
    fc = axial / area
    fb = 6.0 * moment / (area * depth)
    amplify = 1.0 / (1.0 - fc / euler)
    index = tf.square(fc / compressive) + fb / bending * amplify

    def grad(d_index, d_stress):
        d_fc = d_index * (2.0 * fc / tf.square(compressive) + fb / bending * tf.square(amplify) / euler)
        d_fb = d_index * amplify / bending
        d_compressive = -2.0 * d_index * tf.square(fc) / compressive ** 3
        d_bending = -d_index * fb * amplify / tf.square(bending)
        d_euler = -d_index * fb / bending * tf.square(amplify) * fc / tf.square(euler)
        d_width = -(d_fc * fc + d_fb * fb) / width
        d_depth = -(d_fc * fc + 2.0 * d_fb * fb) / depth
        return d_fc / area, d_fb * 6.0 / (area * depth), d_width, d_depth, d_compressive, d_bending, d_euler

    return (index, fb), grad


def check_members(axial, moment, section: Section, grade):
    """Index of each member and the stress it was computed from; grade: dict of design strengths."""
    return combined_loading(axial, moment, section.width, section.depth,
                            grade["compressive"], grade["bending"], grade["euler"])
