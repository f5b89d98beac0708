"""Plant models for model-predictive control of a house: room temperature and battery."""
from typing import List, Tuple

import tensorflow as tf


class RoomModel:
    """One resistance, one capacitance, exact over a step.

    Args:
        dt: Length of a control step in hours.
    """

    def __init__(self, dt: float = 1.0):
        self.dt = float(dt)

    @tf.custom_gradient
    def simulate(self, outdoor, heat, resistance, capacitance, start):
        """Room temperature at the end of every step.

        Outdoor temperature and heat input are constant during a step, in which the room goes
        from ``x`` to ``s + (x - s) * exp(-dt / (R C))`` with ``s = outdoor + R * heat``.

        Args:
            outdoor: ``[rooms, T]`` degrees.
            heat: ``[rooms, T]`` kW, of any sign.
            resistance: ``[rooms]`` R in K/kW.
            capacitance: ``[rooms]`` C in kWh/K.
            start: ``[rooms]`` temperature at the beginning.

        Returns:
            ``[rooms, T]`` degrees.
        """
        keep = tf.exp(-self.dt / (resistance * capacitance))
        steady = outdoor + resistance[:, None] * heat
        levels: List[tf.Tensor] = [start]
        targets = tf.unstack(steady, axis=-1)
        for target in targets:
            levels.append(target + (levels[-1] - target) * keep)

        def grad(upstream):
            adj = tf.zeros_like(start)
            d_keep = tf.zeros_like(keep)
            d_steady = []
            incoming = tf.unstack(upstream, axis=-1)
            for t in range(len(targets) - 1, -1, -1):
                adj = adj + incoming[t]
                d_keep += adj * (levels[t] - targets[t])
                d_steady.append(adj * (1.0 - keep))
                adj = adj * keep
            d_outdoor = tf.stack(d_steady[::-1], axis=-1)
            d_log_rc = d_keep * keep / (resistance * capacitance)
            d_resistance = d_log_rc / resistance + tf.reduce_sum(d_outdoor * heat, axis=-1)
            d_heat = d_outdoor * resistance[:, None]
            return d_outdoor, d_heat, d_resistance, d_log_rc / capacitance, adj

        return tf.stack(levels[1:], axis=-1), grad


@tf.custom_gradient
def dispatch_battery(power, start, capacity, efficiency):
    """Charge level of a battery under a requested power, and what it could not deliver.

    Positive power charges and ``efficiency * power`` arrives; negative power discharges and takes
    ``-power / efficiency`` from the battery. The level is then limited to ``[0, capacity]``. Where the
    power is exactly zero the derivative is the one of charging.

    Args:
        power: ``[homes, T]`` energy requested in each step.
        start: ``[homes]`` level at the beginning, strictly inside the limits.
        capacity: ``[homes]``.
        efficiency: ``[homes]`` one-way efficiency, in ``(0, 1]``.

    Returns:
        ``(level, excess)``, both ``[homes, T]``: the level after each step, and the part of it that
        was cut off by the limits (positive when full, negative when empty).
    """
    raw, level = [], []
    x = start
    requests = tf.unstack(power, axis=-1)
    for u in requests:
        y = x + tf.nn.relu(u) * efficiency - tf.nn.relu(-u) / efficiency
        x = tf.minimum(tf.maximum(y, 0.0), capacity)
        raw.append(y)
        level.append(x)
    levels = tf.stack(level, axis=-1)
    excess = tf.stack(raw, axis=-1) - levels

    def grad(g_level, g_excess) -> Tuple[tf.Tensor, ...]:
        g_level = tf.unstack(g_level, axis=-1)
        g_excess = tf.unstack(g_excess, axis=-1)
        adj = tf.zeros_like(start)
        d_capacity = tf.zeros_like(capacity)
        d_efficiency = tf.zeros_like(efficiency)
        d_power = []
        for t in range(len(requests) - 1, -1, -1):
            adj = adj + g_level[t] - g_excess[t]
            full = raw[t] > capacity
            free = (raw[t] >= 0.0) & ~full
            zero = tf.zeros_like(adj)
            d_capacity += tf.where(full, adj, zero)
            adj = tf.where(free, adj, zero) + g_excess[t]
            u = requests[t]
            d_power.append(tf.where(u >= 0.0, adj * efficiency, adj / efficiency))
            d_efficiency += adj * (tf.nn.relu(u) + tf.nn.relu(-u) / efficiency**2)
        return tf.stack(d_power[::-1], axis=-1), adj, d_capacity, d_efficiency

    return (levels, excess), grad


def plan_cost(heat, power, outdoor, price, room: RoomModel, params, comfort=(20.0, 22.0)):
    """Energy bill plus discomfort of a plan; ``params`` is the dict of plant parameters."""
    temperature = room.simulate(outdoor, heat, params["R"], params["C"], params["start"])
    _, excess = dispatch_battery(power, params["level"], params["capacity"], params["efficiency"])
    low, high = comfort
    discomfort = tf.nn.relu(low - temperature) + tf.nn.relu(temperature - high)
    bill = tf.reduce_sum(price * tf.nn.relu(heat + power), axis=-1)
    return tf.reduce_mean(bill + tf.reduce_sum(discomfort**2 + excess**2, axis=-1))


def improve_plan(heat, power, steps: int = 20, learning_rate: float = 0.05, **problem):
    for _ in range(steps):
        with tf.GradientTape() as tape:
            tape.watch([heat, power])
            cost = plan_cost(heat, power, **problem)
        d_heat, d_power = tape.gradient(cost, [heat, power])
        heat, power = heat - learning_rate * d_heat, power - learning_rate * d_power
    return heat, power
