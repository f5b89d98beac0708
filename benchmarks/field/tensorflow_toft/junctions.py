import keras
from keras import ops


def _to_shape_of(g, ref):
    while len(g.shape) > len(ref.shape):
        g = ops.sum(g, axis=0)
    for axis, n in enumerate(ref.shape):
        if n == 1 and g.shape[axis] != 1:
            g = ops.sum(g, axis=axis, keepdims=True)
    return g


def signal_delay(cycle, saturation=0.5, period=0.25, k=0.5, incremental_term=True):
    """Mean control delay per vehicle at a fixed-time signal (uniform + incremental term).

    Args:
        cycle: cycle length in seconds.
        saturation: saturation flow in vehicles per second.
        period: analysis period T in hours.
        k: incremental delay factor.
        incremental_term: whether to add the incremental (overflow) delay.

    Returns:
        A function of `green` (effective green, s, 0 < green < cycle) and
        `flow` (arrivals, veh/s, > 0), of one shape [..., M], giving delay in
        seconds. Oversaturated movements (degree of saturation above one) are
        admitted.
    """

    scale = 900.0 * period if incremental_term else 0.0

    @ops.custom_gradient
    def delay(green, flow):
        lam = green / cycle
        capacity = saturation * lam
        x = flow / capacity
        xu = ops.where(x > 1.0, ops.ones_like(x), x)
        red = 1.0 - lam
        denom = 1.0 - xu * lam
        uniform = 0.5 * cycle * red * red / denom
        b = 8.0 * k / (3600.0 * period)
        root = ops.sqrt((x - 1.0) ** 2 + b * x / capacity)
        incremental = scale * ((x - 1.0) + root)

        def grad(*args, upstream=None):
            up = upstream if upstream is not None else args[0]
            # x * lam = flow / saturation, so the uniform term sees green only through `red`
            u_lam = -2.0 * uniform / red
            u_flow = uniform / denom / saturation
            i_x = scale * (1.0 + ((x - 1.0) + 0.5 * b / capacity) / root)
            i_cap = -scale * 0.5 * b * x / (capacity * capacity * root)
            d_capacity = i_cap - i_x * x / capacity
            d_green = (u_lam + d_capacity * saturation) / cycle
            d_flow = u_flow + i_x / capacity
            return up * d_green, up * d_flow

        return uniform + incremental, grad

    return delay


class RouteTimes(keras.layers.Layer):
    def __init__(self, incidence, closed=None, closed_time=3600.0, alpha=0.15, **kwargs):
        super().__init__(**kwargs)
        self.incidence = incidence
        self.closed = closed
        self.closed_time = closed_time
        self.alpha = alpha

    def congested(self, volume, free_time, capacity, power):
        inc = ops.cast(self.incidence, volume.dtype)
        if self.closed is None:
            usable = ops.ones_like(inc[0])
        else:
            usable = 1.0 - ops.cast(self.closed, volume.dtype)

        @ops.custom_gradient
        def route_time(volume, free_time, capacity, power):
            ratio = volume / capacity
            busy = ratio > 0.0
            safe = ops.where(busy, ratio, ops.ones_like(ratio))
            load = ops.where(busy, safe**power, ops.zeros_like(ratio))
            link = free_time * (1.0 + self.alpha * load)
            link = usable * link + (1.0 - usable) * self.closed_time
            out = link @ ops.transpose(inc)

            def grad(*args, upstream=None):
                up = upstream if upstream is not None else args[0]
                d_link = (up @ inc) * usable
                d_load = d_link * free_time * self.alpha
                d_ratio = d_load * power * ratio ** (power - 1.0)
                return (
                    _to_shape_of(d_ratio / capacity, volume),
                    _to_shape_of(d_link * (1.0 + self.alpha * load), free_time),
                    _to_shape_of(-d_ratio * ratio / capacity, capacity),
                    _to_shape_of(d_load * load * ops.log(safe), power),
                )

            return out, grad

        return route_time(volume, free_time, capacity, power)
