"""Carbon and water of a raised bog, for calibration against chamber and core data.

Four pieces of a site model:

* the acrotelm stock, a yearly balance of litter against decay;
* methane efflux as a function of water table and peat temperature;
* the exchange of survey patches from the microforms mapped inside them;
* the shape of the groundwater mound between two marginal streams.

Every piece is differentiable so that the calibration in ``fit_site`` can use
plain gradient steps.  Masses are kg of dry matter per m2, fluxes mg CH4 per m2
and day, lengths m unless said otherwise.

Notes on conventions.  Time is the first axis everywhere.  Water table is given
in cm relative to the surface, negative below it, positive when flooded.
"""

from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np

import jax
import jax.numpy as jnp
from jax import lax

CARBON_FRACTION = 0.48
REFERENCE_TEMPERATURE = 10.0
MICROFORMS = ("pool", "carpet", "lawn", "low_hummock", "high_hummock")
UNMAPPED = -1


# --------------------------------------------------------------------------
# acrotelm stock
# --------------------------------------------------------------------------

@jax.custom_vjp
def acrotelm_stock(stock):
    """Yearly balance of the aerobic layer at several sites.

    Each year the stock left from the year before decays, and after that the
    year's litter is laid on top::

        released[t] = mass[t-1] * (1 - exp(-decay[t]))
        mass[t]     = mass[t-1] * exp(-decay[t]) + litter[t]

    Parameters
    ----------
    stock : dict
        ``"initial"`` (sites,), mass before the first year; ``"litter"``
        (years, sites), typically 0.2 to 0.8; ``"decay"`` (years, sites),
        typically 0.03 to 0.4 per year.

    Returns
    -------
    mass, released : both (years, sites)
    """
    (mass, released), _ = _stock_fwd(stock)
    return mass, released


def _stock_fwd(stock):
    kept = jnp.exp(-stock["decay"])

    def year(before, inputs):
        keep, litter = inputs
        after = before * keep + litter
        return after, (after, before * (1.0 - keep))

    _, (mass, released) = lax.scan(year, stock["initial"], (kept, stock["litter"]))
    return (mass, released), (kept, mass)


def _stock_bwd(res, cts):
    kept, mass = res
    ct_mass, ct_released = cts

    def year(adjoint, inputs):
        keep, amount, g_mass, g_released = inputs
        adjoint = adjoint + g_mass
        d_decay = keep * amount * (g_released - adjoint)
        return adjoint * keep + g_released * (1.0 - keep), (adjoint, d_decay)

    d_initial, (d_litter, d_decay) = lax.scan(
        year, jnp.zeros_like(mass[0]), (kept, mass, ct_mass, ct_released), reverse=True)
    return ({"initial": d_initial, "litter": d_litter, "decay": d_decay},)


acrotelm_stock.defvjp(_stock_fwd, _stock_bwd)


def steady_stock(litter, decay):
    """Stock at which litter and decay are even."""
    return litter / -jnp.expm1(-decay)


# --------------------------------------------------------------------------
# methane
# --------------------------------------------------------------------------

@jax.custom_jvp
def methane_efflux(traits, water_table, temperature):
    """Methane leaving the surface.

    A fraction ``shunt`` of what is made travels inside sedges and is not
    oxidised; the remainder is consumed over an e-folding depth ``reach`` (cm)
    of aerated peat.  ``traits`` is a dict of ``base``, ``q10``, ``shunt`` and
    ``reach``, each broadcastable to the shape of the weather series.
    """
    aerated = jnp.maximum(-water_table, 0.0)
    made = traits["base"] * traits["q10"] ** ((temperature - REFERENCE_TEMPERATURE) / 10.0)
    return made * (traits["shunt"] + (1.0 - traits["shunt"]) * jnp.exp(-aerated / traits["reach"]))


@methane_efflux.defjvp
def _methane_efflux_jvp(primals, tangents):
    traits, water_table, temperature = primals
    d_traits, d_water, d_temp = tangents
    span = (temperature - REFERENCE_TEMPERATURE) / 10.0
    warm = traits["q10"] ** span
    made = traits["base"] * warm
    aerated = jnp.maximum(-water_table, 0.0)
    passed = jnp.exp(-aerated / traits["reach"])
    share = traits["shunt"] + (1.0 - traits["shunt"]) * passed

    d_made = warm * d_traits["base"] \
        + made * span / traits["q10"] * d_traits["q10"] \
        + made * jnp.log(traits["q10"]) / 10.0 * d_temp
    d_aerated = jnp.where(water_table < 0.0, -d_water, 0.0)
    d_passed = passed * (aerated / traits["reach"] ** 2 * d_traits["reach"]
                         - d_aerated / traits["reach"])
    d_share = (1.0 - passed) * d_traits["shunt"] + (1.0 - traits["shunt"]) * d_passed
    return made * share, d_made * share + made * d_share


# --------------------------------------------------------------------------
# microforms
# --------------------------------------------------------------------------

class Patch(NamedTuple):
    """One mapped polygon of the vegetation survey."""

    forms: List[str]
    cover: List[float]


def survey_table(patches: Sequence[Patch], slots: int):
    """Pack patches into (patches, slots) arrays of cover and microform number.

    A patch lists its polygons one by one, so that a patch with two separate
    lawns has two slots with the number of the lawn.  Ground which the survey
    left unmapped, and slots not used, carry ``UNMAPPED``.
    """
    form = np.full((len(patches), slots), UNMAPPED, dtype=np.int32)
    cover = np.zeros((len(patches), slots), dtype=np.float32)
    for row, patch in enumerate(patches):
        if len(patch.forms) > slots:
            raise ValueError(f"patch {row} has more than {slots} polygons")
        for col, (name, part) in enumerate(zip(patch.forms, patch.cover)):
            if name in MICROFORMS:
                form[row, col] = MICROFORMS.index(name)
            cover[row, col] = part
    return jnp.asarray(cover), jnp.asarray(form)


@jax.custom_vjp
def patch_exchange(rates, cover, form):
    """Exchange of each patch, the cover-weighted sum over its polygons.

    rates: (forms,) flux per microform.  cover: (patches, slots).
    form: (patches, slots) integers as made by ``survey_table``.
    """
    known = form >= 0
    return jnp.sum(jnp.where(known, cover * rates[jnp.where(known, form, 0)], 0.0), axis=1)


def _patch_exchange_fwd(rates, cover, form):
    return patch_exchange(rates, cover, form), (rates, cover, form)


def _patch_exchange_bwd(res, ct):
    rates, cover, form = res
    n_patches, n_forms = cover.shape[0], rates.shape[0]
    known = form >= 0
    d_cover = jnp.where(known, ct[:, None] * rates[jnp.where(known, form, 0)], 0.0)
    # one row of form weights per patch; unmapped ground falls off the end
    column = jnp.where(known, form, n_forms)
    row = jnp.arange(n_patches)[:, None]
    weight = jnp.zeros((n_patches, n_forms), cover.dtype).at[row, column].set(cover, mode="drop")
    return ct @ weight, d_cover, None


patch_exchange.defvjp(_patch_exchange_fwd, _patch_exchange_bwd)


# --------------------------------------------------------------------------
# groundwater mound
# --------------------------------------------------------------------------

@jax.custom_jvp
def mound_height(x, width, recharge, conductivity, stream_level):
    """Water table of the bog dome above its impermeable base, after Ingram (1982).

    Args:
        x: distance from one marginal stream, between 0 and ``width``.
        width: distance between the two streams.
        recharge: net recharge, m per day.
        conductivity: of the catotelm, m per day.
        stream_level: level of both streams above the base; greater than zero.

    Returns:
        Height in m, broadcast over all arguments.
    """
    return jnp.sqrt(stream_level ** 2 + recharge / conductivity * x * (width - x))


@mound_height.defjvp
def _mound_height_jvp(primals, tangents):
    x, width, recharge, conductivity, stream_level = primals
    dx, dwidth, drecharge, dconductivity, dstream = tangents
    height = mound_height(x, width, recharge, conductivity, stream_level)
    ratio = recharge / conductivity
    span = x * (width - x)
    d_square = ratio * ((width - 2.0 * x) * dx + x * dwidth) \
        + span * (drecharge / conductivity - ratio * dconductivity / conductivity) \
        + 2.0 * stream_level * dstream
    return height, d_square / (2.0 * height)


# --------------------------------------------------------------------------
# calibration
# --------------------------------------------------------------------------

def unpack(raw: Dict[str, Any]) -> Dict[str, Any]:
    """Unconstrained parameters to physical ones."""
    return {
        "base": jnp.exp(raw["base"]),
        "q10": 1.0 + jnp.exp(raw["q10"]),
        "shunt": jax.nn.sigmoid(raw["shunt"]),
        "reach": jnp.exp(raw["reach"]),
    }


def chamber_misfit(raw, weather, observed, valid):
    """Mean squared misfit of log flux over the chambers that closed properly."""
    flux = methane_efflux(unpack(raw), weather["water_table"], weather["temperature"])
    gap = jnp.log(flux) - jnp.log(jnp.where(valid, observed, 1.0))
    return jnp.sum(jnp.where(valid, gap ** 2, 0.0)) / jnp.maximum(jnp.sum(valid), 1)


def core_misfit(stock, dated_mass, years):
    """Squared misfit of the stock in the years for which a core was cut."""
    mass, _ = acrotelm_stock(stock)
    return jnp.mean((mass[years] - dated_mass) ** 2)


class BogSite:
    """A site with a survey, a weather series and its calibration state."""

    def __init__(self, patches: Sequence[Patch], slots: int = 6):
        self.cover, self.form = survey_table(patches, slots)
        self.raw = {"base": jnp.asarray(4.0), "q10": jnp.asarray(0.5),
                    "shunt": jnp.asarray(-1.0), "reach": jnp.asarray(2.3)}
        self.rates = jnp.asarray([120.0, 90.0, 40.0, 12.0, 3.0])

    def exchange(self, rates=None):
        return patch_exchange(self.rates if rates is None else rates, self.cover, self.form)

    def fit_site(self, weather, observed, valid, steps: int = 30, rate: float = 0.1):
        slope = jax.jit(jax.grad(chamber_misfit))
        for _ in range(steps):
            grads = slope(self.raw, weather, observed, valid)
            self.raw = jax.tree_util.tree_map(lambda p, g: p - rate * g, self.raw, grads)
        return unpack(self.raw)

    def fit_rates(self, towers, steps: int = 50, rate: float = 0.2):
        """Microform rates from tower totals per patch."""
        for _ in range(steps):
            grads = jax.grad(lambda r: jnp.mean((self.exchange(r) - towers) ** 2))(self.rates)
            self.rates = self.rates - rate * grads
        return self.rates


if __name__ == "__main__":
    site = BogSite([
        Patch(["pool", "lawn", "high_hummock"], [0.2, 0.5, 0.3]),
        Patch(["carpet", "lawn", "low_hummock", "scrub"], [0.3, 0.3, 0.3, 0.1]),
    ])
    print("exchange", site.exchange())
    days = jnp.linspace(0.0, 1.0, 60)
    weather = {"water_table": -12.0 + 9.0 * jnp.sin(6.28 * days),
               "temperature": 11.0 + 6.0 * jnp.cos(6.28 * days)}
    truth = methane_efflux(unpack(site.raw), weather["water_table"], weather["temperature"])
    print("traits", site.fit_site(weather, 1.3 * truth, jnp.ones(60, bool)))
    litter = jnp.full((30, 2), 0.4)
    decay = jnp.full((30, 2), 0.1)
    mass, released = acrotelm_stock({"initial": steady_stock(litter[0], decay[0]),
                                     "litter": litter, "decay": decay})
    print("stock", mass[-1], "released", CARBON_FRACTION * released.sum(0))
    print("mound", mound_height(jnp.linspace(0.0, 400.0, 5), jnp.asarray(400.0),
                                jnp.asarray(3e-4), jnp.asarray(0.8), jnp.asarray(2.0)))
