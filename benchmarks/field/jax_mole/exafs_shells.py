"""X-ray absorption fine structure: normalisation, shell model and Fourier transform."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

ETOK = 0.2624682917  # 1 / (eV A^2)
EINSTEIN_CONST = 24.25423371  # hbar^2 / (2 k_B amu), A^2 K amu


class Shells(NamedTuple):
    """Fit parameters of the scattering shells."""

    number: jax.Array  # [shells]
    radius: jax.Array  # angstrom, [shells]
    sigma2: jax.Array  # A^2, [shells]
    e0: jax.Array  # eV, one shift shared by the shells, []


class Scatterer(NamedTuple):
    """Tabulated backscattering on the experiment's k grid."""

    amplitude: jax.Array  # [shells, k]
    phase: jax.Array  # [shells, k]
    mean_free_path: jax.Array  # [k]


def _terms(shells, table, k, s02):
    kk = jnp.sqrt(k * k - ETOK * shells.e0)
    r = shells.radius[:, None]
    arg = 2.0 * kk * r + table.phase
    envelope = (s02 * shells.number[:, None] * table.amplitude / (kk * r * r)
                * jnp.exp(-2.0 * shells.sigma2[:, None] * kk * kk - 2.0 * r / table.mean_free_path))
    return kk, r, arg, envelope


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def shell_sum(shells, table, k, s02=0.9):
    """Evaluates the EXAFS equation.

    Args:
        shells: Fit parameters. `e0` must leave every shifted k real.
        table: Tabulated amplitudes, phases and mean free path. They are data:
            nothing is propagated to them, nor to `k`.
        k: Wave numbers in 1/A, shape [k], positive.
        s02: Amplitude reduction factor.

    Returns:
        The fine structure chi, shape [k].
    """
    _, _, arg, envelope = _terms(shells, table, k, s02)
    return jnp.sum(envelope * jnp.sin(arg), axis=0)


def _shell_sum_fwd(shells, table, k, s02):
    return shell_sum(shells, table, k, s02), (shells, table, k)


def _shell_sum_bwd(s02, res, g):
    shells, table, k = res
    kk, r, arg, envelope = _terms(shells, table, k, s02)
    sine, cosine = envelope * jnp.sin(arg), envelope * jnp.cos(arg)
    # the coordination number may be zero for an empty shell
    per_atom = s02 * table.amplitude / (kk * r * r) * jnp.exp(
        -2.0 * shells.sigma2[:, None] * kk * kk - 2.0 * r / table.mean_free_path)
    d_number = (per_atom * jnp.sin(arg)) @ g
    d_radius = (2.0 * kk * cosine - 2.0 * (1.0 / r + 1.0 / table.mean_free_path) * sine) @ g
    d_sigma2 = -2.0 * sine @ (kk * kk * g)
    by_k = 2.0 * r * cosine - (1.0 / kk + 4.0 * shells.sigma2[:, None] * kk) * sine
    d_e0 = jnp.sum(by_k * g * (-0.5 * ETOK / kk))
    zeros = jax.tree.map(jnp.zeros_like, table)
    return Shells(d_number, d_radius, d_sigma2, d_e0), zeros, jnp.zeros_like(k)


shell_sum.defvjp(_shell_sum_fwd, _shell_sum_bwd)


def hanning_window(k, kmin, kmax, dk):
    rise = jnp.clip((k - kmin + dk / 2) / dk, 0.0, 1.0)
    fall = jnp.clip((kmax + dk / 2 - k) / dk, 0.0, 1.0)
    return jnp.sin(jnp.pi / 2 * rise) ** 2 * jnp.sin(jnp.pi / 2 * fall) ** 2


def make_transform(k, radii, kweight=2, limits=(3.0, 12.0), sill=1.0):
    """Builds the forward transform of a fixed, even k grid, `kweight` in 0 to 3.

    Returns:
        A function from real chi, shape [..., k], to the complex transform, [..., r].
    """
    k = np.asarray(k)
    step = float(k[1] - k[0])
    weight = hanning_window(k, *limits, sill) * k ** kweight * step / np.sqrt(np.pi)
    kernel = weight[:, None] * jnp.exp(2j * k[:, None] * np.asarray(radii)[None, :])

    @jax.custom_vjp
    def forward_ft(chi):
        return chi @ kernel

    def fwd(chi):
        return forward_ft(chi), None

    def bwd(_, g):
        return (jnp.real(g @ kernel.conj().T),)

    forward_ft.defvjp(fwd, bwd)
    return forward_ft


def _fit_operator(energy, mask, degree, centre):
    width = jnp.max(jnp.abs(energy - centre))
    basis = jnp.stack([((energy - centre) / width) ** p for p in range(degree + 1)], axis=1)
    chosen = basis * mask[:, None]
    return basis @ jnp.linalg.solve(chosen.T @ chosen, chosen.T)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5, 6))
def normalized_mu(mu, energy, e0, pre=-30.0, post=50.0, degree=2, flatten=False):
    """Normalises absorption by the edge step.

    Args:
        mu: Absorption of the scans, shape [scans, energies].
        energy: Energies in eV, shape [energies]; one of them equals `e0`. Not
            differentiated: its gradient is returned as zero.
        e0: Edge energy; `pre` and `post` bound the fitted ranges relative to it.
        degree: Degree of the post-edge polynomial.
        flatten: Whether to remove the curvature above the edge.
    """
    return _normalized_fwd(mu, energy, e0, pre, post, degree, flatten)[0]


def _normalized_fwd(mu, energy, e0, pre, post, degree, flatten):
    before = _fit_operator(energy, (energy <= e0 + pre).astype(mu.dtype), 1, e0)
    after = _fit_operator(energy, (energy >= e0 + post).astype(mu.dtype), degree, e0)
    edge = jnp.argmin(jnp.abs(energy - e0))
    line, curve = mu @ before.T, mu @ after.T
    jump = (curve - line)[:, edge][:, None]
    above = (energy >= e0).astype(mu.dtype)
    out = (mu - line) / jump
    if flatten:
        out = out - above * ((curve - line) / jump - 1.0)
    return out, (mu, line, jump, before, after, edge, above)


def _normalized_bwd(e0, pre, post, degree, flatten, res, g):
    mu, line, jump, before, after, edge, above = res
    scaled = g / jump
    d_mu, d_line, d_curve = scaled, -scaled, jnp.zeros_like(g)
    if flatten:
        d_curve = d_curve - above * scaled
        d_line = d_line + above * scaled
    d_jump = -jnp.sum(scaled * (mu - line) / jump, axis=1)
    d_curve = d_curve.at[:, edge].add(d_jump)
    d_line = d_line.at[:, edge].add(-d_jump)
    return d_mu + d_line @ before + d_curve @ after, jnp.zeros_like(above)


normalized_mu.defvjp(_normalized_fwd, _normalized_bwd)


def _fold(g, like):
    lead = g.ndim - like.ndim
    axes = tuple(range(lead)) + tuple(lead + i for i, n in enumerate(like.shape) if n == 1)
    return jnp.sum(g, axis=axes, keepdims=True).reshape(like.shape)


@jax.custom_vjp
def einstein_sigma2(temperature, theta, reduced_mass):
    """Mean square relative displacement of a correlated Einstein oscillator.

    Args:
        temperature: Kelvin, positive; the three arguments are arrays that broadcast.
        theta: Einstein temperature in kelvin, positive.
        reduced_mass: In atomic mass units.
    """
    return EINSTEIN_CONST / (reduced_mass * theta) / jnp.tanh(theta / (2.0 * temperature))


def _einstein_fwd(temperature, theta, reduced_mass):
    return einstein_sigma2(temperature, theta, reduced_mass), (temperature, theta, reduced_mass)


def _einstein_bwd(res, g):
    t, theta, m = res
    x = theta / (2.0 * t)
    csch2 = 4.0 * jnp.exp(-2.0 * x) / jnp.expm1(-2.0 * x) ** 2
    lead = g * EINSTEIN_CONST / (m * theta)
    d_t = lead * csch2 * x / t
    d_theta = -lead * (1.0 / jnp.tanh(x) / theta + csch2 / (2.0 * t))
    d_m = -lead / jnp.tanh(x) / m
    return _fold(d_t, t), _fold(d_theta, theta), _fold(d_m, m)


einstein_sigma2.defvjp(_einstein_fwd, _einstein_bwd)


def fit_loss(shells, table, k, measured, transform):
    return jnp.sum(jnp.abs(transform(shell_sum(shells, table, k)) - measured) ** 2)
