"""Pumping stations of a distribution network (S time steps, P pumps, J junctions)."""

import keras
from keras import ops

RHO_G = 9.80665  # kN / m3 of water


@ops.custom_gradient
def pump_head(flow, speed, curve):
    """Head of variable-speed pumps by the affinity laws.

    H = a n^2 + b n q + c q^2, where q is the flow; the check valve shuts on reverse
    flow, and the pump then stands at its shut-off head a n^2.

    Args:
        flow: [S, P] in l/s, of either sign.
        speed: [P], relative to the nominal speed, positive.
        curve: [P, 3], the coefficients a, b, c.

    Returns:
        [S, P] heads in m.
    """
    a, b, c = curve[:, 0], curve[:, 1], curve[:, 2]
    q = ops.relu(flow)
    head = a * speed * speed + b * speed * q + c * q * q

    def grad(*args, upstream=None):
        g = upstream if upstream is not None else args[0]
        d_flow = g * (b * speed + 2.0 * c * q)
        d_speed = ops.sum(g * (2.0 * a * speed + b * q), axis=0)
        d_curve = ops.stack(
            [
                ops.sum(g * speed * speed, axis=0),
                ops.sum(g * speed * q, axis=0),
                ops.sum(g * q * q, axis=0),
            ],
            axis=-1,
        )
        return d_flow, d_speed, d_curve

    return head, grad


def energy_bill(running, hours=1.0):
    """running: bool [S, P], the schedule."""

    @ops.custom_gradient
    def bill(flow, head, peak, tariff):
        # flow, head [S, P]; peak [P] efficiency; tariff [S]
        on = ops.cast(ops.convert_to_tensor(running), flow.dtype)
        power = on * RHO_G * 1e-3 * flow * head / peak
        out = hours * ops.sum(tariff[:, None] * power, axis=0)

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            w = hours * on * RHO_G * 1e-3 * tariff[:, None] * g / peak
            return (
                w * head,
                w * flow,
                -g * out / peak,
                hours * ops.matmul(power, g),
            )

        return out, grad

    return bill


@ops.custom_gradient
def pressure_shortfall(heads, influence, required):
    """Mean squared shortfall per time step; heads [S, P], influence [J, P], required [J]."""
    served = ops.matmul(heads, ops.transpose(influence))
    lack = ops.relu(required - served)
    out = ops.sum(lack * lack, axis=-1) / required.shape[0]

    def grad(*args, upstream=None):
        g = upstream if upstream is not None else args[0]
        d_lack = 2.0 * g[:, None] * lack / served.shape[-1]
        d_heads = -ops.matmul(d_lack, influence)
        d_influence = -ops.matmul(ops.transpose(d_lack), heads)
        return d_heads, d_influence, ops.sum(d_lack, axis=0) / heads.shape[0]

    return out, grad


class ServiceLevel(keras.layers.Layer):
    def __init__(self, influence, required, **kwargs):
        super().__init__(**kwargs)
        self.influence = ops.convert_to_tensor(influence)
        self.required = ops.convert_to_tensor(required)

    def call(self, heads):
        return pressure_shortfall(heads, self.influence, self.required)
