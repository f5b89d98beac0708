"""Building blocks of a differentiable activated-sludge plant (TensorFlow).

The plant model is calibrated on SCADA series, so that every block has to be cheap in reverse mode: a few closed-form
derivatives are written out here rather than left to the tape.  Concentrations are in g/m3, flows in m3/d, velocities
in m/d.  The leading axis is always the batch of days (or of scenarios).
"""

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class PermitRules:
    """How a discharge permit is charged.

    relative: the excess is taken as a fraction of the limit instead of in g/m3.
    squared: the charge grows with the square of the excess.
    """

    relative: bool = False
    squared: bool = False


TAKACS_DEFAULTS = {
    "v_cap": 250.0,
    "v_0": 474.0,
    "r_h": 5.76e-4,
    "r_p": 2.86e-3,
    "f_ns": 2.28e-3,
}


def _sum_to(value, like):
    """Sum ``value`` over the axes along which ``like`` was broadcast."""
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(like), s1=tf.shape(value))
    return tf.reshape(tf.reduce_sum(value, axes), tf.shape(like))


@tf.custom_gradient
def takacs_velocity(solids, feed, v_cap, v_0, r_h, r_p, f_ns):
    """Double-exponential settling velocity of Takacs et al. (1991).

    Parameters
    ----------
    solids : Tensor [batch, layers]
        Suspended solids of each layer of the clarifier.
    feed : Tensor [batch]
        Suspended solids of the clarifier feed; a share ``f_ns`` of it never settles.
    v_cap, v_0, r_h, r_p, f_ns : Tensor
        Parameters, scalars or anything that broadcasts against ``[batch, layers]``.

    Returns
    -------
    Tensor [batch, layers], between 0 and ``v_cap``.
    """
    feed_col = feed[:, None]
    excess = solids - f_ns * feed_col
    hindered = tf.exp(-r_h * excess)
    flocculent = tf.exp(-r_p * excess)
    raw = v_0 * (hindered - flocculent)
    capped = raw > v_cap
    velocity = tf.where(capped, v_cap + tf.zeros_like(raw), tf.maximum(raw, 0.0))

    def grad(dv):
        zero = tf.zeros_like(dv)
        free = tf.where(tf.logical_and(raw > 0.0, tf.logical_not(capped)), dv, zero)
        d_excess = free * v_0 * (r_p * flocculent - r_h * hindered)
        d_feed = tf.reduce_sum(-f_ns * d_excess, axis=1)
        return (
            d_excess,
            d_feed,
            _sum_to(tf.where(capped, dv, zero), v_cap),
            _sum_to(free * (hindered - flocculent), v_0),
            _sum_to(-free * v_0 * excess * hindered, r_h),
            _sum_to(free * v_0 * excess * flocculent, r_p),
            _sum_to(-feed_col * d_excess, f_ns),
        )

    return velocity, grad


@tf.custom_gradient
def heterotroph_growth(substrate, oxygen, mu, k_s, k_i, k_o, eta):
    """Specific growth of heterotrophs with Haldane inhibition.

    Growth goes on aerobically, and at the reduced rate ``eta`` where oxygen is short (anoxic growth):

        rate = mu * S / (K_S + S + S^2 / K_I) * (O / (K_O + O) + eta * K_O / (K_O + O))

    :param substrate: readily biodegradable substrate, [batch, tanks]
    :param oxygen: dissolved oxygen, [batch, tanks]
    :param mu: maximal rate of each tank, [tanks]
    :param k_s: half-saturation for substrate, [tanks]
    :param k_i: inhibition constant, [tanks]
    :param k_o: half-saturation for oxygen, [tanks]
    :param eta: anoxic reduction factor, [tanks]; zero for strictly aerobic biomass
    :returns: specific growth rate, [batch, tanks]
    """
    pool = k_s + substrate + tf.square(substrate) / k_i
    monod = substrate / pool
    o_sum = k_o + oxygen
    switch = (oxygen + eta * k_o) / o_sum
    rate = mu * monod * switch

    def grad(dr):
        d_monod = dr * mu * switch
        d_switch = dr * mu * monod
        d_pool = -d_monod * substrate / tf.square(pool)
        d_substrate = d_monod / pool + d_pool * (1.0 + 2.0 * substrate / k_i)
        d_oxygen = d_switch * (1.0 - eta) * k_o / tf.square(o_sum)
        d_k_o = -d_switch * oxygen / tf.square(o_sum)
        return (
            d_substrate,
            d_oxygen,
            tf.reduce_sum(dr * monod * switch, axis=0),
            tf.reduce_sum(d_pool, axis=0),
            tf.reduce_sum(-d_pool * tf.square(substrate / k_i), axis=0),
            tf.reduce_sum(d_k_o, axis=0),
            tf.reduce_sum(d_switch * k_o / o_sum, axis=0),
        )

    return rate, grad


@tf.custom_gradient
def blend_streams(conc, flow, source, target):
    """Flow-weighted concentration that enters each tank through the pipes of the plant.

    Args:
      conc: [batch, tanks, species] concentrations of the tanks.
      flow: [pipes] positive flows.
      source: [pipes] integer tank a pipe leaves; a tank may feed several pipes.
      target: [pipes] integer tank a pipe enters; tanks without a pipe receive zeros.

    Returns:
      [batch, tanks, species].
    """
    tanks = tf.shape(conc)[1]
    drawn = tf.gather(tf.transpose(conc, [1, 0, 2]), source)  # pipes, batch, species
    total = tf.math.unsorted_segment_sum(flow, target, tanks)
    load = tf.math.unsorted_segment_sum(flow[:, None, None] * drawn, target, tanks)
    mixed = tf.math.divide_no_nan(load, total[:, None, None])

    def grad(dy):
        dy_tank = tf.transpose(dy, [1, 0, 2])
        dy_pipe = tf.gather(tf.math.divide_no_nan(dy_tank, total[:, None, None]), target)
        d_conc = tf.math.unsorted_segment_sum(flow[:, None, None] * dy_pipe, source, tanks)
        d_flow = tf.reduce_sum(dy_pipe * (drawn - tf.gather(mixed, target)), axis=[1, 2])
        return tf.transpose(d_conc, [1, 0, 2]), d_flow, None, None

    return tf.transpose(mixed, [1, 0, 2]), grad


def make_permit_charge(rules=PermitRules()):
    """Return ``permit_charge(conc, limit, price, sampled)`` for one set of permit rules."""

    @tf.custom_gradient
    def permit_charge(conc, limit, price, sampled):
        """Mean charge of the samples that were taken.

        conc [batch, samples, determinands], limit and price [determinands], sampled [batch, samples] bool; days
        without any sample are free of charge.
        """
        taken = tf.cast(sampled, conc.dtype)
        count = tf.maximum(tf.reduce_sum(taken, axis=1), 1.0)
        gap = conc / limit - 1.0 if rules.relative else conc - limit
        over = tf.nn.relu(gap)
        cost = tf.square(over) if rules.squared else over
        charge = tf.einsum("bnk,k,bn->b", cost, price, taken) / count

        def grad(dc):
            share = (dc / count)[:, None] * taken
            slope = 2.0 * over if rules.squared else tf.cast(gap > 0.0, conc.dtype)
            d_gap = share[:, :, None] * price * slope
            d_price = tf.einsum("bn,bnk->k", share, cost)
            if rules.relative:
                d_gap = d_gap / limit
            d_limit = -tf.reduce_sum(d_gap, axis=[0, 1])
            return d_gap, d_limit, d_price, None

        return charge, grad

    return permit_charge


class Clarifier(tf.Module):
    """Settling layer with trainable Takacs parameters (kept as logarithms)."""

    def __init__(self, start=None, name=None):
        super().__init__(name=name)
        start = {**TAKACS_DEFAULTS, **(start or {})}
        self.logs = {k: tf.Variable(tf.math.log(float(v)), name=k) for k, v in start.items()}

    def __call__(self, solids, feed):
        p = {k: tf.exp(v) for k, v in self.logs.items()}
        velocity = takacs_velocity(
            solids, feed, p["v_cap"], p["v_0"], p["r_h"], p["r_p"], p["f_ns"]
        )
        return velocity * solids
