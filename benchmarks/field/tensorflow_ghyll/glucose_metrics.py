"""Metrics of continuous glucose monitoring as differentiable Keras operations.

They serve as training targets and penalties of glucose forecasters. Everything is written with
``keras.ops`` and runs on any backend.
"""

import keras
from keras import ops

MGDL_PER_MMOL = 18.018
SENSOR_RANGE = (20.0, 600.0)  # mg/dL


def _clean(upstream, args):
    # torch hands the inputs over again and the cotangent by name
    if upstream is None:
        (upstream,) = args
    return upstream


def make_glycemic_risk(side="both", units="mg/dL"):
    """Kovatchev's blood glucose risk index.

    Args:
        side: "low" (LBGI), "high" (HBGI) or "both".
        units: "mg/dL" or "mmol/L", the unit of the readings.

    Returns:
        A function of readings ``[patients, time]`` and positive weights of the same shape, e.g. minutes
        represented by each reading. Returns ``[patients]``. Readings beyond the range of the sensor count
        as its limits.
    """
    to_mgdl = {"mg/dL": 1.0, "mmol/L": MGDL_PER_MMOL}[units]
    low, high = SENSOR_RANGE

    @keras.ops.custom_gradient
    def glycemic_risk(glucose, weights):
        mgdl = ops.clip(glucose * to_mgdl, low, high)
        log_g = ops.log(mgdl)
        f = 1.509 * (log_g**1.084 - 5.381)
        if side == "low":
            f = -ops.relu(-f)
        elif side == "high":
            f = ops.relu(f)
        risk = 10.0 * f * f
        total = ops.sum(weights, axis=-1, keepdims=True)
        index = ops.sum(weights * risk, axis=-1, keepdims=True) / total

        def grad(*args, upstream=None):
            upstream = _clean(upstream, args)
            seed = ops.expand_dims(upstream, -1) / total
            slope = 20.0 * f * 1.509 * 1.084 * log_g**0.084 / mgdl
            measured = ops.cast((mgdl > low) & (mgdl < high), mgdl.dtype)
            return seed * weights * slope * measured, seed * (risk - index)

        return ops.squeeze(index, -1), grad

    return glycemic_risk


@keras.ops.custom_gradient
def soft_time_in_range(glucose, minutes, edges, softness):
    """Smoothed share of wear time between two glucose levels.

    Args:
        glucose: ``[patients, time]``.
        minutes: ``[patients, time]`` time each reading stands for, zero where the sensor was off.
        edges: lower and upper level, ``[2]`` for all patients or ``[patients, 2]``.
        softness: scalar width of the transition, in the unit of the readings.

    Returns:
        ``[patients]``; wear below one minute counts as one minute.
    """
    z_low = (glucose - edges[..., 0:1]) / softness
    z_high = (glucose - edges[..., 1:2]) / softness
    above_low, above_high = ops.sigmoid(z_low), ops.sigmoid(z_high)
    inside = above_low - above_high
    wear = ops.sum(minutes, axis=-1, keepdims=True)
    divisor = ops.where(wear > 1.0, wear, ops.ones_like(wear))
    share = ops.sum(minutes * inside, axis=-1, keepdims=True) / divisor

    def grad(*args, upstream=None):
        upstream = _clean(upstream, args)
        seed = ops.expand_dims(upstream, -1) / divisor
        worn = ops.cast(wear > 1.0, share.dtype)
        d_minutes = seed * (inside - worn * share)
        into_low = seed * minutes * above_low * (1.0 - above_low) / softness
        into_high = -seed * minutes * above_high * (1.0 - above_high) / softness
        d_edges = -ops.stack([ops.sum(into_low, -1), ops.sum(into_high, -1)], axis=-1)
        if len(edges.shape) == 1:
            d_edges = ops.sum(d_edges, axis=0)
        d_softness = -ops.sum(into_low * z_low + into_high * z_high)
        return into_low + into_high, d_minutes, d_edges, ops.reshape(d_softness, softness.shape)

    return ops.squeeze(share, -1), grad


def make_conga(lag=1):
    """Continuous overall net glycemic action: spread of the changes over ``lag`` readings.

    The returned rule takes glucose and wear, both [patients, time]; a change counts when the sensor was
    worn (wear above one half) at both of its ends. Sample standard deviation, zero for fewer than two changes.
    """

    @keras.ops.custom_gradient
    def conga(glucose, wear):
        on = ops.cast(wear > 0.5, glucose.dtype)
        now, then = on[:, lag:], on[:, :-lag]
        change = glucose[:, lag:] - glucose[:, :-lag]
        valid = now * then
        count = ops.sum(valid, axis=-1, keepdims=True)
        mean = ops.sum(valid * change, axis=-1, keepdims=True) / ops.maximum(count, ops.ones_like(count))
        spare = ops.maximum(count - 1.0, ops.ones_like(count))
        centred = change - mean
        spread = ops.sqrt(ops.sum(valid * centred * centred, axis=-1, keepdims=True) / spare)

        def grad(*args, upstream=None):
            upstream = _clean(upstream, args)
            positive = spread > 0
            inverse = ops.cast(positive, spread.dtype) / ops.where(positive, spread, ops.ones_like(spread))
            d_change = ops.expand_dims(upstream, -1) * inverse * now * centred / spare
            d_glucose = ops.pad(d_change, [[0, 0], [lag, 0]]) - ops.pad(d_change, [[0, 0], [0, lag]])
            return d_glucose, ops.zeros_like(wear)

        return ops.squeeze(spread, -1), grad

    return conga


class VariabilityPenalty(keras.layers.Layer):
    """Mean CONGA of a forecast as an additional loss."""

    def __init__(self, lag=1, rate=1e-3, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self._conga = make_conga(lag)

    def call(self, glucose, wear):
        self.add_loss(self.rate * ops.mean(self._conga(glucose, wear)))
        return glucose
