import numpy as np
import keras
from keras import ops

# cores of the Larch plot: calendar year of the first ring (from 1890 on), number of rings
LARCH_FIRST = np.array([0, 4, 4, 11, 30])
LARCH_RINGS = np.array([40, 36, 22, 29, 9])

CLIMATE = {"t_bounds": (3.0, 14.0), "m_bounds": (0.05, 0.35)}  # deg C, v/v


def _ramp(value, bounds):
    # bounds (sites, 2) -> lower, width broadcastable to (sites, years, 12)
    lower = bounds[:, 0][:, None, None]
    width = bounds[:, 1][:, None, None] - lower
    return ops.clip((value - lower) / width, 0.0, 1.0), width


def make_vslite(first=-3, last=9):
    """Growth by the scarcer of warmth and water, summed over a window of months.

    first, last: months of the window, last excluded; 0 is January of the year of the ring
    and negative ones belong to the year before.
    """
    assert -12 <= first < last <= 12
    window = np.zeros(24)
    window[12 + first : 12 + last] = 1.0

    @ops.custom_gradient
    def increment(
        temp,      # (sites, years, 12)
        moist,     # (sites, years, 12)
        t_bounds,  # (sites, 2): no growth below the first, no limit above the second
        m_bounds,  # (sites, 2)
        light,     # (sites, 12) relative day length
    ):
        warm, t_width = _ramp(temp, t_bounds)
        wet, m_width = _ramp(moist, m_bounds)
        least = ops.where(warm < wet, warm, wet)
        monthly = light[:, None, :] * least
        before, now = ops.cast(window[:12], temp.dtype), ops.cast(window[12:], temp.dtype)
        rings = ops.sum(before * monthly[:, :-1], -1) + ops.sum(now * monthly[:, 1:], -1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            up = upstream[:, :, None]
            g_month = ops.pad(up * before, [[0, 0], [0, 1], [0, 0]])
            g_month = g_month + ops.pad(up * now, [[0, 0], [1, 0], [0, 0]])
            g_light = ops.sum(g_month * least, axis=1)
            g_least = g_month * light[:, None, :]

            def through(ramp, width, limits):
                slope = ops.where(limits, g_least, 0.0) / width
                inside = ops.cast((ramp > 0.0) & (ramp < 1.0), slope.dtype)
                g_lower = -ops.sum(slope * (1.0 - ramp), axis=(1, 2))
                g_upper = -ops.sum(slope * ramp, axis=(1, 2))
                return slope * inside, ops.stack([g_lower, g_upper], axis=1)

            g_temp, g_tb = through(warm, t_width, warm < wet)
            g_moist, g_mb = through(wet, m_width, wet < warm)
            return g_temp, g_moist, g_tb, g_mb, g_light

        return rings, grad  # (sites, years - 1)

    return increment


def make_chronology(first_year, rings, n_years, stabilise=True):
    """Mean curve of cores of unequal age.

    Row c of the indices holds rings[c] values from year first_year[c] on, then filling.
    With stabilise the departures from one are multiplied by the root of the effective
    number of independent cores, n / (1 + (n - 1) rbar), n = (sum w)^2 / sum w^2.
    Years without a core are one.
    """
    first_year, rings = np.asarray(first_year), np.asarray(rings)

    @ops.custom_gradient
    def chronology(index, weight, rbar):
        cores, longest = index.shape
        step = np.arange(longest)
        year = np.where(step < rings[:, None], first_year[:, None] + step, -1).reshape(-1, 1)
        place = ops.cast(year == np.arange(n_years), index.dtype)  # (cores * longest, n_years)

        def per_year(values):
            return ops.sum(ops.reshape(values, (-1, 1)) * place, axis=0)

        def per_ring(values):
            return ops.reshape(ops.sum(place * values, axis=1), (cores, longest))

        w = ops.broadcast_to(weight[:, None], index.shape)
        w1 = per_year(w)
        some = w1 > 0
        w1 = ops.where(some, w1, 1.0)
        w2 = ops.where(some, per_year(ops.square(w)), 1.0)
        mean = ops.where(some, per_year(w * index) / w1, 1.0)
        n = ops.square(w1) / w2
        dilution = 1.0 + (n - 1.0) * rbar
        gain = ops.sqrt(n / dilution) if stabilise else ops.ones_like(n)

        def grad(*args, upstream=None):
            g = args[0] if upstream is None else upstream
            g = ops.where(some, g, 0.0)
            g_sum = g * gain / w1
            g_index = per_ring(g_sum) * w
            g_w = per_ring(g_sum) * index - per_ring(g_sum * mean)
            g_rbar = ops.zeros_like(rbar)
            if stabilise:
                g_eff = 0.5 * g * (mean - 1.0) / gain
                g_n = g_eff * (1.0 - rbar) / ops.square(dilution)
                g_w = g_w + per_ring(2.0 * g_n * w1 / w2) - per_ring(2.0 * g_n * n / w2) * w
                g_rbar = -ops.sum(g_eff * n * (n - 1.0) / ops.square(dilution))
            return g_index, ops.sum(g_w, axis=1), g_rbar

        return 1.0 + (mean - 1.0) * gain, grad

    return chronology


class VSLite(keras.layers.Layer):
    def __init__(self, sites, first=-3, last=9, **kw):
        super().__init__(**kw)
        self.increment = make_vslite(first, last)
        self.limits = {
            name: self.add_weight(
                shape=(sites, 2),
                name=name,
                initializer=lambda shape, dtype=None, v=v: ops.broadcast_to(
                    ops.cast(ops.array(v), dtype or "float32"), shape
                ),
            )
            for name, v in CLIMATE.items()
        }

    def call(self, temp, moist, light):
        # tensors, not variables
        tb, mb = (ops.multiply(self.limits[k], 1.0) for k in ("t_bounds", "m_bounds"))
        raw = self.increment(temp, moist, tb, mb, light)
        centre = ops.mean(raw, axis=1, keepdims=True)
        return (raw - centre) / (ops.std(raw, axis=1, keepdims=True) + 1e-6)


def larch_mean_curve(index, weight, rbar=0.3):
    curve = make_chronology(LARCH_FIRST, LARCH_RINGS, 44)
    return curve(index, weight, ops.convert_to_tensor(rbar, dtype=index.dtype))


def demo(seed=1):
    rng = np.random.default_rng(seed)
    temp = rng.normal(8.0, 6.0, (2, 30, 12)).astype("float32")
    moist = rng.uniform(0.0, 0.5, (2, 30, 12)).astype("float32")
    light = np.tile(0.5 + 0.5 * np.sin(np.pi * (np.arange(12) + 0.5) / 12), (2, 1))
    simulated = VSLite(2)(*map(ops.convert_to_tensor, (temp, moist, light.astype("float32"))))
    index = ops.convert_to_tensor(rng.gamma(20.0, 0.05, (5, 40)).astype("float32"))
    return simulated, larch_mean_curve(index, ops.ones((5,)))
