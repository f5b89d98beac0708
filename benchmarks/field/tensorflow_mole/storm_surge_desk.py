"""Residual water levels at a network of gauges, and their meteorological drivers."""

import dataclasses

import numpy as np
import tensorflow as tf

RHO_AIR = 1.225          # kg m-3
RHO_SEA = 1025.0         # kg m-3
GRAVITY = 9.81           # m s-2
WU_OFFSET = 0.8e-3       # Wu (1982)
WU_SLOPE = 0.065e-3      # s m-1
SATURATION_SPEED = 28.0  # m s-1, the sea-surface drag no longer grows in hurricane winds

LEVELS = ("station", "network", "none")


@dataclasses.dataclass(frozen=True)
class Exposure:
    """Geometry of the fetch in front of each gauge.

    Attributes
    ----------
    fetch : ndarray, shape (S,)
        Length of the shelf in metres.
    bearing : ndarray, shape (S,)
        Direction (radians, mathematical) towards which wind piles water up.
    """

    fetch: np.ndarray
    bearing: np.ndarray


def _sum_to_shape(grad, target):
    """Sum `grad` over the leading and unit axes along which `target` was broadcast."""
    extra = len(grad.shape) - len(target.shape)
    if extra:
        grad = tf.reduce_sum(grad, axis=list(range(extra)))
    axes = [i for i, (a, b) in enumerate(zip(grad.shape, target.shape)) if b == 1 and a != 1]
    if axes:
        grad = tf.reduce_sum(grad, axis=axes, keepdims=True)
    return grad


def make_wind_setup(exposure, cap=SATURATION_SPEED):
    """Build the wind set-up operator of a network.

    Parameters
    ----------
    exposure : Exposure
    cap : float
        Wind speed above which the drag coefficient is constant. Winds up to
        category-5 storms (some 75 m/s) are meant to be put in.

    Returns
    -------
    callable
        ``wind_setup(u, v, depth)`` with winds of shape (T, S) in m/s and mean
        shelf depth of shape (S,) in metres; gives the set-up in metres, (T, S).
    """

    @tf.custom_gradient
    def wind_setup(u, v, depth):
        fetch = tf.cast(exposure.fetch, u.dtype)
        cos = tf.cast(np.cos(exposure.bearing), u.dtype)
        sin = tf.cast(np.sin(exposure.bearing), u.dtype)
        speed = tf.sqrt(u * u + v * v)
        drag = WU_OFFSET + WU_SLOPE * tf.minimum(speed, cap)
        onshore = u * cos + v * sin
        scale = RHO_AIR * fetch / (RHO_SEA * GRAVITY * depth)
        setup = scale * drag * speed * onshore

        def grad(upstream):
            g = upstream * scale
            d_onshore = g * drag * speed
            d_speed = g * onshore * (drag + WU_SLOPE * speed)
            unit_u = tf.math.divide_no_nan(u, speed)
            unit_v = tf.math.divide_no_nan(v, speed)
            d_u = d_onshore * cos + d_speed * unit_u
            d_v = d_onshore * sin + d_speed * unit_v
            d_depth = -tf.reduce_sum(upstream * setup, axis=0) / depth
            return d_u, d_v, d_depth

        return setup, grad

    return wind_setup


def make_levelled_residual(good, level="station"):
    """Observed minus predicted level, with the gauge datum taken out.

    Parameters
    ----------
    good : array_like of bool, shape (S, T)
        Hours that passed quality control. Others give a residual of zero.
    level : {"station", "network", "none"}
        Whether the mean of the good hours is removed gauge by gauge, once for
        all gauges together, or not at all.

    Returns
    -------
    callable
        ``levelled_residual(observed, predicted)``; `observed` is (S, T) and
        `predicted` (S, T), (S, 1) or (T,).
    """
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, got {level!r}")
    axes = {"station": [1], "network": [0, 1]}.get(level)

    @tf.custom_gradient
    def levelled_residual(observed, predicted):
        use = tf.cast(good, observed.dtype)

        def centre(x):
            x = x * use
            if axes is None:
                return x
            hours = tf.maximum(tf.reduce_sum(use, axis=axes, keepdims=True), 1.0)
            return x - use * tf.reduce_sum(x, axis=axes, keepdims=True) / hours

        def grad(upstream):
            g = centre(upstream)
            return g, -_sum_to_shape(g, predicted)

        return centre(observed - predicted), grad

    return levelled_residual


def make_inverse_barometer(area, cell):
    """Static response of the sea to air pressure.

    Parameters
    ----------
    area : array_like, shape (N,)
        Ocean area of each grid cell; cells shrink towards the pole and at coasts.
    cell : array_like of int, shape (S,)
        Grid cell of each gauge. Several gauges may lie in one cell.

    Returns
    -------
    callable
        ``inverse_barometer(pressure, response)``, pressure (T, N) in hPa, response
        (S,) in metres per hPa (0.01 for the ideal ocean); gives (T, S) in metres.
    """
    cell = tf.constant(cell, tf.int32)
    count = len(area)

    @tf.custom_gradient
    def inverse_barometer(pressure, response):
        weight = tf.cast(area, pressure.dtype)
        ocean = tf.linalg.matvec(pressure, weight)[:, None] / tf.reduce_sum(weight)
        anomaly = tf.gather(pressure, cell, axis=1) - ocean
        eta = -response * anomaly

        def grad(upstream):
            d_anomaly = -response * upstream
            at_cells = tf.math.unsorted_segment_sum(tf.transpose(d_anomaly), cell, count)
            d_pressure = tf.transpose(at_cells) - tf.reduce_sum(d_anomaly, axis=1, keepdims=True) / count
            return d_pressure, -tf.reduce_sum(upstream * anomaly, axis=0)

        return eta, grad

    return inverse_barometer


class SurgeModel(tf.Module):
    """Set-up plus barometer, calibrated against the levelled residuals."""

    def __init__(self, exposure, area, cell, depth, name=None):
        super().__init__(name=name)
        self.log_depth = tf.Variable(np.log(depth))
        self.response = tf.Variable(np.full(len(depth), 0.01))
        self._wind = make_wind_setup(exposure)
        self._pressure = make_inverse_barometer(area, cell)

    def __call__(self, u, v, pressure):
        depth = tf.exp(self.log_depth)
        return self._wind(u, v, depth) + self._pressure(pressure, tf.convert_to_tensor(self.response))


def calibrate(model, forcing, observed, predicted, good, steps=200, rate=1e-2):
    """Fit depths and barometer responses; returns the history of misfits."""
    residual = make_levelled_residual(good)(observed, predicted)
    optimizer = tf.keras.optimizers.Adam(rate)
    history = []
    for _ in range(steps):
        with tf.GradientTape() as tape:
            misfit = tf.reduce_mean(tf.square(tf.transpose(model(*forcing)) - residual))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(misfit, variables), variables))
        history.append(float(misfit))
    return history
