"""Infrared bands of small molecules.

Force constants in N/m, masses in unified atomic mass units, wavenumbers in 1/cm.  The routines are meant for
fitting force constants and anharmonicities to measured gas spectra by gradient descent.
"""
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

AMU = 1.66053906660e-27
LIGHT_CM = 2.99792458e10
# sqrt(N/m / amu) -> 1/cm
TO_WAVENUMBER = 1.0 / (2.0 * np.pi * LIGHT_CM * np.sqrt(AMU))


@jax.custom_jvp
def stretch_wavenumber(force, mass_a, mass_b):
    """Harmonic wavenumber of the stretch of a bond between two atoms; the three arguments broadcast."""
    reduced = mass_a * mass_b / (mass_a + mass_b)
    return TO_WAVENUMBER * jnp.sqrt(force / reduced)


@stretch_wavenumber.defjvp
def _stretch_jvp(primals, tangents):
    force, mass_a, mass_b = primals
    d_force, d_a, d_b = tangents
    nu = stretch_wavenumber(force, mass_a, mass_b)
    total = mass_a + mass_b
    part_a, part_b = mass_a / total, mass_b / total
    # logarithmic derivative of the reduced mass
    d_log_reduced = part_a * d_a / mass_a + part_b * d_b / mass_b
    return nu, 0.5 * nu * (d_force / force - d_log_reduced)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def band_origin(omega, anharm, quanta=1):
    r"""Wavenumber of the transition from the ground state to the level ``quanta``.

    Parameters
    ----------
    omega : harmonic wavenumber :math:`\omega_e`
    anharm : anharmonicity :math:`\omega_e x_e`
    quanta : int, 1 for the fundamental, 2 for the first overtone and so on

    Notes
    -----
    The level :math:`v` lies at :math:`\omega_e (v+1/2) - \omega_e x_e (v+1/2)^2`.
    """
    return quanta * omega - quanta * (quanta + 1) * anharm


@band_origin.defjvp
def _band_origin_jvp(quanta, primals, tangents):
    omega, anharm = primals
    d_omega, d_anharm = tangents
    return band_origin(omega, anharm, quanta), quanta * (d_omega - 2.0 * d_anharm)


@jax.custom_vjp
def resonant_pair(high, low, coupling):
    """Levels of two states that are mixed by a Fermi resonance.

    Takes the unperturbed wavenumbers and the coupling (any common shape) and gives ``(upper, lower, share)``: the two
    observed wavenumbers and the part of the state ``high`` in the upper one.  The two states may lie in either order.
    """
    return _pair_fwd(high, low, coupling)[0]


def _pair_fwd(high, low, coupling):
    half = 0.5 * (high - low)
    centre = 0.5 * (high + low)
    split = jnp.hypot(half, coupling)
    share = 0.5 * (1.0 + half / split)
    return (centre + split, centre - split, share), (half, coupling, split)


def _pair_bwd(saved, g):
    half, coupling, split = saved
    g_up, g_down, g_share = g
    g_split = g_up - g_down
    g_half = g_split * half / split + 0.5 * g_share * coupling**2 / split**3
    g_coupling = g_split * coupling / split - 0.5 * g_share * half * coupling / split**3
    g_centre = 0.5 * (g_up + g_down)
    return g_centre + 0.5 * g_half, g_centre - 0.5 * g_half, g_coupling


resonant_pair.defvjp(_pair_fwd, _pair_bwd)


@jax.custom_vjp
def band_contour(grid, centres, strengths, widths, width_of):
    """Absorption on a grid as a sum of Lorentz lines.

    grid (points,), centres (lines,), strengths (lines,); widths (classes,) are half widths at half maximum, and
    width_of (lines,) tells the class of each line: lines that collide alike are broadened alike.
    """
    gamma = widths[width_of]
    away = grid[:, None] - centres
    return jnp.sum(strengths * gamma / (jnp.pi * (away**2 + gamma**2)), axis=1)


def _contour_fwd(grid, centres, strengths, widths, width_of):
    return band_contour(grid, centres, strengths, widths, width_of), (grid, centres, strengths, widths, width_of)


def _contour_bwd(saved, g):
    grid, centres, strengths, widths, width_of = saved
    gamma = widths[width_of]
    away = grid[:, None] - centres
    below = away**2 + gamma**2
    shape = gamma / (jnp.pi * below)
    slope = -2.0 * away * shape / below * strengths  # d/d away
    d_gamma = g @ (strengths * (away**2 - gamma**2) / (jnp.pi * below**2))
    d_widths = jnp.zeros_like(widths).at[width_of].set(d_gamma)
    return g * slope.sum(1), -(g @ slope), g @ shape, d_widths, None


band_contour.defvjp(_contour_fwd, _contour_bwd)


@dataclass
class GasCell:
    """A cell of carbon dioxide, carbonyl sulphide or the like; ``length_m`` scales all strengths."""

    length_m: float = 0.1
    collision_class: tuple = (0, 0, 1, 1)

    def transmission(self, grid, centres, strengths, widths):
        kinds = jnp.asarray(self.collision_class)[: centres.shape[0]]
        return jnp.exp(-self.length_m * band_contour(grid, centres, strengths, widths, kinds))


def isotope_shift(force, mass, partner_light, partner_heavy):
    """How far a band falls when the partner is exchanged for its heavy isotope."""
    return stretch_wavenumber(force, mass, partner_light) - stretch_wavenumber(force, mass, partner_heavy)


def progression(omega, anharm, highest):
    return jnp.stack([band_origin(omega, anharm, v) for v in range(1, highest + 1)])


def main():
    print("HCl", stretch_wavenumber(516.0, 1.008, 34.969), "shift to 37Cl", isotope_shift(516.0, 1.008, 34.969, 36.966))
    print(progression(2990.9, 52.8, 3))
    print(resonant_pair(1334.0, 1336.0, 52.0))


if __name__ == "__main__":
    main()
