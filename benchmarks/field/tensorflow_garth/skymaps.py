"""Image plane helpers for the polarisation pipeline."""
import tensorflow as tf


def _shift(x, step, axis, border):
    if border == "wrap":
        return tf.roll(x, step, axis)
    size = x.shape[axis]
    if abs(step) >= size:
        return tf.zeros_like(x)
    pads = [[0, 0]] * x.shape.rank
    begin = [0] * x.shape.rank
    pads[axis] = [max(step, 0), max(-step, 0)]
    begin[axis] = max(-step, 0)
    return tf.slice(tf.pad(x, pads), begin, x.shape)


def _box_sum(x, radius, border):
    for axis in (-2 + x.shape.rank, -1 + x.shape.rank):
        total = x
        for step in range(1, radius + 1):
            total += _shift(x, step, axis, border) + _shift(x, -step, axis, border)
        x = total
    return x


def _box_mean(x, radius, border):
    return _box_sum(x, radius, border) / _box_sum(tf.ones_like(x), radius, border)


def guided_smooth(guide, src, radius=2, eps=1e-2, border="wrap"):
    """Guided filter of ``src`` by ``guide``, both (batch, height, width).

    Simulated boxes are periodic, hence border="wrap"; border="crop" averages
    over the part of the window that lies in the image.  Differentiable in both.
    """
    if border not in ("wrap", "crop"):
        raise ValueError(f"border: {border!r}")

    def mean(x):
        return _box_mean(x, radius, border)

    @tf.custom_gradient
    def smooth(guide, src):
        mg, ms = mean(guide), mean(src)
        spread = mean(guide * guide) - mg * mg + eps
        slope = (mean(guide * src) - mg * ms) / spread
        offset = ms - slope * mg
        mean_slope = mean(slope)
        out = mean_slope * guide + mean(offset)

        def grad(up):
            d_offset = mean(up)
            d_slope = mean(up * guide) - d_offset * mg
            d_cov = d_slope / spread
            d_var = -d_cov * slope
            d_mg = -d_offset * slope - d_cov * ms - 2.0 * d_var * mg
            d_ms = d_offset - d_cov * mg
            cross = mean(d_cov)
            d_guide = (up * mean_slope + cross * src
                       + 2.0 * guide * mean(d_var) + mean(d_mg))
            d_src = cross * guide + mean(d_ms)
            return d_guide, d_src

        return out, grad

    return smooth(guide, src)


@tf.custom_gradient
def polarization_state(stokes, sigma):
    """Debiased polarised fraction and position angle.

    stokes: (..., 3), I (> 0), Q, U.  sigma: (...), noise of Q and U, >= 0.
    Returns (fraction, angle), each (...).  Fraction is
    sqrt(Q^2 + U^2 - sigma^2) / I, or 0 where the pixel is below its noise;
    angle in radians, (-pi/2, pi/2].
    """
    i, q, u = tf.unstack(stokes, axis=-1)
    excess = q * q + u * u - sigma * sigma
    fraction = tf.sqrt(tf.nn.relu(excess)) / i
    angle = 0.5 * tf.atan2(u, q)

    def grad(d_fraction, d_angle):
        safe = tf.where(fraction > 0, fraction, tf.ones_like(fraction))
        radial = d_fraction / (i * i * safe)
        turn = tf.math.divide_no_nan(0.5 * d_angle, q * q + u * u)
        d_stokes = tf.stack(
            [-d_fraction * fraction / i, radial * q - turn * u, radial * u + turn * q],
            axis=-1)
        return d_stokes, -radial * sigma

    return (fraction, angle), grad


def evpa_misfit(stokes, sigma, target_angle):
    """1 - cos of twice the angle error, weighted by the polarised fraction."""
    fraction, angle = polarization_state(stokes, sigma)
    return tf.reduce_sum(fraction * (1.0 - tf.cos(2.0 * (angle - target_angle))))
