# Thermal stress, light response and cover summaries for reef monitoring sites.
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

HOTSPOT_FLOOR = 1.0  # degC above the climatology before a week counts


@dataclass(frozen=True)
class StressOptions:
    window: int = 12
    floor: float = HOTSPOT_FLOOR


def _trailing_sum(x, window):
    c = jnp.cumsum(x, axis=0)
    pad = jnp.zeros((min(window, x.shape[0]),) + x.shape[1:], x.dtype)
    return c - jnp.concatenate([pad, c[:-window]], axis=0)[: x.shape[0]]


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def degree_heating_weeks(sst, mmm, options=StressOptions()):
    """Accumulated heat stress of weekly sea-surface temperature.

    sst: (T, S) weekly means per site.  mmm: (S,) or scalar maximum monthly mean climatology.  A week's hot spot is
    sst - mmm where that reaches ``options.floor``, otherwise zero; the value at week t sums the hot spots of the
    ``options.window`` weeks that end with t (fewer at the start of the record).
    """
    hot = sst - mmm
    return _trailing_sum(jnp.where(hot >= options.floor, hot, 0.0), options.window)


def _dhw_fwd(sst, mmm, options):
    return degree_heating_weeks(sst, mmm, options), (sst - mmm >= options.floor, mmm)


def _dhw_bwd(options, res, g):
    counted, mmm = res
    ahead = _trailing_sum(g[::-1], options.window)[::-1]
    d_sst = jnp.where(counted, ahead, 0.0)
    d_mmm = -d_sst.sum(axis=0) if jnp.ndim(mmm) else -d_sst.sum()
    return d_sst, d_mmm


degree_heating_weeks.defvjp(_dhw_fwd, _dhw_bwd)


@jax.custom_vjp
def symbiont_photosynthesis(params, light):
    """Platt light curve of a symbiont clade: params {"ps", "alpha", "beta"}, each (C,); light (N, 1) or (N, C)."""
    ps, alpha, beta = params["ps"], params["alpha"], params["beta"]
    return ps * (1.0 - jnp.exp(-alpha * light / ps)) * jnp.exp(-beta * light / ps)


def _sp_fwd(params, light):
    ps, alpha, beta = params["ps"], params["alpha"], params["beta"]
    rise = jnp.exp(-alpha * light / ps)
    fall = jnp.exp(-beta * light / ps)
    return ps * (1.0 - rise) * fall, (params, light, rise, fall)


def _sp_bwd(res, g):
    params, light, rise, fall = res
    ps, alpha, beta = params["ps"], params["alpha"], params["beta"]
    x = alpha * light / ps
    d_ps = ((1.0 - rise) - x * rise) * fall
    d_alpha = light * rise * fall
    d_beta = -light * (1.0 - rise) * fall
    d_light = (alpha * rise - beta * (1.0 - rise)) * fall
    d_params = {
        "ps": (g * d_ps).sum(axis=0),
        "alpha": (g * d_alpha).sum(axis=0),
        "beta": (g * d_beta).sum(axis=0),
    }
    d_light = g * d_light
    if light.shape[-1] == 1:
        d_light = d_light.sum(axis=-1, keepdims=True)
    return d_params, d_light


symbiont_photosynthesis.defvjp(_sp_fwd, _sp_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def zone_cover(cover, area, zone, n_zones):
    # cover (Q, C), area (Q,), zone (Q,) -> (n_zones, C)
    assert cover.shape[0] == area.shape[0]
    total = jax.ops.segment_sum(area, zone, n_zones)
    weighted = jax.ops.segment_sum(cover * area[:, None], zone, n_zones)
    safe = jnp.where(total > 0, total, 1.0)[:, None]
    return jnp.where(total[:, None] > 0, weighted / safe, 0.0)


def _zc_fwd(cover, area, zone, n_zones):
    out = zone_cover(cover, area, zone, n_zones)
    total = jax.ops.segment_sum(area, zone, n_zones)
    return out, (cover, area, zone, out, jnp.where(total > 0, total, 1.0))


def _zc_bwd(n_zones, res, g):
    cover, area, zone, out, total = res
    share = (g / total[:, None])[zone]
    d_area = (share * (cover - out[zone])).sum(axis=1)
    return share * area[:, None], d_area, np.zeros(zone.shape, jax.dtypes.float0)


zone_cover.defvjp(_zc_fwd, _zc_bwd)


def zone_report(quadrats, params, n_zones):
    gross = symbiont_photosynthesis(params, quadrats["light"])
    return zone_cover(gross, quadrats["area"], quadrats["zone"], n_zones)
