import math

import keras
from keras import ops


def _fold(value, like):
    lead = len(value.shape) - len(like.shape)
    if lead > 0:
        value = ops.sum(value, axis=tuple(range(lead)))
    for i, n in enumerate(like.shape):
        if n == 1 and value.shape[i] != 1:
            value = ops.sum(value, axis=i, keepdims=True)
    return value


class GroundVibration:
    """Peak particle velocity by the square-root scaled distance law, v = k_s (R / sqrt(W))^(-b_s).

    `sites` (S,) tells the geology of each seismograph record; k and b have one entry per geology.
    """

    def __init__(self, sites):
        self.sites = sites

    def __call__(self, k, b, distance, charge):
        """k, b (G,) positive; distance (S,) in m and charge (S,) in kg per delay, positive -> (S,) in mm/s."""
        sites = ops.convert_to_tensor(self.sites, dtype="int32")

        @keras.ops.custom_gradient
        def scaled_distance_ppv(k, b, distance, charge):
            ks, bs = ops.take(k, sites, axis=0), ops.take(b, sites, axis=0)
            log_scaled = ops.log(distance) - 0.5 * ops.log(charge)
            velocity = ks * ops.exp(-bs * log_scaled)

            def grad(*args, upstream=None):
                g = upstream if upstream is not None else args[0]
                gv = g * velocity
                index = sites[:, None]
                return (
                    ops.scatter_update(ops.zeros_like(k), index, gv / ks),
                    ops.scatter_update(ops.zeros_like(b), index, -gv * log_scaled),
                    -gv * bs / distance,
                    0.5 * gv * bs / charge,
                )

            return velocity, grad

        return scaled_distance_ppv(k, b, distance, charge)


@keras.ops.custom_gradient
def rosin_rammler_passing(size, median, uniformity):
    # all > 0; capped where the mass passing is zero or one to the last digit
    log_ratio = ops.log(size) - ops.log(median)
    power = ops.exp(ops.clip(uniformity * log_ratio, -80.0, 60.0)) * math.log(2.0)
    passing = -ops.expm1(-power)

    def grad(*args, upstream=None):
        g = upstream if upstream is not None else args[0]
        density = g * ops.exp(-power) * power
        return (
            _fold(density * uniformity / size, size),
            _fold(-density * uniformity / median, median),
            _fold(density * log_ratio, uniformity),
        )

    return passing, grad


def sieve_misfit(sizes, observed, median, uniformity):
    """Mean squared misfit of sieve curves: sizes (M,), observed (B, M), median and uniformity (B, 1)."""
    misfit = rosin_rammler_passing(sizes, median, uniformity) - observed
    return ops.sum(ops.square(misfit)) / math.prod(observed.shape)
