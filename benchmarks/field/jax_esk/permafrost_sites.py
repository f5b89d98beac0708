"""Site models of frozen ground."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import ops

SECONDS_PER_DAY = 86400.0
LATENT = 3.34e8  # J per m3 of water


def latent_of(moisture):
    """Latent heat per volume, in J/m3 over seconds in a day: units of W d / m3."""
    return LATENT * moisture / SECONDS_PER_DAY


@jax.custom_vjp
def thaw_depth(degree_days, thickness, k_organic, k_mineral, q_organic, q_mineral):
    """Stefan thaw depth under an organic mat.

    All arguments [S] (one entry per site), positive: thawing degree days, thickness of the mat (m), conductivities
    (W/m/K) and volumetric latent heats (W d/m3, see ``latent_of``). While the sum of degree days is too small to thaw
    the mat the front stays inside it; after that the mineral soil thaws in series with the mat's resistance.
    """
    return _thaw_fwd(degree_days, thickness, k_organic, k_mineral, q_organic, q_mineral)[0]


def _thaw_fwd(dd, h, ko, km, qo, qm):
    need = h * h * qo / (2.0 * ko)
    through = dd > need
    inside = jnp.sqrt(2.0 * ko * dd / qo)
    kr = km * h / ko
    root = jnp.sqrt(kr**2 + 2.0 * km * jnp.where(through, dd - need, 0.0) / qm)
    depth = jnp.where(through, h + root - kr, inside)
    return depth, (dd, h, ko, km, qo, qm, need, through, inside, kr, root)


def _thaw_bwd(res, g):
    dd, h, ko, km, qo, qm, need, through, inside, kr, root = res
    # mat only
    half = 0.5 * inside
    shallow = (
        half / dd,
        jnp.zeros_like(h),
        half / ko,
        jnp.zeros_like(h),
        -half / qo,
        jnp.zeros_like(h),
    )
    # through the mat
    rem = km / (qm * root)  # d root / d (dd - need)
    d_kr = kr / root - 1.0
    deep = (
        rem,
        1.0 - rem * h * qo / ko + d_kr * km / ko,
        rem * need / ko,
        (dd - need) / (qm * root) + d_kr * h / ko,
        -rem * need / qo,
        -rem * (dd - need) / qm,
    )
    return tuple(g * jnp.where(through, d, s) for d, s in zip(deep, shallow))


thaw_depth.defvjp(_thaw_fwd, _thaw_bwd)


@jax.custom_vjp
def unfrozen_water(temps, table, soil):
    """Unfrozen water content. temps [B, Z] in deg C; table: dict of [C] "sat", "res", "depress" (> 0), "expo"; soil [Z] class ids."""
    return _unfrozen(temps, table, soil)[0]


def _unfrozen(temps, table, soil):
    sat, low, dep, n = (table[k][soil] for k in ("sat", "res", "depress", "expo"))
    cold = temps < -dep
    ratio = jnp.where(cold, -temps / dep, 1.0)
    frac = ratio ** (-n)
    theta = low + (sat - low) * frac
    return theta, (temps, sat, low, dep, n, cold, ratio, frac, soil, table)


def _unfrozen_bwd(res, g):
    temps, sat, low, dep, n, cold, ratio, frac, soil, table = res
    span = sat - low
    per_log = jnp.where(cold, g * span * frac, 0.0)
    d_temps = jnp.where(cold, -n * per_log / jnp.where(cold, temps, 1.0), 0.0)
    count = table["sat"].shape[0]

    def collect(x):
        return ops.segment_sum(x.sum(0), soil, num_segments=count)

    d_table = {
        "sat": collect(g * frac),
        "res": collect(g * (1.0 - frac)),
        "depress": collect(per_log * n / dep),
        "expo": collect(-per_log * jnp.log(ratio)),
    }
    return d_temps, d_table, None


unfrozen_water.defvjp(_unfrozen, _unfrozen_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def frost_number(daily, observed, n_winter=1.0):
    """Surface frost number of daily mean temperatures [S, days]; ``n_winter`` damps freezing under snow."""
    return _frost_fwd(daily, observed, n_winter)[0]


def _frost_fwd(daily, observed, n_winter):
    t = jnp.where(observed, daily, 0.0)
    freezing = n_winter * jnp.maximum(-t, 0.0).sum(1)
    thawing = jnp.maximum(t, 0.0).sum(1)
    a, b = jnp.sqrt(freezing), jnp.sqrt(thawing)
    return a / (a + b), (t, a, b)


def _frost_bwd(n_winter, res, g):
    t, a, b = res
    common = 0.5 * g / (a + b) ** 2
    per_freeze = common * b / a
    per_thaw = -common * a / b
    d_daily = jnp.where(t < 0, -per_freeze[:, None], 0.0) + jnp.where(t > 0, per_thaw[:, None], 0.0)
    return d_daily, None


frost_number.defvjp(_frost_fwd, _frost_bwd)
