"""Differentiable water chemistry for swimming pools, plunge pools and hot tubs.

Used by the dosing controller to fit the unknowns of a site (how fast sunlight
eats its chlorine, how much the bathers use) to the hourly probe log and to
plan tomorrow's doses by gradient descent.

Three relations are kept here with derivatives written out by hand, because
the controller board runs a stripped runtime and the plans are re-solved every
few minutes:

* the split of free chlorine into hypochlorous acid and hypochlorite,
* the hour by hour balance of free chlorine under sun, dosing and bathers,
* the calcite saturation (Langelier) index.

Units: ppm (mg/L) for everything dissolved, degrees Celsius, hours.
"""

import dataclasses

import numpy as np
import tensorflow as tf

LN10 = float(np.log(10.0))
KELVIN = 273.15

# Morris' fit of the acid constant of HOCl
PKA_INVERSE = 3000.0
PKA_OFFSET = -10.0686
PKA_LINEAR = 0.0253
IONIC_PER_PPM = 2.5e-5
DEBYE = 0.5

# ppm of stabiliser that halves the sun's effect
STABILISER_HALF = 17.0

# operators' table, temperature against temperature factor
TEMPERATURE_KNOTS = np.array([2.0, 4.0, 8.0, 12.0, 16.0, 19.0, 24.0, 29.0, 34.0, 41.0])
TEMPERATURE_FACTORS = np.array([0.04, 0.10, 0.20, 0.30, 0.40, 0.50, 0.60, 0.70, 0.80, 0.90])
TEMPERATURE_STEP = 5.0

# share of the stabiliser titrated as alkalinity, against pH
CYANURATE_PH = np.array([6.6, 6.8, 7.0, 7.2, 7.4, 7.6, 7.8, 8.0, 8.2])
CYANURATE_SHARE = np.array([0.19, 0.22, 0.23, 0.27, 0.31, 0.33, 0.35, 0.36, 0.37])
CYANURATE_STEP = 0.2

CARBONATE_FLOOR = 1.0
CALCIUM_OFFSET = 0.4
SOLIDS_CONSTANT_LOW = 12.1
SOLIDS_CONSTANT_HIGH = 12.2
SOLIDS_LIMIT = 1000.0


@dataclasses.dataclass
class SiteLog:
    """One day of probe data for several basins."""

    initial: np.ndarray      # (basins,)
    doses: np.ndarray        # (basins, hours)
    bathers: np.ndarray      # (basins, hours)
    sun: np.ndarray          # (hours,)
    stabiliser: np.ndarray   # (basins,)
    residual: np.ndarray     # (basins, hours)


def reduce_to(value, shape):
    """Sum ``value`` down to ``shape``, undoing broadcasting."""
    shape = tf.TensorShape(shape)
    extra = len(value.shape) - len(shape)
    if extra > 0:
        value = tf.reduce_sum(value, axis=list(range(extra)))
    axes = [i for i, n in enumerate(shape) if n == 1 and value.shape[i] != 1]
    if axes:
        value = tf.reduce_sum(value, axis=axes, keepdims=True)
    return value


def bracket(x, knots):
    """Index of the knot left of ``x``, and a flag for ``x`` inside the table."""
    knots_t = tf.constant(knots, x.dtype)
    left = tf.searchsorted(knots_t, tf.reshape(x, [-1]), side="right") - 1
    left = tf.reshape(tf.clip_by_value(left, 0, len(knots) - 2), tf.shape(x))
    inside = (x > knots_t[0]) & (x < knots_t[-1])
    return left, inside


def read_table(x, knots, values):
    """Piecewise linear interpolation, held at both ends."""
    left, _ = bracket(x, knots)
    k = tf.constant(knots, x.dtype)
    v = tf.constant(values, x.dtype)
    k0, k1 = tf.gather(k, left), tf.gather(k, left + 1)
    v0, v1 = tf.gather(v, left), tf.gather(v, left + 1)
    part = tf.clip_by_value((x - k0) / (k1 - k0), 0.0, 1.0)
    return v0 + part * (v1 - v0)


def table_slope(x, knots, values, step):
    """Slope of :func:`read_table` at ``x``; zero off the table."""
    left, inside = bracket(x, knots)
    v = tf.constant(values, x.dtype)
    rise = tf.gather(v, left + 1) - tf.gather(v, left)
    return tf.where(inside, rise / step, tf.zeros_like(rise))


# --------------------------------------------------------------------------
# speciation
# --------------------------------------------------------------------------


@tf.custom_gradient
def split_free_chlorine(total, ph, celsius, solids):
    """Hypochlorous acid and hypochlorite from total free chlorine.

    The four arguments broadcast against each other, e.g. probes over the day
    ``(basins, hours)`` with one ``solids`` reading per basin ``(basins, 1)``.

    Args:
      total: free chlorine, ppm.
      ph: probe pH.
      celsius: water temperature.
      solids: total dissolved solids, ppm, positive.

    Returns:
      A pair ``(acid, base)`` of the broadcast shape; they add up to ``total``.
    """
    kelvin = celsius + KELVIN
    root = tf.sqrt(IONIC_PER_PPM * solids)
    pka = PKA_INVERSE / kelvin + PKA_OFFSET + PKA_LINEAR * kelvin - DEBYE * root / (1.0 + root)
    share = tf.sigmoid(LN10 * (pka - ph))
    acid = total * share
    base = total * (1.0 - share)

    def grad(up_acid, up_base):
        g_total = up_acid * share + up_base * (1.0 - share)
        g_pka = (up_acid - up_base) * total * share * (1.0 - share) * LN10
        g_kelvin = g_pka * (PKA_LINEAR - PKA_INVERSE / tf.square(kelvin))
        g_root = -g_pka * DEBYE / tf.square(1.0 + root)
        g_solids = g_root * IONIC_PER_PPM / (2.0 * root)
        return (
            reduce_to(g_total, total.shape),
            reduce_to(-g_pka, ph.shape),
            reduce_to(g_kelvin, celsius.shape),
            reduce_to(g_solids, solids.shape),
        )

    return (acid, base), grad


# --------------------------------------------------------------------------
# daily balance
# --------------------------------------------------------------------------


def make_chlorine_day(hours, half=STABILISER_HALF):
    """The hourly balance of free chlorine, unrolled over ``hours`` steps.

    Every hour the pump doses and the bathers use chlorine up, but no more
    than there is; the sun then fades what is left.
    """

    @tf.custom_gradient
    def chlorine_day(initial, doses, usage, sun, stabiliser, decay):
        # initial (N,), doses and usage (N, hours), sun (hours,),
        # stabiliser (N,), decay ()
        shield = 1.0 + stabiliser / half
        level = initial
        pools, kept, fades, trace = [], [], [], []
        for hour in range(hours):
            pool = level + doses[:, hour] - usage[:, hour]
            left = tf.nn.relu(pool)
            fade = tf.exp(-decay * sun[hour] / shield)
            level = left * fade
            pools.append(pool)
            kept.append(left)
            fades.append(fade)
            trace.append(level)
        burnt = tf.add_n([left * (1.0 - fade) for left, fade in zip(kept, fades)])

        def grad(up_trace, up_burnt):
            carry = tf.zeros_like(initial)
            g_dose, g_sun = [None] * hours, [None] * hours
            g_shield = tf.zeros_like(initial)
            g_decay = tf.zeros_like(decay)
            for hour in reversed(range(hours)):
                g_level = carry + up_trace[:, hour]
                g_left = g_level * fades[hour] + up_burnt * (1.0 - fades[hour])
                g_fade = (g_level - up_burnt) * kept[hour]
                g_power = g_fade * fades[hour]
                g_decay -= tf.reduce_sum(g_power / shield) * sun[hour]
                g_sun[hour] = -tf.reduce_sum(g_power * decay / shield)
                g_shield += g_power * decay * sun[hour] / tf.square(shield)
                wet = pools[hour] > 0.0
                g_dose[hour] = tf.where(wet, g_left, tf.zeros_like(g_left))
                carry = g_left
            dosed = tf.stack(g_dose, axis=1)
            return carry, dosed, -dosed, tf.stack(g_sun), g_shield / half, g_decay

        return (tf.stack(trace, axis=1), burnt), grad

    return chlorine_day


# --------------------------------------------------------------------------
# saturation
# --------------------------------------------------------------------------


@tf.custom_gradient
def langelier_index(water):
    """Calcite saturation index of each sample; negative water etches plaster.

    ``water`` is a dict of (N,) arrays with the keys ``ph``, ``celsius``,
    ``calcium`` (hardness as CaCO3), ``alkalinity``, ``stabiliser`` and
    ``solids``.  The stabiliser's share of the alkalinity is taken off before
    the carbonate term.  ``solids`` only selects the constant.
    """
    ph, celsius = water["ph"], water["celsius"]
    share = read_table(ph, CYANURATE_PH, CYANURATE_SHARE)
    carbonate = water["alkalinity"] - share * water["stabiliser"]
    floored = tf.maximum(carbonate, CARBONATE_FLOOR)
    constant = tf.where(
        water["solids"] >= SOLIDS_LIMIT,
        SOLIDS_CONSTANT_HIGH * tf.ones_like(ph),
        SOLIDS_CONSTANT_LOW * tf.ones_like(ph),
    )
    index = (
        ph
        + read_table(celsius, TEMPERATURE_KNOTS, TEMPERATURE_FACTORS)
        + tf.math.log(water["calcium"]) / LN10
        - CALCIUM_OFFSET
        + tf.math.log(floored) / LN10
        - constant
    )

    def grad(upstream):
        live = carbonate > CARBONATE_FLOOR
        g_carbonate = tf.where(live, upstream / (LN10 * floored), tf.zeros_like(upstream))
        ph_slope = table_slope(ph, CYANURATE_PH, CYANURATE_SHARE, CYANURATE_STEP)
        heat_slope = table_slope(
            celsius, TEMPERATURE_KNOTS, TEMPERATURE_FACTORS, TEMPERATURE_STEP
        )
        return {
            "ph": upstream - g_carbonate * ph_slope * water["stabiliser"],
            "celsius": upstream * heat_slope,
            "calcium": upstream / (LN10 * water["calcium"]),
            "alkalinity": g_carbonate,
            "stabiliser": -g_carbonate * share,
            "solids": tf.zeros_like(upstream),
        }

    return index, grad


# --------------------------------------------------------------------------
# users
# --------------------------------------------------------------------------


class SiteModel(tf.Module):
    """Unknowns of a site: sun decay, use per bather and a base demand."""

    def __init__(self, hours=24, name=None):
        super().__init__(name=name)
        self.log_decay = tf.Variable(np.log(0.35), dtype=tf.float32)
        self.per_bather = tf.Variable(0.02, dtype=tf.float32)
        self.base = tf.Variable(0.05, dtype=tf.float32)
        self._day = make_chlorine_day(hours)

    def __call__(self, log):
        usage = self.base + self.per_bather * tf.constant(log.bathers, tf.float32)
        return self._day(
            tf.constant(log.initial, tf.float32),
            tf.constant(log.doses, tf.float32),
            usage,
            tf.constant(log.sun, tf.float32),
            tf.constant(log.stabiliser, tf.float32),
            tf.exp(self.log_decay),
        )

    def misfit(self, log):
        trace, burnt = self(log)
        wanted = tf.constant(log.residual, tf.float32)
        return tf.reduce_mean(tf.square(trace - wanted)) + 1e-3 * tf.reduce_mean(burnt)


def plan_balance(water, target=0.0, steps=60, rate=0.03):
    """Pick pH and alkalinity that bring every sample to the target index.

    Works for anything from a 4 degree plunge pool to a 38 degree hot tub.
    """
    ph = tf.Variable(water["ph"])
    log_alkalinity = tf.Variable(tf.math.log(water["alkalinity"]))
    for _ in range(steps):
        with tf.GradientTape() as tape:
            now = dict(
                water,
                ph=tf.convert_to_tensor(ph),
                alkalinity=tf.exp(tf.convert_to_tensor(log_alkalinity)),
            )
            loss = tf.reduce_sum(tf.square(langelier_index(now) - target))
        g_ph, g_alk = tape.gradient(loss, [ph, log_alkalinity])
        ph.assign_sub(rate * g_ph)
        log_alkalinity.assign_sub(rate * g_alk)
    return ph.numpy(), np.exp(log_alkalinity.numpy())


def kill_rate(total, ph, celsius, solids, strength=1.0, weak=0.01):
    """Relative disinfection rate: the base is about a hundred times weaker."""
    acid, base = split_free_chlorine(total, ph, celsius, solids)
    return strength * acid + weak * base


def sample_log(basins=3, hours=24, seed=0):
    rng = np.random.default_rng(seed)
    clock = np.arange(hours)
    sun = np.clip(np.sin((clock - 6) * np.pi / 12.0), 0.0, None)
    bathers = rng.poisson(6.0 * np.exp(-((clock - 15) ** 2) / 18.0), (basins, hours))
    doses = np.zeros((basins, hours))
    doses[:, 7] = 1.5
    doses[:, 20] = 1.0
    return SiteLog(
        initial=rng.uniform(0.4, 2.5, basins),
        doses=doses,
        bathers=bathers.astype(float),
        sun=sun,
        stabiliser=rng.uniform(0.0, 50.0, basins),
        residual=rng.uniform(0.0, 2.5, (basins, hours)),
    )


if __name__ == "__main__":
    log = sample_log()
    model = SiteModel()
    optimizer = tf.keras.optimizers.Adam(0.02)
    for _ in range(10):
        with tf.GradientTape() as tape:
            loss = model.misfit(log)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    print("misfit", float(loss))
    samples = {
        "ph": tf.constant([7.3, 7.5, 7.8]),
        "celsius": tf.constant([10.0, 27.0, 38.0]),
        "calcium": tf.constant([180.0, 250.0, 320.0]),
        "alkalinity": tf.constant([70.0, 90.0, 120.0]),
        "stabiliser": tf.constant([0.0, 40.0, 0.0]),
        "solids": tf.constant([600.0, 900.0, 1800.0]),
    }
    print(plan_balance(samples))
    print(kill_rate(tf.constant([[2.0], [3.0]]), tf.constant([[7.2, 7.6, 8.0]]),
                    tf.constant(28.0), tf.constant([[800.0], [1500.0]])).numpy())
