"""Moist-air side of the air-handling plant model."""

import collections

import tensorflow as tf

CP_AIR = 1.006  # kJ/(kg K)
CP_VAPOUR = 1.86
P_STANDARD = 101.325  # kPa

MixedAir = collections.namedtuple("MixedAir", "temperature humidity")


def saturation_pressure(t):
    return 0.61094 * tf.exp(17.625 * t / (t + 243.04))


def saturation_ratio(t, p):
    e = saturation_pressure(t)
    return 0.622 * e / (p - e)


def _d_saturation(t, p):
    """Partials of the saturation humidity ratio in temperature and pressure."""
    e = saturation_pressure(t)
    de = e * 17.625 * 243.04 / (t + 243.04) ** 2
    gap2 = (p - e) ** 2
    return 0.622 * p * de / gap2, -0.622 * e / gap2


def apparatus_dew_point(entering, leaving, pressure=P_STANDARD, iters=20):
    """Where the coil line through two unsaturated (t, w) states meets saturation; pressure (kPa) scalar or per state."""
    t_in, w_in = (tf.convert_to_tensor(v) for v in entering)
    t_out, w_out = (tf.convert_to_tensor(v, dtype=t_in.dtype) for v in leaving)
    pressure = tf.convert_to_tensor(pressure, dtype=t_in.dtype)

    @tf.custom_gradient
    def adp_root(t1, w1, t2, w2, p):
        run = t1 - t2
        slope = (w1 - w2) / run
        ta = t2
        for _ in range(iters):
            gap = w1 + slope * (ta - t1) - saturation_ratio(ta, p)
            ta = ta - gap / (slope - _d_saturation(ta, p)[0])

        def grad(g):
            dws, dws_dp = _d_saturation(ta, p)
            lam = g / (dws - slope)
            reach = (ta - t1) / run  # -1 at the leaving state, below it beyond
            g_p = -lam * dws_dp
            if p.shape.rank == 0:
                g_p = tf.reduce_sum(g_p)
            return (
                -lam * slope * (1.0 + reach),
                lam * (1.0 + reach),
                lam * slope * reach,
                -lam * reach,
                g_p,
            )

        return ta, grad

    return adp_root(t_in, w_in, t_out, w_out, pressure)


def mixing_box(flow, temperature, humidity, damper_open=None):
    """Blends the streams of a mixing box.

    Args:
      flow: dry-air mass flows, ``[batch, streams]``, positive.
      temperature: stream temperatures, ``[batch, streams]``.
      humidity: stream humidity ratios in g/kg dry air, ``[batch, streams]``.
      damper_open: optional boolean ``[batch, streams]``; a shut damper takes its stream
        out. Each row needs one open damper at least.

    Returns:
      ``MixedAir`` with two ``[batch]`` tensors.
    """
    if damper_open is None:
        damper_open = tf.ones_like(flow, dtype=tf.bool)
    gate = tf.cast(damper_open, flow.dtype)
    cp_v = CP_VAPOUR / 1000.0

    @tf.custom_gradient
    def mix_streams(m, t, w):
        open_flow = gate * m
        total = tf.reduce_sum(open_flow, axis=-1, keepdims=True)
        share = open_flow / total
        # vapour carries its own sensible heat, so streams weigh by m * (cp_a + cp_v w)
        w_mix = tf.reduce_sum(share * w, axis=-1, keepdims=True)
        heat = CP_AIR + cp_v * w
        heat_mix = CP_AIR + cp_v * w_mix
        t_mix = tf.reduce_sum(share * heat * t, axis=-1, keepdims=True) / heat_mix

        def grad(g_t, g_w):
            g_t, g_w = g_t[..., None], g_w[..., None]
            d_temp = g_t * share * heat / heat_mix
            lift = heat * (t - t_mix) / heat_mix
            d_flow = g_t * gate * lift / total
            d_hum = share * (g_w + g_t * cp_v * (t - t_mix) / heat_mix)
            return d_flow, d_temp, d_hum

        return (tf.squeeze(t_mix, -1), tf.squeeze(w_mix, -1)), grad

    return MixedAir(*mix_streams(flow, temperature, humidity))


def make_zone_ppd(zone_ids, num_zones, weights=None):
    zone_ids = tf.convert_to_tensor(zone_ids)
    count = tf.math.unsorted_segment_sum(tf.ones_like(zone_ids), zone_ids, num_zones)

    @tf.custom_gradient
    def zone_ppd(vote):
        # vote [occupants]; Fanger's share of dissatisfied, averaged with the occupants' hours
        v2 = vote * vote
        calm = 95.0 * tf.exp(-0.03353 * v2 * v2 - 0.2179 * v2)
        hours = tf.ones_like(vote) if weights is None else tf.cast(weights, vote.dtype)
        total = tf.math.unsorted_segment_sum(hours, zone_ids, num_zones)
        mean = tf.math.divide_no_nan(
            tf.math.unsorted_segment_sum(hours * (100.0 - calm), zone_ids, num_zones), total
        )

        def grad(dmean):
            n = tf.cast(tf.gather(count, zone_ids), vote.dtype)
            slope = calm * vote * (0.13412 * v2 + 0.4358)
            return tf.gather(dmean, zone_ids) * hours * slope / n

        return mean, grad

    return zone_ppd
