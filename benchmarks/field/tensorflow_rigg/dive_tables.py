import numpy as np

import keras
from keras import ops

LN2 = 0.6931471805599453
WATER_VAPOUR = 0.0627  # bar
N2_HALF_TIMES = np.array([5.0, 8.0, 12.5, 18.5, 27.0, 38.3, 54.3, 77.0])
HE_HALF_TIMES = N2_HALF_TIMES / 2.65


def buhlmann_coefficients(half_times):
    return 2.0 * half_times ** (-1.0 / 3.0), 1.005 - half_times ** -0.5


def inspired(depth_bar, fraction):
    return (depth_bar - WATER_VAPOUR) * fraction


def _upstream(args, upstream):
    return upstream if upstream is not None else args[0]


@ops.custom_gradient
def tissue_tension(start, inspired_gas, minutes, half_times):
    """Inert gas tension at the end of a dive that is held level in T steps.

    start (B, C) bar, inspired_gas (B, T) bar, minutes (B, T), half_times (C,) min; gives (B, C).
    """
    rate = LN2 / half_times
    steps = inspired_gas.shape[1]
    tension = start
    decays, trace = [], []
    for t in range(steps):
        decay = ops.exp(-minutes[:, t : t + 1] * rate)
        gas = inspired_gas[:, t : t + 1]
        tension = gas + (tension - gas) * decay
        decays.append(decay)
        trace.append(tension)

    def grad(*args, upstream=None):
        u = _upstream(args, upstream)
        d_gas, d_minutes = [None] * steps, [None] * steps
        d_rate = ops.zeros_like(rate)
        for t in reversed(range(steps)):
            decay = decays[t]
            gap = inspired_gas[:, t : t + 1] - trace[t]
            d_gas[t] = ops.sum(u * (1.0 - decay), axis=1)
            d_minutes[t] = ops.sum(u * gap * decay * rate, axis=1)
            d_rate = d_rate + ops.sum(u * gap * decay * minutes[:, t : t + 1], axis=0)
            u = u * decay
        d_half = -d_rate * rate / half_times
        return u, ops.stack(d_gas, axis=1), ops.stack(d_minutes, axis=1), d_half

    return tension, grad


def make_ceiling(n2_half_times=N2_HALF_TIMES, he_half_times=HE_HALF_TIMES):
    """Ceiling with gradient factors for trimix dives.

    Returns ``ceiling(n2, he, gf)`` with n2, he (B, C) tensions in bar (their sum
    positive) and gf (B,) in (0, 1]; the result, (B,), is the lowest ambient pressure
    that the leading compartment tolerates. Where two compartments lead exactly alike,
    the first one gets the gradient.
    """
    an, bn = buhlmann_coefficients(np.asarray(n2_half_times))
    ah, bh = buhlmann_coefficients(np.asarray(he_half_times))
    count = len(an)

    @ops.custom_gradient
    def deco_ceiling(n2, he, gf):
        if tuple(n2.shape) != tuple(he.shape) or tuple(gf.shape) != tuple(n2.shape[:-1]):
            raise ValueError("n2 and he must be (B, C), gf (B,)")
        a_n, b_n, a_h, b_h = (ops.convert_to_tensor(v, dtype=n2.dtype) for v in (an, bn, ah, bh))
        f = ops.expand_dims(gf, -1)
        load = n2 + he
        a = (a_n * n2 + a_h * he) / load
        b = (b_n * n2 + b_h * he) / load
        excess = load - f * a
        width = f / b + 1.0 - f
        tolerated = excess / width
        leader = ops.one_hot(ops.argmax(tolerated, axis=-1), count, dtype=n2.dtype)

        def grad(*args, upstream=None):
            u = ops.expand_dims(_upstream(args, upstream), -1) * leader
            to_excess = u / width
            to_width = -u * tolerated / width
            to_b = -to_width * f / (b * b)

            def partial(a_gas, b_gas):
                return to_excess * (1.0 - f * (a_gas - a) / load) + to_b * (b_gas - b) / load

            d_gf = ops.sum(-to_excess * a + to_width * (1.0 / b - 1.0), axis=-1)
            return partial(a_n, b_n), partial(a_h, b_h), d_gf

        return ops.max(tolerated, axis=-1), grad

    return deco_ceiling


if __name__ == "__main__":
    p = ops.ones((1, 8)) * 0.79
    print(keras.backend.backend(), tissue_tension(p, ops.ones((1, 1)) * 3.0, ops.ones((1, 1)) * 20.0,
                                                  ops.convert_to_tensor(N2_HALF_TIMES, dtype="float32")))
