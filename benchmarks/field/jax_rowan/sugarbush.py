"""Maple sugaring: from the thaw in the stand to the draw-off of the pan.

The chain has three links.

1. Sap: nights of frost charge the stems, thaw lets the sap out
   (:func:`sap_release`).  Weather is hourly, stands are columns.
2. Membranes: the sap is concentrated by reverse osmosis before it is boiled,
   ``make_membrane_bank``.
3. Pan: syrup is drawn off at a temperature; its density depends on the weather
   as water boils cooler in low pressure (:func:`draw_off_brix`).

Everything is a pure function of its parameters; fitting is done in
``fit_season`` with plain gradient descent.
"""

from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Antoine constants for water, mmHg and Celsius, 60 to 150 C
ANTOINE_A = 8.14019
ANTOINE_B = 1810.94
ANTOINE_C = 244.485
MMHG_PER_HPA = 0.750062

FROST_SCALE = 2.0
THAW_SCALE = 1.5
SYRUP_BRIX = 66.9
BISECTIONS = 60
DENSEST = 0.92        # mass fraction above which the pan burns


class StandParams(NamedTuple):
    """Parameters of the stands of one sugarbush."""

    retention: jax.Array   # [S] share of the charge left after an hour
    charge: jax.Array      # [S] charge at the start of the record
    gain: jax.Array        # [S] litres per tap per unit


class PanCurve(NamedTuple):
    """Elevation of the boiling point, Celsius: ``linear x + ratio x / (1 - x)``."""

    linear: jax.Array
    ratio: jax.Array


DEFAULT_CURVE = PanCurve(jnp.asarray(0.9), jnp.asarray(1.75))


def frost_strength(celsius):
    """Smooth degree hours below zero."""
    return FROST_SCALE * jax.nn.softplus(-celsius / FROST_SCALE)


def thaw_strength(celsius):
    return jax.nn.sigmoid(celsius / THAW_SCALE)


def vacuum_factor(inches_hg):
    """Yield of tubing under vacuum relative to buckets."""
    return 1.0 + 0.065 * inches_hg


# --------------------------------------------------------------------------
# sap
# --------------------------------------------------------------------------


def _charge_step(retention):
    def step(charge, hour):
        frost, thaw = hour
        after = retention * charge + frost
        return after, (after * thaw, charge, after)

    return step


@jax.custom_vjp
def sap_release(frost, thaw, retention, charge):
    """Hourly release of sap and the charge that is left for the next spell.

    frost, thaw: [T, S]; retention, charge: [S].
    Returns release [T, S] and the last charge [S].

    The charge follows ``c[t] = retention * c[t-1] + frost[t]`` and an hour
    releases ``c[t] * thaw[t]``.
    """
    last, (release, _, _) = jax.lax.scan(_charge_step(retention), charge, (frost, thaw))
    return release, last


def _sap_release_fwd(frost, thaw, retention, charge):
    last, (release, before, after) = jax.lax.scan(
        _charge_step(retention), charge, (frost, thaw)
    )
    return (release, last), (thaw, retention, before, after)


def _sap_release_bwd(saved, cotangents):
    thaw, retention, before, after = saved
    ct_release, ct_last = cotangents

    def back(later, hour):
        thaw_t, ct_t = hour
        now = ct_t * thaw_t + retention * later
        return now, now

    first, adjoint = jax.lax.scan(back, ct_last, (thaw, ct_release), reverse=True)
    ct_frost = adjoint
    ct_thaw = ct_release * after
    ct_retention = jnp.sum(adjoint * before, axis=0)
    return ct_frost, ct_thaw, ct_retention, retention * first


sap_release.defvjp(_sap_release_fwd, _sap_release_bwd)


def season_yield(params: StandParams, celsius, spell_hours: int = 72):
    """Litres per tap in every spell of the season.

    The record ``celsius`` ([T, S]) is cut into spells, and the charge is passed
    from spell to spell.
    """
    hours = celsius.shape[0]
    charge = params.charge
    litres = []
    for start in range(0, hours, spell_hours):
        part = celsius[start : start + spell_hours]
        release, charge = sap_release(
            frost_strength(part), thaw_strength(part), params.retention, charge
        )
        litres.append(params.gain * jnp.sum(release, axis=0))
    return jnp.stack(litres), charge


# --------------------------------------------------------------------------
# membranes
# --------------------------------------------------------------------------


def make_membrane_bank(passes: int = 1) -> Callable:
    """Build the function for sap led ``passes`` times through the membranes.

    Args:
        passes: how often the concentrate is returned; small machines do one.

    Returns:
        ``concentrate(volume, brix, recovery, rejection)``.
    """
    if passes < 1:
        raise ValueError("the sap passes the membranes at least once")

    @jax.custom_gradient
    def concentrate(volume, brix, recovery, rejection):
        """volume and brix [tanks], recovery and rejection scalars below one.

        Each pass takes the share ``recovery`` of the volume away as permeate,
        which carries ``1 - rejection`` of the sugar in it.
        Returns volume and brix of the concentrate.
        """
        kept = 1.0 - recovery
        factor = (1.0 - recovery * (1.0 - rejection)) / kept
        shrink = kept**passes
        enrich = factor**passes
        outputs = (volume * shrink, brix * enrich)

        def pullback(cotangents):
            ct_volume, ct_brix = cotangents
            slope = passes * jnp.sum(ct_brix * brix)
            ct_recovery = (
                -passes * jnp.sum(ct_volume * volume) * kept ** (passes - 1)
                + slope * rejection / kept**2
            )
            ct_rejection = slope * recovery / kept
            return ct_volume * shrink, ct_brix * enrich, ct_recovery, ct_rejection

        return outputs, pullback

    return concentrate


def evaporation_litres(volume, brix):
    """Litres of water still to be boiled off to reach syrup."""
    return volume * (1.0 - brix / SYRUP_BRIX)


class Sugarhouse:
    """Membranes followed by the pan."""

    def __init__(self, passes: int = 1, litres_per_hour: float = 120.0):
        self.concentrate = make_membrane_bank(passes)
        self.litres_per_hour = litres_per_hour

    def boiling_hours(self, params, volume, brix):
        liquor, strength = self.concentrate(
            volume, brix, params["recovery"], params["rejection"]
        )
        return jnp.sum(evaporation_litres(liquor, strength)) / self.litres_per_hour


# --------------------------------------------------------------------------
# pan
# --------------------------------------------------------------------------


def water_boils_at(pressure):
    """Boiling point of water in Celsius for a pressure in hPa."""
    return ANTOINE_B / (ANTOINE_A - jnp.log10(pressure * MMHG_PER_HPA)) - ANTOINE_C


def elevation(share, curve: PanCurve):
    return curve.linear * share + curve.ratio * share / (1.0 - share)


@jax.custom_jvp
def draw_off_brix(temperature, pressure, curve):
    """Brix of syrup that boils at ``temperature`` under ``pressure``.

    Solves ``water_boils_at(pressure) + elevation(x) = temperature`` for the
    mass fraction by bisection in ``[0, DENSEST]`` and returns ``100 x``; beyond
    these ends the answer stays at the end.

    Parameters
    ----------
    temperature, pressure : array, same shape or broadcastable
        Celsius and hPa.
    curve : PanCurve of scalars
    """
    excess = temperature - water_boils_at(pressure)

    def halve(_, bracket):
        low, high = bracket
        mid = 0.5 * (low + high)
        above = elevation(mid, curve) > excess
        return jnp.where(above, low, mid), jnp.where(above, mid, high)

    low = jnp.zeros_like(excess)
    high = jnp.full_like(excess, DENSEST)
    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, (low, high))
    return 50.0 * (low + high)


@draw_off_brix.defjvp
def _draw_off_brix_jvp(primals, tangents):
    temperature, pressure, curve = primals
    d_temperature, d_pressure, d_curve = tangents
    brix = draw_off_brix(temperature, pressure, curve)
    share = brix / 100.0
    gap = ANTOINE_A - jnp.log10(pressure * MMHG_PER_HPA)
    per_hpa = ANTOINE_B / (gap**2 * pressure * jnp.log(10.0))
    steepness = curve.linear + curve.ratio / jnp.square(1.0 - share)
    shift = d_curve.linear * share + d_curve.ratio * share / (1.0 - share)
    excess = temperature - water_boils_at(pressure)
    inside = (excess > 0.0) & (excess < elevation(DENSEST, curve))
    d_share = (d_temperature - per_hpa * d_pressure - shift) / steepness
    return brix, jnp.where(inside, 100.0 * d_share, 0.0)


def draw_off_loss(curve: PanCurve, temperature, pressure, hydrometer):
    """Mean squared difference between the curve and the hydrometer cup."""
    return jnp.mean(jnp.square(draw_off_brix(temperature, pressure, curve) - hydrometer))


# --------------------------------------------------------------------------


def synthetic_weather(hours: int = 240, stands: int = 3, seed: int = 11):
    """Hourly temperatures of late winter, [hours, stands]."""
    rng = np.random.default_rng(seed)
    t = np.arange(hours)[:, None]
    daily = 6.0 * np.sin(2 * np.pi * (t - 9.0) / 24.0)
    slow = np.cumsum(rng.normal(0.0, 0.15, (hours, 1)), axis=0)
    return jnp.asarray(daily + slow + rng.normal(0.0, 0.8, (hours, stands)))


def fit_season(params: StandParams, celsius, measured, steps: int = 50, rate: float = 1e-5):
    """Fit the stands to measured litres per spell, [spells, S]."""

    def loss(p):
        litres, left = season_yield(p, celsius)
        return jnp.mean(jnp.square(litres - measured)) + 1e-3 * jnp.mean(left**2)

    descend = jax.jit(jax.value_and_grad(loss))
    value = jnp.inf
    for _ in range(steps):
        value, grads = descend(params)
        params = jax.tree.map(lambda p, g: p - rate * g, params, grads)
    return params, value


if __name__ == "__main__":
    weather = synthetic_weather()
    stands = StandParams(jnp.full(3, 0.9), jnp.ones(3), jnp.full(3, 0.02))
    target, _ = season_yield(stands._replace(gain=jnp.full(3, 0.025)), weather)
    print("fitted", fit_season(stands, weather, target)[1])
    house = Sugarhouse(passes=3)
    setting = {"recovery": jnp.asarray(0.5), "rejection": jnp.asarray(0.985)}
    tanks = jnp.array([900.0, 1200.0]), jnp.array([2.1, 1.8])
    print("hours", jax.value_and_grad(house.boiling_hours)(setting, *tanks))
    print("brix", draw_off_brix(jnp.array([103.9, 104.2]), jnp.array([1005.0, 1013.0]), DEFAULT_CURVE))
