"""Forward model and inversion of riometer absorption during auroral events.

A riometer records cosmic radio noise at 30-40 MHz.  Energetic electrons that
precipitate during substorms ionise the D region; the extra electron density
absorbs the noise.  Comparing the received power with the quiet level expected
at the same sidereal time gives the absorption in dB.

The inversion adjusts the ionisation-rate profile so that the modelled
absorption on several beams matches the record.  Pieces:

    quiet level and absorption from the record    ``cosmic_noise_absorption``
    electron density from the ionisation rate     ``make_density`` (closure)
    absorption of the two magnetoionic modes      ``mode_absorption``

Heights are in km, densities in m^-3, rates in m^-3 s^-1, frequencies are
angular (rad/s) unless the name says otherwise.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

SIDEREAL_DAY = 86164.0905
ELECTRON_CHARGE = 1.602176634e-19
ELECTRON_MASS = 9.1093837015e-31
VACUUM_PERMITTIVITY = 8.8541878128e-12
LIGHT_SPEED = 2.99792458e8

DB_PER_NEPER = 20.0 / math.log(10.0)
DB = 10.0 / math.log(10.0)

# e^2 / (2 eps0 m c), in dB/km for density in m^-3 and frequencies in rad/s
ABSORPTION_CONSTANT = (
    DB_PER_NEPER
    * 1000.0
    * ELECTRON_CHARGE**2
    / (2.0 * VACUUM_PERMITTIVITY * ELECTRON_MASS * LIGHT_SPEED)
)


class Beam(NamedTuple):
    """Obliquity factor (secant of the zenith angle) and relative gain."""

    secant: jax.Array
    gain: jax.Array


class Atmosphere(NamedTuple):
    height: jax.Array
    thickness: jax.Array
    collision: jax.Array


def sidereal_bins(unix_seconds, n_bins: int) -> np.ndarray:
    phase = np.mod(np.asarray(unix_seconds, dtype=np.float64), SIDEREAL_DAY)
    return np.floor(phase / SIDEREAL_DAY * n_bins).astype(np.int32)


def reference_atmosphere(low: float = 55.0, high: float = 110.0, n: int = 56) -> Atmosphere:
    """Layers with an exponential electron-neutral collision frequency."""
    edges = jnp.linspace(low, high, n + 1)
    mid = 0.5 * (edges[1:] + edges[:-1])
    collision = 1.8e7 * jnp.exp(-(mid - 60.0) / 6.6)
    return Atmosphere(mid, jnp.diff(edges), collision)


def gyro_frequency(field_tesla):
    return ELECTRON_CHARGE * field_tesla / ELECTRON_MASS


# ---------------------------------------------------------------------------
# from the record
# ---------------------------------------------------------------------------


def _quiet_mean(power, bins, usable, n_bins):
    w = usable.astype(power.dtype)
    total = jnp.zeros(n_bins, power.dtype).at[bins].add(w * power)
    count = jnp.zeros(n_bins, power.dtype).at[bins].add(w)
    return total / jnp.maximum(count, 1.0)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def cosmic_noise_absorption(power, bins, usable, n_bins):
    """Absorption in dB against the mean level of the same sidereal bin.

    Parameters
    ----------
    power : (n,) array
        Received power, linear units, positive.
    bins : (n,) int array
        Sidereal bin of each sample.
    usable : (n,) bool array
        False where interference or solar noise was flagged; such samples do
        not enter the mean and get absorption 0.
    n_bins : int

    Returns
    -------
    (n,) array
    """
    level = _quiet_mean(power, bins, usable, n_bins)[bins]
    ratio = jnp.where(usable, level / power, 1.0)
    return DB * jnp.log(ratio)


def _cna_fwd(power, bins, usable, n_bins):
    mean = _quiet_mean(power, bins, usable, n_bins)
    ratio = jnp.where(usable, mean[bins] / power, 1.0)
    return DB * jnp.log(ratio), (power, bins, usable, mean)


def _cna_bwd(n_bins, res, g):
    power, bins, usable, mean = res
    g = jnp.where(usable, DB * g, 0.0)
    per_bin = jnp.zeros(n_bins, g.dtype).at[bins].add(g)
    filled = mean > 0
    g_mean = jnp.where(filled, per_bin / jnp.where(filled, mean, 1.0), 0.0)
    samples = jnp.bincount(bins, length=n_bins)
    share = g_mean / jnp.maximum(samples, 1)
    g_power = jnp.where(usable, share[bins], 0.0) - g / power
    f0 = jax.dtypes.float0
    return g_power, np.zeros(bins.shape, f0), np.zeros(usable.shape, f0)


cosmic_noise_absorption.defvjp(_cna_fwd, _cna_bwd)


# ---------------------------------------------------------------------------
# chemistry
# ---------------------------------------------------------------------------


def make_density(scale: float = 1e9):
    """Steady electron density under quadratic recombination and attachment.

    The returned function solves ``q = alpha n^2 + loss n`` for n >= 0.  Rates
    are scaled internally so that single precision suffices; ``scale`` is the
    density unit.
    """

    def _solve(rate, alpha, loss):
        a = alpha * scale
        q = rate / scale
        root = jnp.sqrt(loss * loss + 4.0 * a * q)
        return 2.0 * q / (loss + root), root, a

    @jax.custom_jvp
    def steady_density(rate, alpha, loss):
        """rate > 0, alpha > 0, loss >= 0; broadcasting.  Density in m^-3."""
        n, _, _ = _solve(rate, alpha, loss)
        return scale * n

    @steady_density.defjvp
    def _(primals, tangents):
        rate, alpha, loss = primals
        rate_dot, alpha_dot, loss_dot = tangents
        n, root, _ = _solve(rate, alpha, loss)
        # implicit function: (2 a n + loss) dn = dq - n^2 da - n dloss
        push = rate_dot / scale - n * n * (scale * alpha_dot) - n * loss_dot
        return scale * n, scale * push / root

    return steady_density


def effective_recombination(height):
    """Quiet-time fit of the recombination coefficient (m^3/s)."""
    return 2.5e-12 * jnp.exp(-height / 51.2) + 1e-10 * jnp.exp(-(height - 50.0) / 5.0)


# ---------------------------------------------------------------------------
# radio absorption
# ---------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def mode_absorption(density, collision, thickness, gyro, omega):
    """Vertical absorption (dB) of the ordinary and extraordinary mode.

    density [..., heights]; collision, thickness [heights]; gyro scalar, the
    electron gyrofrequency times the cosine of the dip; omega a Python float.
    Quasi-longitudinal Appleton-Hartree with refractive index one.
    """
    ordinary = _mode(density, collision, thickness, omega + gyro)
    extraordinary = _mode(density, collision, thickness, omega - gyro)
    return ordinary, extraordinary


def _mode(density, collision, thickness, detuned):
    weight = collision / (detuned**2 + collision**2)
    return ABSORPTION_CONSTANT * jnp.sum(density * weight * thickness, axis=-1)


def _mode_fwd(density, collision, thickness, gyro, omega):
    out = (
        _mode(density, collision, thickness, omega + gyro),
        _mode(density, collision, thickness, omega - gyro),
    )
    return out, (density, collision, thickness, gyro)


def _mode_bwd(omega, res, cotangents):
    density, collision, thickness, gyro = res
    heights = density.shape[-1]
    d_density = jnp.zeros_like(density)
    d_collision = jnp.zeros_like(collision)
    d_thickness = jnp.zeros_like(thickness)
    d_gyro = jnp.zeros_like(gyro)
    for sign, g in zip((1.0, -1.0), cotangents):
        g = ABSORPTION_CONSTANT * g[..., None]
        detuned = omega + sign * gyro
        bottom = detuned**2 + collision**2
        weight = collision / bottom
        d_density = d_density + g * weight * thickness
        column = (g * density).reshape(-1, heights).sum(axis=0)
        # d weight / d collision = (detuned^2 - collision^2) / bottom^2
        d_collision = d_collision + column * thickness * (
            (detuned / bottom) ** 2 - weight**2
        )
        d_thickness = d_thickness + column * weight
        d_gyro = d_gyro - sign * jnp.sum(column * thickness * 2.0 * weight * detuned / bottom)
    return d_density, d_collision, d_thickness, d_gyro


mode_absorption.defvjp(_mode_fwd, _mode_bwd)


# ---------------------------------------------------------------------------
# inversion
# ---------------------------------------------------------------------------


class ProfileInversion:
    """Fits ``log q`` on the layers to beam absorptions at one instant."""

    def __init__(self, atmosphere: Atmosphere, frequency_mhz: float = 38.2,
                 field_tesla: float = 4.8e-5, smoothing: float = 1e-2):
        self.atmosphere = atmosphere
        self.omega = 2.0 * math.pi * frequency_mhz * 1e6
        self.gyro = jnp.asarray(gyro_frequency(field_tesla))
        self.smoothing = smoothing
        self.density = make_density()

    def vertical(self, log_rate):
        atm = self.atmosphere
        alpha = effective_recombination(atm.height)
        n = self.density(jnp.exp(log_rate), alpha, jnp.full_like(alpha, 1e-3))
        o, x = mode_absorption(n, atm.collision, atm.thickness, self.gyro, self.omega)
        # both modes carry half of the unpolarised noise
        passed = 0.5 * (10.0 ** (-o / 10.0) + 10.0 ** (-x / 10.0))
        return -10.0 * jnp.log10(passed)

    def loss(self, log_rate, beams: Beam, measured):
        modelled = beams.gain * beams.secant * self.vertical(log_rate)
        rough = jnp.sum(jnp.diff(log_rate, n=2) ** 2)
        return jnp.sum((modelled - measured) ** 2) + self.smoothing * rough

    def fit(self, log_rate, beams, measured, rate: float = 0.05, steps: int = 20):
        step = jax.jit(jax.value_and_grad(self.loss))
        value = None
        for _ in range(steps):
            value, grad = step(log_rate, beams, measured)
            log_rate = log_rate - rate * grad
        return log_rate, value


def beam_gain_from_record(power, bins, usable, n_bins, target):
    """Misfit of a record against a target absorption series."""
    return jnp.mean((cosmic_noise_absorption(power, bins, usable, n_bins) - target) ** 2)


if __name__ == "__main__":
    inversion = ProfileInversion(reference_atmosphere())
    start = jnp.full(56, jnp.log(1e8))
    beams = Beam(jnp.asarray([1.0, 1.15, 1.4]), jnp.ones(3))
    fitted, misfit = inversion.fit(start, beams, jnp.asarray([1.1, 1.3, 1.5]))
    print("misfit", misfit, "peak log q", fitted.max())
    times = np.arange(0, 3 * 86400, 1800)
    bins = jnp.asarray(sidereal_bins(times, 24))
    record = 1.0 + 0.2 * jnp.sin(2 * jnp.pi * bins / 24) + 0.01 * jnp.cos(jnp.arange(times.size))
    usable = jnp.asarray(times % 7 != 3)
    print(beam_gain_from_record(record, bins, usable, 24, jnp.zeros(times.size)))
