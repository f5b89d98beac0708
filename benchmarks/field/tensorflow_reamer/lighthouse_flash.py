"""What a mariner sees of a lighthouse: flashes, ranges and the lamp they ask for.

Intensities are in candela, times in seconds, heights in metres above the still
water. The four quantities below are fitted together (lens profile, visual time
constant, refraction) when an old optic is replaced by a LED array, hence the
derivatives written by hand: plain taping through the flash loops was too slow.
"""

import math

import tensorflow as tf

EARTH_RADIUS = 6.371e6
METRES_PER = {"nm": 1852.0, "km": 1000.0}
CONTRAST = 0.05  # meteorological visibility is where contrast falls to this


def _fold(grad, like):
    """Sum `grad` down to the shape of `like`, undoing numpy broadcasting."""
    shape = like.shape.as_list()
    extra = len(grad.shape) - len(shape)
    if extra:
        grad = tf.reduce_sum(grad, axis=list(range(extra)))
    ones = [i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1]
    if ones:
        grad = tf.reduce_sum(grad, axis=ones, keepdims=True)
    return grad


@tf.custom_gradient
def flash_trace(intensity, steps, memory):
    """Visual sensation along a flash (Allard's exponential memory of the eye).

    Args:
      intensity: [lamps, time] luminous intensity, constant within each step.
      steps: [time] length of each step, seconds; a photometer log is finer
        around the peak, so they may differ.
      memory: scalar visual time constant, about 0.2 s at night.

    Returns:
      [lamps, time] sensation at the end of every step, dark before the first.
    """
    keep = tf.exp(-steps / memory)
    count = intensity.shape[1]
    state = tf.zeros_like(intensity[:, 0])
    before, after = [], []
    for t in range(count):
        before.append(state)
        state = keep[t] * state + (1.0 - keep[t]) * intensity[:, t]
        after.append(state)

    def grad(upstream):
        carry = tf.zeros_like(state)
        pulls = []
        for t in reversed(range(count)):
            carry = upstream[:, t] + keep[t] * carry
            pulls.append(carry)
        pull = tf.stack(pulls[::-1], axis=1)
        d_keep = tf.reduce_sum(pull * (tf.stack(before, axis=1) - intensity), axis=0)
        d_intensity = pull * (1.0 - keep)
        d_steps = -d_keep * keep / memory
        d_memory = tf.reduce_sum(d_keep * keep * steps) / memory**2
        return d_intensity, d_steps, d_memory

    return tf.stack(after, axis=1), grad


@tf.custom_gradient
def blondel_rey(intensity, steps, windows, memory):
    """Effective intensity of a flash: the best of a table of windows.

    For a window the value is sum(I dt) / (memory + sum(dt)).

      intensity  [lamps, time]
      steps      [time]
      windows    [windows, 2] int, first step and one past the last
      memory     scalar, 0.2 s for Blondel and Rey

    Returns [lamps].
    """
    index = tf.range(intensity.shape[1], dtype=windows.dtype)
    inside = (index >= windows[:, :1]) & (index < windows[:, 1:])
    inside = tf.cast(inside, intensity.dtype)  # [windows, time]
    light = tf.matmul(intensity * steps, inside, transpose_b=True)
    span = memory + tf.linalg.matvec(inside, steps)
    values = light / span
    out = tf.reduce_max(values, axis=1)

    def grad(upstream):
        # windows that tie (a dark lamp) share the gradient, as in reduce_max
        best = tf.cast(tf.equal(values, out[:, None]), values.dtype)
        best = best / tf.reduce_sum(best, axis=1, keepdims=True)
        per_span = upstream[:, None] * best / span  # [lamps, windows]
        per_step = tf.matmul(per_span, inside)  # [lamps, time]
        d_intensity = per_step * steps
        d_steps = tf.reduce_sum(per_step * (intensity - out[:, None]), axis=0)
        d_memory = -tf.reduce_sum(per_span * out[:, None])
        return d_intensity, d_steps, None, d_memory

    return out, grad


@tf.custom_gradient
def required_candela(distance, visibility, threshold):
    """Candela needed to be seen at `distance` nautical miles (Allard's law).

    `visibility` (nautical miles) and `threshold` (lux at the eye, 2e-7 at night
    without background light) broadcast against the distances as in numpy: one
    fog for all stations, or a column of fogs against a row of stations.
    """
    metres = distance * METRES_PER["nm"]
    extinction = -math.log(CONTRAST) / visibility
    haze = tf.exp(extinction * distance)
    candela = threshold * metres**2 * haze

    def grad(upstream):
        pull = upstream * candela
        spread = 2.0 * METRES_PER["nm"] * metres * threshold * haze
        d_distance = upstream * spread + pull * extinction
        d_visibility = -pull * extinction * distance / visibility
        d_threshold = upstream * metres**2 * haze
        return (
            _fold(d_distance, distance),
            _fold(d_visibility, visibility),
            _fold(d_threshold, threshold),
        )

    return candela, grad


def make_dipping_table(units="nm"):
    """Table of dipping distances, lamps against ships, in `units` ("nm" or "km").

    The returned function takes lamp heights [lamps], eye heights [ships], the
    height of tide (scalar, lowers the lamp over the water; a drowned lamp counts
    as at the surface) and the refraction coefficient (scalar, about 0.13).
    """
    metres = METRES_PER[units]

    @tf.custom_gradient
    def dipping_distance(lamp, eye, tide, refraction):
        reach = tf.sqrt(2.0 * EARTH_RADIUS / (1.0 - refraction)) / metres
        above = tf.maximum(lamp - tide, 0.0)
        table = reach * (tf.sqrt(above)[:, None] + tf.sqrt(eye)[None, :])

        def grad(upstream):
            slope = tf.sqrt(0.5 * EARTH_RADIUS / (1.0 - refraction)) / METRES_PER["nm"]
            dry = above > 0.0
            root = tf.sqrt(tf.where(dry, above, tf.ones_like(above)))
            d_lamp = slope * tf.reduce_sum(upstream, axis=1) / root
            d_lamp = tf.where(dry, d_lamp, tf.zeros_like(d_lamp))
            d_eye = slope * tf.reduce_sum(upstream, axis=0) / tf.sqrt(eye)
            d_refraction = 0.5 * tf.reduce_sum(upstream * table) / (1.0 - refraction)
            return d_lamp, d_eye, -tf.reduce_sum(d_lamp), d_refraction

        return table, grad

    return dipping_distance


def main():
    beam = tf.constant([[0.0, 4e4, 9e4, 3e4, 0.0, 0.0]])
    dt = tf.fill([6], 0.05)
    print("sensation", flash_trace(beam, dt, tf.constant(0.2)).numpy().round())
    spans = tf.constant([[1, 4], [1, 3], [2, 3]])
    print("effective", blondel_rey(beam, dt, spans, tf.constant(0.2)).numpy())
    table = make_dipping_table()
    print(table(tf.constant([30.0, 52.0]), tf.constant([4.0, 12.0]),
                tf.constant(1.5), tf.constant(0.13)).numpy())


if __name__ == "__main__":
    main()
