"""Forward model of oxygen isotopes in stalagmites.

From rainfall to the milled powder:

1. ``soil_to_drip`` mixes rain into the epikarst store above each drip;
2. ``disequilibrium_age`` dates the calcite from its uranium-series ratios;
3. ``MilledSamples`` averages calcite layers into the powder samples that the
   mass spectrometer saw.

Isotope values are per mil, ages thousand years (ka).
"""

import jax
import jax.numpy as jnp
from jax import lax

# decay constants, per thousand years (Cheng et al., 2013)
LAMBDA_230 = 9.1705e-3
LAMBDA_234 = 2.82206e-3
NEWTON_STEPS = 60


# ---------------------------------------------------------------------------
# Epikarst
# ---------------------------------------------------------------------------


def _turnover(recharge, volume):
    """Share of the store replaced by a step's recharge, (T, S)."""
    return recharge[:, None] / (recharge[:, None] + volume[None, :])


def _mix(rain, share, start):
    def step(level, xs):
        value, f = xs
        new = (1.0 - f) * level + f * value
        return new, new

    return lax.scan(step, start, (rain, share))[1]


@jax.custom_vjp
def soil_to_drip(rain, recharge, volume, start):
    """Isotope value of drip water below well-mixed stores.

    Parameters
    ----------
    rain : (T,)
        Isotope value of each month's infiltration.
    recharge : (T,)
        Amount of infiltration, mm; zero in dry months.
    volume : (S,)
        Water held by the store above each of S drips, mm.
    start : (S,)
        Value of the stores before the first month.

    Returns
    -------
    (T, S)
    """
    return _mix(rain, _turnover(recharge, volume), start)


def _drip_fwd(rain, recharge, volume, start):
    share = _turnover(recharge, volume)
    drip = _mix(rain, share, start)
    return drip, (rain, recharge, volume, start, share, drip)


def _drip_bwd(res, g):
    rain, recharge, volume, start, share, drip = res
    before = jnp.concatenate([start[None], drip[:-1]])

    def step(later, xs):
        g_t, f = xs
        adj = g_t + later
        return (1.0 - f) * adj, adj

    g_start, adj = lax.scan(step, jnp.zeros_like(start), (g, share), reverse=True)
    g_share = adj * (rain[:, None] - before)
    denom = (recharge[:, None] + volume[None, :]) ** 2
    g_rain = jnp.sum(adj * share, axis=1)
    g_recharge = jnp.sum(g_share * volume[None, :] / denom, axis=1)
    g_volume = -jnp.sum(g_share * recharge[:, None] / denom, axis=0)
    return g_rain, g_recharge, g_volume, g_start


soil_to_drip.defvjp(_drip_fwd, _drip_bwd)


# ---------------------------------------------------------------------------
# Dating
# ---------------------------------------------------------------------------


def thorium_ratio(age, excess):
    """[230Th/238U] of a closed system of ``age`` ka; ``excess`` is the measured delta-234U."""
    gap = LAMBDA_230 - LAMBDA_234
    return (
        -jnp.expm1(-LAMBDA_230 * age)
        - excess / 1000.0 * LAMBDA_230 / gap * jnp.expm1(-gap * age)
    )


def _ratio_rate(age, excess):
    gap = LAMBDA_230 - LAMBDA_234
    return LAMBDA_230 * (jnp.exp(-LAMBDA_230 * age) + excess / 1000.0 * jnp.exp(-gap * age))


@jax.custom_jvp
def disequilibrium_age(ratio, excess):
    """Age (ka) of a sample from its measured activity ratio and delta-234U.

    Args:
        ratio: [230Th/238U], detrital thorium already taken off.
        excess: measured delta-234U, per mil, broadcastable against ``ratio``.
    """
    ratio, excess = jnp.broadcast_arrays(ratio, excess)

    def newton(_, age):
        return age + (ratio - thorium_ratio(age, excess)) / _ratio_rate(age, excess)

    return lax.fori_loop(0, NEWTON_STEPS, newton, jnp.zeros_like(ratio))


@disequilibrium_age.defjvp
def _age_jvp(primals, tangents):
    ratio, excess = primals
    d_ratio, d_excess = tangents
    age = disequilibrium_age(ratio, excess)
    gap = LAMBDA_230 - LAMBDA_234
    by_excess = -LAMBDA_230 / (1000.0 * gap) * jnp.expm1(-gap * age)
    return age, (d_ratio - by_excess * d_excess) / _ratio_rate(age, excess)


def remove_detritus(ratio, thorium_232, initial):
    """Take off the thorium that came with clay; ``initial`` is its 230/232 activity ratio."""
    return ratio - initial * thorium_232


# ---------------------------------------------------------------------------
# Milling
# ---------------------------------------------------------------------------


class MilledSamples:
    """Powder samples along the growth axis.

    Args:
        first: (P,) index of the first calcite layer in each sample.
        last: (P,) index of the last one, inclusive.
        layers: number of layers L.

    Samples may be of different length and may overlap: a trench is often
    milled twice, a fine pass for isotopes and a coarse one for dating, from
    the same edge.
    """

    def __init__(self, first, last, layers):
        self.first = jnp.asarray(first, jnp.int32)
        self.last = jnp.asarray(last, jnp.int32)
        self.layers = int(layers)
        self.average = self._averager()

    def _spread(self, per_sample):
        """Sum over the samples that hold a layer, (P, ...) -> (L, ...)."""
        tail = per_sample.shape[1:]
        edges = jnp.zeros((self.layers + 1,) + tail, per_sample.dtype)
        opening = edges.at[self.first].set(per_sample)
        closing = edges.at[self.last + 1].add(per_sample)
        return jnp.cumsum(opening - closing, axis=0)[:-1]

    def _gather(self, per_layer):
        total = jnp.cumsum(per_layer, axis=0)
        total = jnp.concatenate([jnp.zeros_like(total[:1]), total])
        return total[self.last + 1] - total[self.first]

    def _averager(self):
        @jax.custom_gradient
        def powder_mean(layers, thickness):
            # layers (L, C) isotopes, thickness (L,) -> (P, C)
            mass = self._gather(thickness)[:, None]
            mean = self._gather(layers * thickness[:, None]) / mass

            def grad(g):
                pull = g / mass
                spread = self._spread(pull)
                g_layers = spread * thickness[:, None]
                offset = self._spread(jnp.sum(pull * mean, axis=1))
                g_thickness = jnp.sum(spread * layers, axis=1) - offset
                return g_layers, g_thickness

            return mean, grad

        return powder_mean


# ---------------------------------------------------------------------------
# Putting it together
# ---------------------------------------------------------------------------


def calcite_from_water(drip, celsius):
    """Equilibrium fractionation (Tremaine et al., 2011), VSMOW to VPDB."""
    alpha = 16.1 * 1000.0 / (celsius + 273.15) - 24.6
    return 0.97001 * (drip + alpha) - 29.99


def band_thickness(drip_rate, celsius):
    """Growth of a layer in micrometres from drip rate and cave temperature."""
    return 4.0 + 0.6 * jnp.log1p(drip_rate) * jnp.maximum(celsius, 0.0)


def age_model(depth, sample_depth, ratio, excess):
    """Piecewise-linear age at ``depth`` from the dated samples."""
    ages = disequilibrium_age(ratio, excess)
    return jnp.interp(depth, sample_depth, ages)


class CaveRecord:
    """Simulated record of the stalagmites of one cave.

    ``milling`` is shared by the stalagmites; rain and recharge are (T,), one
    layer per month.
    """

    def __init__(self, milling):
        self.milling = milling

    def __call__(self, params, rain, recharge, celsius):
        drip = soil_to_drip(rain, recharge, jnp.exp(params["log_volume"]), params["start"])
        layers = calcite_from_water(drip, celsius[:, None])
        thickness = band_thickness(recharge, celsius) * jnp.exp(params["log_growth"])
        return self.milling.average(layers, thickness)

    def misfit(self, params, rain, recharge, celsius, observed):
        predicted = self(params, rain, recharge, celsius)
        return jnp.mean((predicted - observed) ** 2)


def dating_misfit(params, depth, ratio, th232, excess, layer_age):
    """Squared distance, in ka, between dated and counted ages."""
    clean = remove_detritus(ratio, th232, params["initial_thorium"])
    return jnp.mean((age_model(depth, depth, clean, excess) - layer_age) ** 2)


if __name__ == "__main__":
    months = jnp.arange(36)
    rain_d18o = -6.0 - 2.0 * jnp.cos(2.0 * jnp.pi * months / 12.0)
    amount = jnp.maximum(40.0 * jnp.sin(2.0 * jnp.pi * months / 12.0) + 20.0, 0.0)
    warmth = 11.0 + 0.5 * jnp.sin(2.0 * jnp.pi * months / 12.0)
    record = CaveRecord(MilledSamples([0, 6, 12, 20, 28], [5, 11, 19, 27, 35], 36))
    start = dict(
        log_volume=jnp.log(jnp.array([60.0, 400.0])),
        start=jnp.array([-6.0, -6.2]),
        log_growth=jnp.zeros(36),
    )
    target = jnp.full((5, 2), -5.5)
    print(jax.value_and_grad(record.misfit)(start, rain_d18o, amount, warmth, target)[0])
    print(disequilibrium_age(jnp.array([0.2, 0.6, 1.0]), jnp.array([120.0, 80.0, 150.0])))
