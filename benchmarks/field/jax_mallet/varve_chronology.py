"""Chronologies from annually laminated (varved) lake sediment.

Cores are counted lamina by lamina under the scanner. This module turns the
counts into ages and the grey-value scans into seasonal proxies:

1. burial compaction is undone with an exponential porosity law (Athy), solved
   for the present depth that holds a given thickness of solids;
2. ages follow from thicknesses and the accumulation rate of the sedimentary
   unit each slice belongs to, given by an integer table;
3. burrowing smears the signal over an exponential mixing depth;
4. each couplet of a pale summer and a dark winter lamina is reduced to a
   contrast.

Everything is differentiable, since rates, porosities and mixing depths are
fitted jointly to radiometric tie points.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

NEWTON_ROUNDS = 40
CONTRAST_FLOOR = 1e-3
UNITS = ("gyttja", "clay gyttja", "glacial clay")


class CoreModel(NamedTuple):
    """Free parameters of a core.

    surface_porosity, porosity_scale: Athy's law, dimensionless and mm
    rates: mm of solids per year, one per unit
    mixing: mixing depth in slices
    top_age: years before the reference year at the sediment surface
    """

    surface_porosity: jnp.ndarray
    porosity_scale: jnp.ndarray
    rates: jnp.ndarray
    mixing: jnp.ndarray
    top_age: jnp.ndarray


class Scan(NamedTuple):
    solids: jnp.ndarray   # (slices,) mm of solids
    unit: jnp.ndarray     # (slices,) int
    summer: jnp.ndarray   # (slices,) detrended grey value
    winter: jnp.ndarray   # (slices,) detrended grey value


def _sum_to(x, shape):
    """Sum ``x`` down to ``shape`` (undo numpy broadcasting)."""
    lead = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=axes, keepdims=True)


# ---------------------------------------------------------------- compaction


@jax.custom_vjp
def decompacted_depth(solid, surface_porosity, scale):
    """Depth in the sediment above which ``solid`` mm of grains lie.

    Solves ``z - phi0 * scale * (1 - exp(-z / scale)) = solid`` for ``z`` by
    Newton's method from above; the left side is convex and the iteration
    therefore monotone. The arguments broadcast against each other.
    """
    z = solid + surface_porosity * scale

    def body(_, z):
        decay = jnp.exp(-z / scale)
        residual = z - surface_porosity * scale * (1.0 - decay) - solid
        return z - residual / (1.0 - surface_porosity * decay)

    return jax.lax.fori_loop(0, NEWTON_ROUNDS, body, z)


def _decompacted_fwd(solid, surface_porosity, scale):
    z = decompacted_depth(solid, surface_porosity, scale)
    return z, (z, solid, surface_porosity, scale)


def _decompacted_bwd(res, g):
    z, solid, phi0, scale = res
    decay = jnp.exp(-z / scale)
    adj = g / (1.0 - phi0 * decay)
    g_phi = adj * scale * (1.0 - decay)
    g_scale = adj * phi0 * (1.0 - decay - decay * z / scale)
    return (_sum_to(adj, jnp.shape(solid)),
            _sum_to(g_phi, jnp.shape(phi0)),
            _sum_to(g_scale, jnp.shape(scale)))


decompacted_depth.defvjp(_decompacted_fwd, _decompacted_bwd)


# ---------------------------------------------------------------------- ages


@jax.custom_vjp
def varve_ages(thickness, rates, unit, top_age):
    """Ages down the core.

    Args:
        thickness: mm of solids per slice, from the top down.
        rates: accumulation rate of each unit, mm per year.
        unit: integer unit of each slice; a unit usually covers many slices.
        top_age: age of the surface.

    Returns:
        tuple of the age at the base of each slice, the age at the middle of
        each slice, and the number of years spanned by the whole core.
    """
    years = thickness / rates[unit]
    base = top_age + jnp.cumsum(years)
    return base, base - 0.5 * years, base[-1] - top_age


def _varve_ages_fwd(thickness, rates, unit, top_age):
    out = varve_ages(thickness, rates, unit, top_age)
    return out, (thickness, rates, unit)


def _varve_ages_bwd(res, g):
    thickness, rates, unit = res
    g_base, g_mid, g_span = g
    both = g_base + g_mid
    g_years = jnp.cumsum(both[::-1])[::-1] - 0.5 * g_mid
    g_years = g_years.at[-1].add(g_span)
    here = rates[unit]
    g_rates = jax.ops.segment_sum(-g_years * thickness / here ** 2, unit,
                                  num_segments=rates.shape[0])
    return g_years / here, g_rates, None, both.sum()


varve_ages.defvjp(_varve_ages_fwd, _varve_ages_bwd)


# --------------------------------------------------------------- bioturbation


def _mixing_weights(depth, window, slices):
    lags = jnp.arange(min(window, slices))
    return lags, jnp.exp(-lags / depth)


def _shift_down(x, lag):
    """Move ``x`` ``lag`` places to later positions on the last axis."""
    if lag == 0:
        return x
    pad = [(0, 0)] * (x.ndim - 1) + [(lag, 0)]
    return jnp.pad(x[..., :-lag], pad)


def _shift_up(x, lag):
    if lag == 0:
        return x
    pad = [(0, 0)] * (x.ndim - 1) + [(0, lag)]
    return jnp.pad(x[..., lag:], pad)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def bioturbated_signal(signal, depth, window):
    """Smear a signal downward with an exponential kernel.

    signal : (..., slices)
    depth : scalar e-folding depth in slices
    window : python int, number of kernel taps

    The kernel is renormalised near the top where taps fall outside the core.
    """
    lags, weights = _mixing_weights(depth, window, signal.shape[-1])
    ones = jnp.ones(signal.shape[-1], signal.dtype)
    total = sum(weights[j] * _shift_down(signal, j) for j in range(lags.size))
    norm = sum(weights[j] * _shift_down(ones, j) for j in range(lags.size))
    return total / norm


def _bioturbated_fwd(signal, depth, window):
    lags, weights = _mixing_weights(depth, window, signal.shape[-1])
    ones = jnp.ones(signal.shape[-1], signal.dtype)
    total = sum(weights[j] * _shift_down(signal, j) for j in range(lags.size))
    norm = sum(weights[j] * _shift_down(ones, j) for j in range(lags.size))
    out = total / norm
    return out, (signal, depth, out, norm)


def _bioturbated_bwd(window, res, g):
    signal, depth, out, norm = res
    lags, weights = _mixing_weights(depth, window, signal.shape[-1])
    ones = jnp.ones(signal.shape[-1], signal.dtype)
    scaled = g / norm
    g_signal = jnp.zeros_like(signal)
    g_depth = 0.0
    for j in range(lags.size):
        g_signal = g_signal + weights[j] * _shift_up(scaled, j)
        lever = _shift_down(signal, j) - out * _shift_down(ones, j)
        g_depth = g_depth + weights[j] * j / depth ** 2 * jnp.sum(scaled * lever)
    return g_signal, g_depth


bioturbated_signal.defvjp(_bioturbated_fwd, _bioturbated_bwd)


# ------------------------------------------------------------------- couplets


@jax.custom_jvp
def couplet_contrast(summer, winter):
    """Contrast of a summer lamina against its winter lamina.

    ``(s - w) / (|s| + |w| + floor)`` of detrended grey values, so that the
    result lies within (-1, 1).
    """
    return (summer - winter) / (jnp.abs(summer) + jnp.abs(winter) + CONTRAST_FLOOR)


@couplet_contrast.defjvp
def _couplet_contrast_jvp(primals, tangents):
    summer, winter = primals
    ds, dw = tangents
    size = jnp.abs(summer) + jnp.abs(winter) + CONTRAST_FLOOR
    value = (summer - winter) / size
    return value, ((ds - dw) - value * (ds + dw)) / size


# ---------------------------------------------------------------------- model


def detrend(grey, order=2):
    """Remove a polynomial trend (lamp ageing) from a scan line."""
    grey = np.asarray(grey)
    x = np.linspace(-1.0, 1.0, grey.shape[-1])
    return grey - np.polyval(np.polyfit(x, grey, order), x)


def initial_core(n_units=len(UNITS)):
    return CoreModel(
        surface_porosity=jnp.asarray(0.8),
        porosity_scale=jnp.asarray(900.0),
        rates=jnp.linspace(0.4, 0.9, n_units),
        mixing=jnp.asarray(1.5),
        top_age=jnp.asarray(0.0),
    )


def depths(core: CoreModel, scan: Scan):
    """Present depth of the base of each slice, mm."""
    return decompacted_depth(jnp.cumsum(scan.solids), core.surface_porosity,
                             core.porosity_scale)


def seasonal_proxy(core: CoreModel, scan: Scan, window: int = 6):
    """Model of the contrast that would be left after burrowing."""
    pair = jnp.stack([scan.summer, scan.winter])
    mixed = bioturbated_signal(pair, core.mixing, window)
    return couplet_contrast(mixed[0], mixed[1])


class TieFit:
    """Least squares fit of a core to dated tie points and a logged length."""

    def __init__(self, scan: Scan, tie_slice, tie_age, tie_sigma,
                 logged_depth, counted_years, window=6):
        self.scan = scan
        self.tie_slice = jnp.asarray(tie_slice)
        self.tie_age = jnp.asarray(tie_age)
        self.tie_sigma = jnp.asarray(tie_sigma)
        self.logged_depth = logged_depth
        self.counted_years = counted_years
        self.window = window

    def objective(self, core: CoreModel, target_contrast):
        _, mid, span = varve_ages(self.scan.solids, core.rates,
                                  self.scan.unit, core.top_age)
        ties = (mid[self.tie_slice] - self.tie_age) / self.tie_sigma
        length = (depths(core, self.scan)[-1] - self.logged_depth) / 5.0
        count = (span - self.counted_years) / (0.02 * self.counted_years)
        proxy = seasonal_proxy(core, self.scan, self.window) - target_contrast
        return (jnp.mean(ties ** 2) + length ** 2 + count ** 2
                + jnp.mean(proxy ** 2))

    def descend(self, core, target_contrast, rounds=20, rate=1e-4):
        step = jax.jit(jax.value_and_grad(self.objective))
        for _ in range(rounds):
            value, g = step(core, target_contrast)
            core = jax.tree_util.tree_map(
                lambda p, d: p - rate * d / (1.0 + jnp.abs(d)), core, g)
        return core, value


def demo_scan(slices=48, seed=3):
    rng = np.random.default_rng(seed)
    return Scan(
        solids=jnp.asarray(rng.gamma(6.0, 0.1, slices)),
        unit=jnp.asarray(np.sort(rng.integers(0, len(UNITS), slices))),
        summer=jnp.asarray(detrend(120 + rng.normal(0, 9, slices))),
        winter=jnp.asarray(detrend(80 + rng.normal(0, 9, slices))),
    )


if __name__ == "__main__":
    data = demo_scan()
    fit = TieFit(data, [10, 30, 44], [12.0, 40.0, 55.0], [2.0, 3.0, 3.0],
                 logged_depth=110.0, counted_years=52.0)
    result, score = fit.descend(initial_core(), jnp.full(48, 0.2))
    print(float(score), result.rates)
