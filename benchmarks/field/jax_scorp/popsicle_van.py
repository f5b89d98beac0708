"""The ice lolly van: how hard is the stock, and how warm will it get today?

Temperatures are in degrees Celsius, sugar in mol per kg of *total* water.
The numbers are bench numbers of one van; nothing here is a food standard.
"""
import dataclasses

import jax
import jax.numpy as jnp

# depression of the freezing point:  theta = KF * u + K2 * u**2,  u = molality
KF = 1.86
K2 = 0.21

#: (temperature, firmness by the penetrometer, newton)
FIRMNESS_CARD = (
    (-24.0, 61.0), (-20.0, 48.0), (-17.0, 35.5), (-15.0, 27.0),
    (-12.0, 16.0), (-9.0, 9.5), (-6.0, 4.0), (-3.0, 1.5),
)


@dataclasses.dataclass(frozen=True)
class Cabinet:
    start: float = -21.0
    shut: float = 0.004     # share of the gap closed in a minute, lid shut
    open: float = 0.05      # same, lid open


# --- frozen water -----------------------------------------------------------

def _equilibrium_molality(theta):
    """Positive root of the depression curve, by Newton from the right."""
    theta = jnp.maximum(theta, 0.0)

    def step(_, u):
        return u - (KF * u + K2 * u * u - theta) / (KF + 2 * K2 * u)

    return jax.lax.fori_loop(0, 12, step, theta / KF)


@jax.custom_jvp
def frozen_water_share(temp, molality):
    """Share of the water which is ice at `temp`.

    The unfrozen syrup gets stronger as ice is taken out of it, until its own
    freezing point equals `temp`.  Above the freezing point of the fresh mix
    nothing is frozen.  `temp` and `molality` broadcast.
    """
    u = _equilibrium_molality(-temp)
    cold = u > molality
    return jnp.where(cold, 1.0 - molality / jnp.where(cold, u, 1.0), 0.0)


@frozen_water_share.defjvp
def _frozen_water_share_jvp(primals, tangents):
    temp, molality = primals
    dtemp, dmol = tangents
    u = _equilibrium_molality(-temp)
    cold = u > molality
    u = jnp.where(cold, u, 1.0)
    share = jnp.where(cold, 1.0 - molality / u, 0.0)
    du = -dtemp / (KF + 2 * K2 * u)
    tangent = jnp.where(cold, molality * du / u ** 2 - dmol / u, 0.0)
    return share, tangent


# --- firmness ---------------------------------------------------------------

def card_arrays(dtype=float):
    card = jnp.asarray(FIRMNESS_CARD, dtype)
    return card[:, 0], card[:, 1]


@jax.custom_jvp
def scoop_softness(temp, knots, firmness):
    """Softness 1/(1 + F) where F is read off the firmness card.

    Between two knots the card is read on the straight line; a lolly colder
    than the first knot or warmer than the last has the firmness of that knot.
    `temp` has any shape, `knots` (ascending) and `firmness` are vectors.
    """
    return 1.0 / (1.0 + jnp.interp(temp, knots, firmness))


@scoop_softness.defjvp
def _scoop_softness_jvp(primals, tangents):
    temp, knots, firmness = primals
    dtemp, dknots, dfirm = tangents
    i = jnp.clip(jnp.searchsorted(knots, temp, side="right") - 1, 0, knots.size - 2)
    x0, x1 = knots[i], knots[i + 1]
    f = jnp.clip((temp - x0) / (x1 - x0), 0.0, 1.0)
    slope = (firmness[i + 1] - firmness[i]) / (x1 - x0)
    moved = dtemp - (1 - f) * dknots[i] - f * dknots[i + 1]
    dF = slope * moved + (1 - f) * dfirm[i] + f * dfirm[i + 1]
    out = scoop_softness(temp, knots, firmness)
    return out, -out ** 2 * dF


# --- the day ----------------------------------------------------------------

@jax.custom_vjp
def cabinet_warming(start, rates, outside, lid):
    """Minute by minute temperature of the cabinet.

    start: scalar or vector of cabinets.
    rates: dict with "shut" and "open", each shaped like start.
    outside: (minutes,) air temperature.
    lid: (minutes,) bool, True while somebody is serving.
    Returns (minutes,) + start.shape, the temperature at the end of each minute.
    """
    return _warm(start, rates, outside, lid)[0]


def _warm(start, rates, outside, lid):
    def minute(temp, x):
        air, is_open = x
        rate = jnp.where(is_open, rates["open"], rates["shut"])
        new = temp + rate * (air - temp)
        return new, (new, temp)

    _, (trace, before) = jax.lax.scan(minute, start, (outside, lid))
    return trace, before


def _warm_fwd(start, rates, outside, lid):
    trace, before = _warm(start, rates, outside, lid)
    return trace, (rates, outside, lid, before)


def _warm_bwd(res, g):
    rates, outside, lid, before = res

    def minute(carry, x):
        adj, d_open, d_shut = carry
        ct, temp, air, is_open = x
        adj = adj + ct
        rate = jnp.where(is_open, rates["open"], rates["shut"])
        push = adj * (air - temp)
        d_open = d_open + jnp.where(is_open, push, 0.0)
        d_shut = d_shut + jnp.where(is_open, 0.0, push)
        return (adj * (1 - rate), d_open, d_shut), (adj * rate).sum()

    zero = jnp.zeros_like(g[0])
    (adj, d_open, d_shut), d_air = jax.lax.scan(
        minute, (zero, zero, zero), (g[::-1], before[::-1], outside[::-1], lid))
    return adj, {"open": d_open, "shut": d_shut}, d_air[::-1], None


cabinet_warming.defvjp(_warm_fwd, _warm_bwd)


# --- the recipe -------------------------------------------------------------

def solids_sheet(weights, table, basis="wet"):
    """Composition of mixes.

    weights (..., n) grams of each ingredient, table (n, m) mass fractions, the
    first column being water.  Gives the composition (..., m) and the mass
    (...) it refers to: the whole mix ("wet") or what is not water ("dry",
    whose water column then is water per dry mass).
    """
    if basis not in ("wet", "dry"):
        raise ValueError(basis)

    def counted(a):
        return 1.0 - a[:, 0] if basis == "dry" else jnp.ones_like(a[:, 0])

    @jax.custom_gradient
    def sheet(w, a):
        share = counted(a)
        mass = w @ share
        comp = (w @ a) / mass[..., None]

        def pull(cts):
            g_comp, g_mass = cts
            g_amount = g_comp / mass[..., None]
            g_total = g_mass - (g_amount * comp).sum(-1)
            dw = g_amount @ a.T + g_total[..., None] * share
            flat_w = w.reshape(-1, w.shape[-1])
            da = flat_w.T @ g_amount.reshape(-1, a.shape[-1])
            if basis == "dry":
                da = da.at[:, 0].add(-(flat_w.T @ g_total.reshape(-1)))
            return dw, da

        return (comp, mass), pull

    return sheet(weights, table)


def softness_after(cab: Cabinet, outside, lid):
    rates = {"open": jnp.asarray(cab.open), "shut": jnp.asarray(cab.shut)}
    temp = cabinet_warming(jnp.asarray(cab.start), rates, outside, lid)
    return scoop_softness(temp, *card_arrays(temp.dtype))


if __name__ == "__main__":
    lid = jnp.arange(90) % 7 == 0
    print(softness_after(Cabinet(), jnp.full(90, 27.0), lid)[-1])
    print(frozen_water_share(-14.0, 1.1))
