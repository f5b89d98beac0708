from typing import NamedTuple

import tensorflow as tf

T_REF = 298.15


class FadeParams(NamedTuple):
    rate: float = 2.0e-3  # per sqrt(day) at T_REF, empty cell
    activation: float = 3500.0  # Ea / R, K
    soc_slope: float = 1.4
    exponent: float = 0.5


def _sum_to(g, ref):
    lead = g.shape.rank - ref.shape.rank
    g = tf.reduce_sum(g, axis=list(range(lead))) if lead > 0 else g
    keep = [i for i in range(ref.shape.rank) if ref.shape[i] == 1 and g.shape[i] > 1]
    return tf.reduce_sum(g, axis=keep, keepdims=True) if keep else g


@tf.custom_gradient
def parallel_currents(ocv, resistance, load, connected):
    """Splits a pack load over cells in parallel.

    Args:
      ocv: [B, K] open-circuit voltages.
      resistance: [B, K], [1, K] or [K] series resistances, ohm.
      load: [B] pack current, discharge positive.
      connected: [B, K] bool, False where the contactor is open.

    Returns:
      (currents [B, K], bus voltage [B]); the currents add up to `load`.
    """
    closed = tf.cast(connected, ocv.dtype)
    g = closed / resistance
    g_sum = tf.reduce_sum(g, axis=-1, keepdims=True)
    bus = (tf.reduce_sum(g * ocv, axis=-1, keepdims=True) - load[:, None]) / g_sum
    drop = ocv - bus
    currents = g * drop

    def grad(d_currents, d_bus):
        coupling = -tf.reduce_sum(d_currents * g, axis=-1, keepdims=True)
        d_node = (coupling + d_bus[:, None]) / g_sum
        d_ocv = g * (d_currents + d_node)
        d_load = -d_node[:, 0]
        d_g = drop * (d_currents + coupling / g_sum)
        d_resistance = -d_g * g / resistance
        return d_ocv, _sum_to(d_resistance, resistance), d_load, None

    return (currents, bus[:, 0]), grad


def calendar_fade(soc, temperature, days, valid=None, params=FadeParams(), reduction="none"):
    """Capacity lost in storage, `(sum_t k_t^(1/z) dt_t)^z`, over padded [B, T] histories.

    A history has some storage time in it or is all padding (no fade, no gradient).
    """
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"unknown reduction {reduction!r}")
    weight = tf.ones_like(soc) if valid is None else tf.cast(valid, soc.dtype)
    z = params.exponent

    @tf.custom_gradient
    def rule(soc, temperature, days):
        kelvin = tf.where(weight > 0.0, temperature, T_REF * tf.ones_like(temperature))
        socf = 1.0 + params.soc_slope * soc
        k = params.rate * socf * tf.exp(-params.activation * (1.0 / kelvin - 1.0 / T_REF))
        speed = weight * tf.pow(k, 1.0 / z)
        dose = tf.reduce_sum(speed * days, axis=-1)
        aged = dose > 0.0
        safe = tf.where(aged, dose, tf.ones_like(dose))
        fade = tf.where(aged, tf.pow(safe, z), tf.zeros_like(dose))

        if reduction == "sum":
            out = tf.reduce_sum(fade)
        elif reduction == "mean":
            out = tf.reduce_mean(fade)
        else:
            out = fade

        def grad(up):
            if reduction == "mean":
                up = up / tf.cast(tf.size(fade), fade.dtype)
            d_dose = up * tf.where(aged, z * tf.pow(safe, z - 1.0), tf.zeros_like(dose))
            d_dose = d_dose[..., tf.newaxis]
            d_logk = d_dose * speed * days / z
            return (
                _sum_to(d_logk * params.soc_slope / socf, soc),
                _sum_to(d_logk * params.activation / tf.square(kelvin), temperature),
                _sum_to(d_dose * speed * tf.ones_like(days), days),
            )

        return out, grad

    return rule(soc, temperature, days)


@tf.custom_gradient
def rc_overpotential(current, ohm, farad, dt, v0):
    # current [B, T], ohm/farad/v0 [B], dt [T]
    tau = ohm * farad
    decay = tf.exp(-dt[None, :] / tau[:, None])
    gain = -tf.math.expm1(-dt[None, :] / tau[:, None])
    steps = current.shape[1]
    volts = [v0]
    for t in range(steps):
        volts.append(decay[:, t] * volts[-1] + ohm * gain[:, t] * current[:, t])
    before = tf.stack(volts[:-1], axis=1)

    def grad(up):
        lam = tf.zeros_like(v0)
        adj = [None] * steps
        for t in reversed(range(steps)):
            lam = lam + up[:, t]
            adj[t] = lam
            lam = lam * decay[:, t]
        adj = tf.stack(adj, axis=1)
        d_current = adj * gain * ohm[:, None]
        d_exponent = adj * decay * (before - ohm[:, None] * current)
        d_tau = tf.reduce_sum(d_exponent * dt[None, :], axis=1) / tf.square(tau)
        d_ohm = tf.reduce_sum(adj * gain * current, axis=1) + d_tau * farad
        d_dt = -tf.reduce_sum(d_exponent / tau[:, None], axis=0)
        return d_current, d_ohm, d_tau * ohm, d_dt, lam

    return tf.stack(volts[1:], axis=1), grad
