"""Surface exposure dating with in-situ nuclides (10Be, 26Al, 3He, 21Ne)."""
import argparse
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

DECAY = {"be10": 4.99e-7, "al26": 9.83e-7, "he3": 0.0, "ne21": 0.0}  # 1 / a
SPALLATION_POWER = 2.3

# scaling polynomial of pressure (hPa) at 0, 10, ... 60 degrees
_SCALING = np.array(
    [
        [31.8518, 250.3193, -0.083393, 7.4260e-5, -2.2397e-8],
        [34.3699, 258.4759, -0.089807, 7.9457e-5, -2.3697e-8],
        [40.3153, 308.9894, -0.106248, 9.4508e-5, -2.8234e-8],
        [42.0983, 512.6857, -0.120551, 1.1752e-4, -3.8809e-8],
        [56.7733, 649.1343, -0.160859, 1.5463e-4, -5.0330e-8],
        [69.0720, 832.4566, -0.199252, 1.9391e-4, -6.3653e-8],
        [71.8733, 863.1927, -0.207069, 2.0127e-4, -6.6043e-8],
    ]
)


class Pathways(NamedTuple):
    rate: jax.Array    # atoms / g / a at the surface, one per pathway
    length: jax.Array  # attenuation length, g / cm2


BE10 = Pathways(jnp.array([4.01, 0.012, 0.039]), jnp.array([160.0, 1500.0, 4320.0]))


def _filled(x):
    """(1 - exp(-x)) / x"""
    tiny = jnp.abs(x) < 1e-2
    y = jnp.where(tiny, 1.0, x)
    return jnp.where(tiny, 1 - x / 2 + x**2 / 6 - x**3 / 24 + x**4 / 120 - x**5 / 720, -jnp.expm1(-y) / y)


def _filled_slope(x):
    tiny = jnp.abs(x) < 3e-2
    y = jnp.where(tiny, 1.0, x)
    series = -1 / 2 + x / 3 - x**2 / 8 + x**3 / 30 - x**4 / 144 + x**5 / 840 - x**6 / 5760
    return jnp.where(tiny, series, (jnp.exp(-y) * (1 + y) - 1) / y**2)


@jax.custom_vjp
def exposure_concentration(pathways, decay, depth, erosion, age):
    """Nuclides after an exposure with steady erosion.

    Samples share one decay constant (zero for the stable nuclides) and carry
    their own depth (g / cm2), erosion rate (g / cm2 / a) and age (a); the
    erosion may be one number for the whole profile.
    """
    return _exposure_fwd(pathways, decay, depth, erosion, age)[0]


def _exposure_fwd(pathways, decay, depth, erosion, age):
    seen = jnp.exp(-depth[:, None] / pathways.length)
    loss = decay + jnp.asarray(erosion)[..., None] / pathways.length
    x = loss * age[:, None]
    held = age[:, None] * _filled(x)
    n = jnp.sum(pathways.rate * seen * held, axis=1)
    return n, (pathways, depth, erosion, age, seen, x, held)


def _exposure_bwd(saved, g):
    pathways, depth, erosion, age, seen, x, held = saved
    gs = g[:, None] * seen
    made = gs * pathways.rate
    d_loss = made * age[:, None] ** 2 * _filled_slope(x)
    d_length = jnp.sum(made * held * depth[:, None], 0) - jnp.sum(d_loss * jnp.asarray(erosion)[..., None], 0)
    d_erosion = jnp.sum(d_loss / pathways.length, axis=1)
    return (
        Pathways(jnp.sum(gs * held, axis=0), d_length / pathways.length**2),
        jnp.sum(d_loss),
        -jnp.sum(made * held / pathways.length, axis=1),
        d_erosion if jnp.ndim(erosion) else jnp.sum(d_erosion),
        jnp.sum(made * jnp.exp(-x), axis=1),
    )


exposure_concentration.defvjp(_exposure_fwd, _exposure_bwd)


@jax.custom_vjp
def skyline_shielding(horizon, width, power):
    """Share of the cosmic ray flux that the skyline lets through.

    horizon: elevation of each azimuth sector in radians, below zero where the
    ground falls away; width: the sectors' widths, summing to two pi.
    """
    return _skyline_fwd(horizon, width, power)[0]


def _skyline_fwd(horizon, width, power):
    up = jnp.maximum(horizon, 0.0)
    lost = jnp.sin(up) ** (power + 1.0)
    share = 1.0 - lost @ width / (2.0 * jnp.pi)
    return share, (horizon, up, lost, width, power)


def _skyline_bwd(saved, g):
    horizon, up, lost, width, power = saved
    sectors = horizon.shape[-1]
    g = g[..., None]
    rise = (power + 1.0) * jnp.sin(up) ** power * jnp.cos(up)
    d_horizon = -g * jnp.where(horizon > 0, rise, 0.0) / sectors
    d_width = -jnp.sum((g * lost).reshape(-1, sectors), axis=0) / (2.0 * jnp.pi)
    logs = jnp.log(jnp.where(up > 0, jnp.sin(up), 1.0))
    d_power = -jnp.sum(g * lost * logs * width) / (2.0 * jnp.pi)
    return d_horizon, d_width, d_power


skyline_shielding.defvjp(_skyline_fwd, _skyline_bwd)


def _bracket(latitude):
    lam = jnp.minimum(jnp.abs(latitude), 60.0) / 10.0
    row = jnp.clip(jnp.floor(lam).astype(int), 0, 5)
    return row, lam - row


def _polynomial(coef, pressure):
    a, b, c, d, e = jnp.moveaxis(coef, -1, 0)
    value = a + b * jnp.exp(-pressure / 150.0) + pressure * (c + pressure * (d + pressure * e))
    slope = -b / 150.0 * jnp.exp(-pressure / 150.0) + c + pressure * (2 * d + 3 * pressure * e)
    return value, slope


@jax.custom_jvp
def latitude_scaling(latitude, pressure):
    """Production relative to sea level and high latitude.

    Geographic latitude in degrees, south negative; the field has no more
    effect above 60 degrees.
    """
    table = jnp.asarray(_SCALING)
    row, part = _bracket(latitude)
    low, _ = _polynomial(table[row], pressure)
    high, _ = _polynomial(table[row + 1], pressure)
    return low + part * (high - low)


@latitude_scaling.defjvp
def _scaling_jvp(primals, tangents):
    latitude, pressure = primals
    dlat, dpres = tangents
    table = jnp.asarray(_SCALING)
    row, part = _bracket(latitude)
    low, low_s = _polynomial(table[row], pressure)
    high, high_s = _polynomial(table[row + 1], pressure)
    per_degree = jnp.where(jnp.abs(latitude) < 60.0, (high - low) / 10.0, 0.0)
    out = low + part * (high - low)
    return out, per_degree * dlat + (low_s + part * (high_s - low_s)) * dpres


def site_concentration(site, age, erosion, nuclide="be10"):
    factor = latitude_scaling(site["lat"], site["hpa"])
    factor = factor * skyline_shielding(site["horizon"], site["width"], SPALLATION_POWER)
    made = exposure_concentration(BE10, DECAY[nuclide], site["depth"], erosion, age)
    return factor * made


def main(argv=None):
    args = argparse.ArgumentParser()
    args.add_argument("--steps", type=int, default=200)
    opts = args.parse_args(argv)
    rng = np.random.default_rng(0)
    site = {
        "lat": jnp.array([46.2, 46.3, 46.3, 46.4]),
        "hpa": jnp.array([780.0, 800.0, 815.0, 830.0]),
        "horizon": jnp.asarray(rng.uniform(-0.1, 0.5, (4, 12))),
        "width": jnp.full(12, 2 * jnp.pi / 12),
        "depth": jnp.array([2.0, 2.5, 3.0, 2.0]),
    }
    measured = jnp.array([2.1e5, 2.0e5, 1.9e5, 1.8e5])

    def loss(log_age):
        return jnp.sum((jnp.log(site_concentration(site, jnp.exp(log_age), 1e-4)) - jnp.log(measured)) ** 2)

    log_age = jnp.log(jnp.full(4, 8000.0))
    for _ in range(opts.steps):
        log_age = log_age - 0.1 * jax.grad(loss)(log_age)
    print(jnp.exp(log_age))


if __name__ == "__main__":
    main()
