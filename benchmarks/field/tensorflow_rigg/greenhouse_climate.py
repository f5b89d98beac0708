"""Backend-agnostic pieces of a greenhouse climate model."""
import keras
from keras import ops

G = 9.81
KELVIN = 273.15


def _cotangent(args, upstream):
    return upstream if upstream is not None else args[0]


def _reduce_like(g, ref):
    """Sum g down to the shape of ref (numpy broadcasting rules)."""
    shape = tuple(ref.shape)
    while len(g.shape) > len(shape):
        g = ops.sum(g, axis=0)
    for i, n in enumerate(shape):
        if n == 1 and g.shape[i] != 1:
            g = ops.sum(g, axis=i, keepdims=True)
    return g


@keras.ops.custom_gradient
def pipe_heating(pipe_temp, air_temp, length, exponent):
    """Heat given off by the heating pipes of each compartment, in watts.

    Every loop p emits ``length * 1.28 * sign(dT) * |dT| ** exponent`` with
    ``dT = pipe_temp - air_temp``; loops are summed.

    Args:
        pipe_temp: (batch, loops) water temperature, deg C.
        air_temp: (batch, zones) air temperature, deg C.
        length: (zones, loops) metres of pipe of a loop in a zone.
        exponent: (loops,) exponents, larger than 1 (1.25 - 1.4 for usual pipes).

    Returns:
        (batch, zones). Negative where cooled water takes heat up. A zone at exactly the
        temperature of a loop gets nothing from it (and has slope zero).
    """
    dt = ops.expand_dims(pipe_temp, 1) - ops.expand_dims(air_temp, 2)
    mag = ops.abs(dt)
    some = mag > 0
    log_mag = ops.log(ops.where(some, mag, ops.ones_like(mag)))
    emit = ops.where(some, ops.sign(dt) * ops.exp(exponent * log_mag), ops.zeros_like(dt))
    heat = 1.28 * ops.sum(length * emit, axis=-1)

    def grad(*args, upstream=None):
        u = 1.28 * ops.expand_dims(_cotangent(args, upstream), -1)
        slope = ops.where(some, exponent * ops.exp((exponent - 1.0) * log_mag), ops.zeros_like(dt))
        d_dt = u * length * slope
        return (
            ops.squeeze(_reduce_like(d_dt, ops.expand_dims(pipe_temp, 1)), axis=1),
            ops.squeeze(_reduce_like(-d_dt, ops.expand_dims(air_temp, 2)), axis=2),
            _reduce_like(u * emit, length),
            _reduce_like(u * length * emit * log_mag, exponent),
        )

    return heat, grad


def partition_assimilates(demand, supply, alive=None, axis=-1):
    """Divide ``supply`` (size 1 along ``axis``) among organs by relative sink strength."""
    keep = ops.ones_like(demand) if alive is None else ops.cast(alive, demand.dtype)

    @ops.custom_gradient
    def sink_share(demand, supply):
        sink = demand * keep
        pool = ops.sum(sink, axis=axis, keepdims=True) + 1e-6
        share = sink / pool

        def grad(*args, upstream=None):
            u = _cotangent(args, upstream)
            centred = u - ops.sum(u * share, axis=-1, keepdims=True)
            d_demand = keep * supply * centred / pool
            return d_demand, ops.sum(u * share, axis=axis, keepdims=True)

        return supply * share, grad

    return sink_share(demand, supply)


class VentOpening:
    def __init__(self, height=0.9, discharge=0.65, wind_coef=0.09):
        self.height = height
        self.discharge = discharge
        self.wind_coef = wind_coef

    def flow(self, area, t_in, t_out, wind):
        h, cd, cw = self.height, self.discharge, self.wind_coef

        # inside warmer than outside
        @keras.ops.custom_gradient
        def vent_exchange(area, t_in, t_out, wind):
            mean_k = 0.5 * (t_in + t_out) + KELVIN
            head = 2.0 * G * 0.5 * h * (t_in - t_out) / mean_k + cw * wind * wind
            speed = ops.sqrt(head)

            def grad(*args, upstream=None):
                u = _cotangent(args, upstream)
                d_head = u * 0.25 * cd * area / speed
                lift = d_head * G * h / (mean_k * mean_k)
                return (
                    _reduce_like(0.5 * cd * u * speed, area),
                    _reduce_like(lift * (t_out + KELVIN), t_in),
                    _reduce_like(-lift * (t_in + KELVIN), t_out),
                    _reduce_like(2.0 * cw * d_head * wind, wind),
                )

            return 0.5 * cd * area * speed, grad

        return vent_exchange(area, t_in, t_out, wind)
