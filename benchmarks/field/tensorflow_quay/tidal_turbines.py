"""Tidal stream arrays: inflow, wakes and power, differentiable on every Keras backend.

Flow speeds are signed along the channel: flood is positive and ebb negative.
"""
import numpy as np
from keras import ops

RHO_SEA = 1025.0  # kg / m^3
CUT_IN = 0.8  # m / s


def _upstream(args, upstream):
    return args[0] if upstream is None else upstream


def _fit(g, like):
    """Sums a full-size gradient down to the shape of a broadcast operand."""
    shape = tuple(ops.shape(like))
    extra = len(ops.shape(g)) - len(shape)
    if extra > 0:
        g = ops.sum(g, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1)
    return ops.sum(g, axis=axes, keepdims=True) if axes else g


@ops.custom_gradient
def rotor_power(speed, area, cp, rated):
    """Electrical power of each rotor in kW.

    Args:
        speed: Signed flow speed, shape `(times, rotors)`, in m/s.
        area: Swept area, shape `(rotors,)`, in square metres.
        cp: Power coefficient, shape `(rotors,)`.
        rated: Rated power in kW, shape `(rotors,)`.

    Returns:
        Power of shape `(times, rotors)`; rotors yaw, so ebb yields as flood does.
        Below cut-in it is zero, above the rated speed it is held at `rated`.
    """
    mag = ops.abs(speed)
    k = 0.5e-3 * RHO_SEA
    avail = k * area * cp * mag**3
    turning = ops.cast(mag >= CUT_IN, avail.dtype)
    held = ops.cast(avail > rated, avail.dtype)
    power = turning * (held * rated + (1.0 - held) * avail)

    def grad(*args, upstream=None):
        g = turning * _upstream(args, upstream)
        free = g * (1.0 - held)
        d_speed = free * 3.0 * k * area * cp * speed * mag
        return (
            d_speed,
            _fit(free * k * cp * mag**3, area),
            _fit(free * k * area * mag**3, cp),
            _fit(g * held, rated),
        )

    return power, grad


def make_rotor_mean(hub_height, radius, nodes=9):
    """Builds the power-equivalent mean speed over a rotor disc in a sheared flow.

    Args:
        hub_height: Height of the hub above the bed in metres.
        radius: Rotor radius in metres, smaller than `hub_height`.
        nodes: Number of horizontal strips.

    Returns:
        `rotor_mean(hub_speed, alpha)`: the cube-root mean cube speed, in the shape
        of `hub_speed`; `alpha` is the shear exponent, a scalar or an array that
        broadcasts to `hub_speed`, such as one per rotor.
    """
    xi = (np.arange(nodes) + 0.5) * 2.0 / nodes - 1.0
    chord = np.sqrt(1.0 - xi**2)
    strip = (chord / chord.sum()).tolist()
    log_ratio = np.log1p(radius * xi / hub_height).tolist()

    @ops.custom_gradient
    def rotor_mean(hub_speed, alpha):
        cube, slope = 0.0, 0.0
        for w, lr in zip(strip, log_ratio):
            part = w * ops.exp(3.0 * lr * alpha)
            cube = cube + part
            slope = slope + lr * part
        factor = ops.exp(ops.log(cube) / 3.0)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            full = g * hub_speed * factor * slope / cube
            return g * factor, _fit(full, alpha)

        return hub_speed * factor, grad

    return rotor_mean


def make_wakes(downstream, diameter):
    """Builds the top-hat wake model of one array layout.

    Args:
        downstream: Matrix `(rotors, rotors)`; entry `[i, j]` is how far rotor i lies
            downstream of rotor j in metres, or zero if it isn't in j's wake.
        diameter: Rotor diameter in metres.

    Returns:
        `waked_speed(inflow, ct, growth)` with `inflow` and the thrust coefficients
        `ct` (above 0, below 1) of shape `(times, rotors)`. `growth` is the wake growth
        rate, one number for the array or `(rotors,)`, the rate of the wake which
        each rotor sheds. Deficits add up in quadrature.
    """
    x = np.asarray(downstream, dtype="float64")
    inside = (x > 0).astype("float64")

    @ops.custom_gradient
    def waked_speed(inflow, ct, growth):
        dist = ops.convert_to_tensor(x, dtype=inflow.dtype)
        hit = ops.convert_to_tensor(inside, dtype=inflow.dtype)
        shrink = diameter / (diameter + 2.0 * growth * dist)
        thrust = ops.sqrt(1.0 - ct)
        near = (1.0 - thrust)[:, None, :]
        deficit = hit * near * shrink**2
        square = ops.sum(deficit**2, axis=-1)
        waked = square > 0
        total = ops.sqrt(ops.where(waked, square, ops.ones_like(square)))
        total = ops.where(waked, total, ops.zeros_like(total))

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            pull = -g * inflow / ops.where(waked, total, ops.ones_like(total))
            d_def = pull[:, :, None] * deficit
            d_ct = ops.sum(d_def * hit * shrink**2, axis=1) * 0.5 / thrust
            d_grow = d_def * hit * near * shrink**3 * dist * (-4.0 / diameter)
            return g * (1.0 - total), d_ct, _fit(ops.sum(d_grow, axis=2), growth)

        return inflow * (1.0 - total), grad

    return waked_speed


def staggered_layout(rows, columns, spacing):
    """Downstream distances of a regular array whose columns are aligned."""
    row = np.repeat(np.arange(rows), columns)
    col = np.tile(np.arange(columns), rows)
    gap = (row[:, None] - row[None, :]) * spacing
    return np.where((col[:, None] == col[None, :]) & (gap > 0), gap, 0.0)


def array_yield(hub_speed, layout, params, hours):
    """Energy of an array in MWh.

    Args:
        hub_speed: Undisturbed speed at hub height, `(times, rotors)`.
        layout: Output of `staggered_layout`.
        params: Dict with `alpha`, `ct`, `growth`, `area`, `cp` and `rated`.
        hours: Hours which each time step stands for, `(times, 1)`.
    """
    mean = make_rotor_mean(hub_height=18.0, radius=9.0)(hub_speed, params["alpha"])
    local = make_wakes(layout, diameter=18.0)(mean, params["ct"], params["growth"])
    power = rotor_power(local, params["area"], params["cp"], params["rated"])
    return ops.sum(power * hours) / 1000.0
