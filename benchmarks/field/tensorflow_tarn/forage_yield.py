"""Yearly growth of perennial forage and the year effect in stand records.

Growth is the lesser of a monthly temperature and a moisture response, scaled by
day length, over a season that may start in the autumn before the harvest year.
"""

import math

import numpy as np
from keras import ops


def _upstream(args, upstream):
    return args[0] if upstream is None else upstream


def day_length_weights(latitude_deg):
    """Relative day length of the twelve months at a latitude, 1 for the longest."""
    lat = math.radians(latitude_deg)
    month = np.arange(12)
    tilt = 0.409 * np.sin(2 * np.pi * (30.4 * month + 15 - 80) / 365)
    arc = np.arccos(np.clip(-np.tan(lat) * np.tan(tilt), -1.0, 1.0))
    return arc / arc.max()


def season_table(years, start, stop):
    """Month indices [harvests, months of the season]; years without a whole season are left out."""
    first = 1 if start < 0 else 0
    harvest = np.arange(first, years)
    return 12 * harvest[:, None] + np.arange(start, stop)[None, :]


def make_harvest_growth(years, start=-4, stop=10, latitude_deg=50.0):
    """Growth up to each harvest from monthly climate.

    :param years: number of calendar years in the climate series
    :param start: first month of the season, negative for the year before (-4 is September)
    :param stop: month after the last, at most 12
    :param latitude_deg: of the sites, between the polar circles
    :returns: function of ``temp`` [S, 12 * years], ``moisture`` (same shape) and the pairs
        (zero-growth, full-growth) ``temp_limits`` [S, 2] and ``moist_limits`` [2], giving [S, harvests]
    """
    table = season_table(years, start, stop)
    light = day_length_weights(latitude_deg)[table % 12]

    def ramp(value, low, high):
        return ops.clip((value - low) / (high - low), 0.0, 1.0)

    @ops.custom_gradient
    def harvest_growth(temp, moisture, temp_limits, moist_limits):
        t_low, t_high = temp_limits[:, :1], temp_limits[:, 1:]
        m_low, m_high = moist_limits[0], moist_limits[1]
        g_t = ramp(temp, t_low, t_high)
        g_m = ramp(moisture, m_low, m_high)
        monthly = ops.minimum(g_t, g_m)
        weight = ops.cast(ops.convert_to_tensor(light), temp.dtype)
        out = ops.sum(ops.take(monthly, table, axis=1) * weight, axis=-1)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            spread = g[:, :, None] * weight
            flat = ops.reshape(spread, (temp.shape[0], -1))
            back = ops.segment_sum(
                ops.transpose(flat),
                ops.convert_to_tensor(table.reshape(-1).astype("int32")),
                num_segments=12 * years,
            )
            d_month = ops.transpose(back)
            zero = ops.zeros_like(d_month)
            cold = ops.logical_and(g_t <= g_m, ops.logical_and(g_t > 0, g_t < 1))
            dry = ops.logical_and(g_m < g_t, ops.logical_and(g_m > 0, g_m < 1))
            d_temp = ops.where(cold, d_month, zero) / (t_high - t_low)
            d_moist = ops.where(dry, d_month, zero) / (m_high - m_low)
            d_t_limits = ops.stack(
                [ops.sum(d_temp * (g_t - 1), axis=1), -ops.sum(d_temp * g_t, axis=1)], axis=1
            )
            d_m_limits = ops.stack([ops.sum(d_moist * (g_m - 1)), -ops.sum(d_moist * g_m)])
            return d_temp, d_moist, d_t_limits, d_m_limits

        return out, grad

    return harvest_growth


def make_year_index(stand, year, age, num_stands, num_years, kind="ratio"):
    """Mean of each year's yields, taken against the decline of their stands.

    A stand thins as it ages, towards a lasting level: its curve is
    ``scale * exp(-decay * age) + level``. Yields are indexed against it as a
    ``"ratio"`` or a ``"difference"`` and averaged over the stands that were
    cut in the year; years without any cut are 0.

    Args:
        stand, year: int tables [N], stand and year of each record.
        age: [N], age of the stand at the record.
        num_stands: number of stands.
        num_years: how many years the records span.
        kind: the way of indexing.

    Returns:
        Function of ``tonnes`` [N], ``scale``, ``decay`` and ``level`` [num_stands].
    """
    stand = np.asarray(stand, "int32")
    year = np.asarray(year, "int32")
    depth = np.maximum(np.bincount(year, minlength=num_years), 1)

    def per_stand(values):
        return ops.segment_sum(values, ops.convert_to_tensor(stand), num_segments=num_stands)

    @ops.custom_gradient
    def year_index(tonnes, scale, decay, level):
        years_old = ops.cast(ops.convert_to_tensor(np.asarray(age)), tonnes.dtype)
        count = ops.cast(ops.convert_to_tensor(depth), tonnes.dtype)
        a, b, k = (ops.take(p, stand, axis=0) for p in (scale, decay, level))
        fall = ops.exp(-b * years_old)
        curve = a * fall + k
        index = tonnes / curve if kind == "ratio" else tonnes - curve
        total = ops.segment_sum(index, ops.convert_to_tensor(year), num_segments=num_years)
        out = total / count

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            d_index = ops.take(g / count, year, axis=0)
            if kind == "ratio":
                d_tonnes = d_index / curve
                d_curve = -d_tonnes * index
            else:
                d_tonnes = d_index
                d_curve = -d_index
            return (
                d_tonnes,
                per_stand(d_curve * fall),
                per_stand(-d_curve * years_old * curve),
                per_stand(d_curve),
            )

        return out, grad

    return year_index
