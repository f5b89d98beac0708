"""Two-process model of sleep regulation (Borbely; Daan, Beersma & Borbely 1984)."""
import math

from keras import ops


def process_s(s0, upper, lower, tau_rise, tau_fall, asleep, dt=1.0):
    """Homeostatic pressure of B subjects over T steps.

    Args:
      s0: ``[B]`` pressure before the first step.
      upper, lower: scalars, the asymptotes awake and asleep.
      tau_rise, tau_fall: ``[B]`` time constants in hours.
      asleep: ``[B, T]``, 1 where the subject sleeps during the step and 0 where it is awake.
      dt: length of a step, hours.

    Returns:
      ``[B, T]`` pressure after every step.
    """
    steps = asleep.shape[1]

    @ops.custom_gradient
    def pressure(s0, upper, lower, tau_rise, tau_fall):
        gone = ops.cast(asleep, s0.dtype)
        keep_wake = ops.exp(-dt / tau_rise)
        keep_sleep = ops.exp(-dt / tau_fall)
        states = [s0]
        for t in range(steps):
            s = states[-1]
            awake_next = upper - (upper - s) * keep_wake
            sleep_next = lower + (s - lower) * keep_sleep
            states.append(gone[:, t] * sleep_next + (1.0 - gone[:, t]) * awake_next)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            carry = ops.zeros_like(s0)
            d_upper = d_lower = ops.zeros_like(s0)
            d_keep_wake = d_keep_sleep = ops.zeros_like(s0)
            for t in range(steps - 1, -1, -1):
                d_next = upstream[:, t] + carry
                d_sleep = d_next * gone[:, t]
                d_wake = d_next - d_sleep
                d_upper = d_upper + d_wake * (1.0 - keep_wake)
                d_lower = d_lower + d_sleep * (1.0 - keep_sleep)
                d_keep_wake = d_keep_wake + d_wake * (states[t] - upper)
                d_keep_sleep = d_keep_sleep + d_sleep * (states[t] - lower)
                carry = d_wake * keep_wake + d_sleep * keep_sleep
            d_rise = d_keep_wake * keep_wake / ops.square(tau_rise)
            d_fall = d_keep_sleep * keep_sleep / ops.square(tau_fall)
            return carry, ops.sum(d_upper), ops.sum(d_lower), d_rise, d_fall

        return ops.stack(states[1:], axis=1), grad

    return pressure(s0, upper, lower, tau_rise, tau_fall)


@ops.custom_gradient
def process_c(hours, mesor, amplitude, acrophase, period):
    harmonic = ops.cast(ops.arange(1, amplitude.shape[0] + 1), amplitude.dtype)
    rate = 2.0 * math.pi * harmonic / period
    lag = hours - acrophase[:, None]
    angle = lag[..., None] * rate
    cos, sin = ops.cos(angle), ops.sin(angle)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        speed = -ops.sum(amplitude * rate * sin, axis=-1)
        d_lag = upstream * speed
        d_hours = d_lag if len(hours.shape) == 2 else ops.sum(d_lag, axis=0)
        return (
            d_hours,
            ops.sum(upstream, axis=1),
            ops.sum(upstream[..., None] * cos, axis=(0, 1)),
            -ops.sum(d_lag, axis=1),
            -ops.sum(d_lag * lag) / period,
        )

    return mesor[:, None] + ops.sum(amplitude * cos, axis=-1), grad


def alertness(s, c, weight=1.0):
    return weight * c - s


if __name__ == "__main__":
    clock = ops.arange(0.0, 24.0)
    curve = process_c(clock, ops.ones((1,)), ops.convert_to_tensor([1.0, 0.3]),
                      ops.convert_to_tensor([16.8]), ops.convert_to_tensor(24.0))
    print(curve)
