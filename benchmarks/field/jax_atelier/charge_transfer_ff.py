"""Charge-transfer force field: pair terms, radial features, equilibrated charges, smeared occupations.

Lengths in Angstrom, energies in eV, charges in e.
"""

from functools import partial
from typing import Dict, NamedTuple, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np

KCOULOMB = 14.399645  # eV * Angstrom / e^2
KB = 8.617333262e-5  # eV / K

Params = Dict[str, jnp.ndarray]


# --- geometry ---------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def safe_norm(x, axis=-1, keepdims=False):
    """Euclidean norm along `axis` whose derivative at the zero vector is zero instead of NaN."""
    return jnp.sqrt(jnp.sum(x * x, axis=axis, keepdims=keepdims))


@safe_norm.defjvp
def _safe_norm_jvp(axis, keepdims, primals, tangents):
    (x,), (dx,) = primals, tangents
    n = safe_norm(x, axis, keepdims)
    inner = jnp.sum(x * dx, axis=axis, keepdims=keepdims)
    zero = n == 0
    return n, jnp.where(zero, 0.0, inner / jnp.where(zero, 1.0, n))


def minimum_image(dr, box):
    """Orthorhombic minimum image; `box` holds the three edge lengths."""
    return dr - box * jnp.round(dr / box)


# --- van der Waals ----------------------------------------------------------


class Pairs(NamedTuple):
    """Half neighbour list, every pair once.

    Padding entries have i == n_atoms (j is then arbitrary).
    """

    i: jnp.ndarray
    j: jnp.ndarray


def _lj(r2, sigma, eps):
    s6 = (sigma * sigma / r2) ** 3
    return 4.0 * eps * (s6 * s6 - s6)


def _gather_pairs(positions, params, box, types, pairs, r_cut):
    n = positions.shape[0]
    real = pairs.i < n
    i = jnp.where(real, pairs.i, 0)
    j = jnp.where(real, pairs.j, 0)
    dr = positions[i] - positions[j]
    images = jnp.round(dr / box)
    d = dr - box * images
    r2 = jnp.sum(d * d, axis=-1)
    inside = real & (r2 < r_cut**2)
    r2 = jnp.where(inside, r2, 1.0)
    ti, tj = types[i], types[j]
    sigma = 0.5 * (params["sigma"][ti] + params["sigma"][tj])
    eps = jnp.sqrt(params["epsilon"][ti] * params["epsilon"][tj])
    return i, j, d, images, r2, inside, ti, tj, sigma, eps


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def lj_site_energies(positions, params, box, types, pairs, r_cut):
    """Shifted Lennard-Jones energy per atom, Lorentz-Berthelot mixing.

    Parameters
    ----------
    positions : (n, 3)
    params : {"sigma": (n_types,), "epsilon": (n_types,)}
    box : (3,) edge lengths; differentiable, for the virial
    types : (n,) int, row of `params` of each atom
    pairs : Pairs
    r_cut : float, static

    Returns
    -------
    (n,) energies; half of a pair's energy goes to either partner
    """
    n = positions.shape[0]
    i, j, _, _, r2, inside, _, _, sigma, eps = _gather_pairs(positions, params, box, types, pairs, r_cut)
    e = jnp.where(inside, _lj(r2, sigma, eps) - _lj(r_cut**2, sigma, eps), 0.0)
    return jnp.zeros(n, e.dtype).at[i].add(0.5 * e).at[j].add(0.5 * e)


def _lj_fwd(positions, params, box, types, pairs, r_cut):
    return lj_site_energies(positions, params, box, types, pairs, r_cut), (positions, params, box, types, pairs)


def _lj_bwd(r_cut, res, g):
    positions, params, box, types, pairs = res
    i, j, d, images, r2, inside, ti, tj, sigma, eps = _gather_pairs(positions, params, box, types, pairs, r_cut)
    ge = jnp.where(inside, 0.5 * (g[i] + g[j]), 0.0)

    s6 = (sigma * sigma / r2) ** 3
    c6 = (sigma * sigma / r_cut**2) ** 3
    # positions and box
    de_dr2 = 4.0 * eps * (-6.0 * s6 * s6 + 3.0 * s6) / r2
    pull = (2.0 * ge * de_dr2)[:, None] * d
    d_pos = jnp.zeros_like(positions).at[i].add(pull).at[j].add(-pull)
    d_box = -jnp.sum(pull * images, axis=0)
    # parameters
    de_dsigma = 4.0 * eps * (12.0 * (s6 * s6 - c6 * c6) - 6.0 * (s6 - c6)) / sigma
    de_deps = 4.0 * ((s6 * s6 - s6) - (c6 * c6 - c6))
    n_types = params["sigma"].shape[0]
    d_sigma = jax.ops.segment_sum(ge * de_dsigma, ti, n_types)
    d_eps = jax.ops.segment_sum(ge * de_deps * eps, ti, n_types) / params["epsilon"]
    return d_pos, {"sigma": d_sigma, "epsilon": d_eps}, d_box, None, None


lj_site_energies.defvjp(_lj_fwd, _lj_bwd)


# --- radial features --------------------------------------------------------


def _envelope(x, p):
    """1 at x = 0, zero with two vanishing derivatives at x = 1 (DimeNet)."""
    u = 1.0 - 0.5 * (p + 1) * (p + 2) * x**p + p * (p + 2) * x ** (p + 1) - 0.5 * p * (p + 1) * x ** (p + 2)
    du = -0.5 * p * (p + 1) * (p + 2) * x ** (p - 1) * (1.0 - x) ** 2
    return jnp.where(x < 1.0, u, 0.0), jnp.where(x < 1.0, du, 0.0)


def _sinc_pair(z):
    """sin(z) / z and its derivative."""
    small = jnp.abs(z) < 0.1
    zs = jnp.where(small, 1.0, z)
    s = jnp.sin(zs) / zs
    ds = (jnp.cos(zs) - s) / zs
    z2 = z * z
    s_taylor = 1.0 - z2 / 6.0 * (1.0 - z2 / 20.0 * (1.0 - z2 / 42.0))
    ds_taylor = -z / 3.0 * (1.0 - z2 / 10.0 * (1.0 - z2 / 28.0 * (1.0 - z2 / 54.0)))
    return jnp.where(small, s_taylor, s), jnp.where(small, ds_taylor, ds)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def bessel_basis(r, freqs, cutoff, p):
    """sqrt(2 / c) sin(freqs r / c) / r times the polynomial envelope; (...,) and (k,) -> (..., k), r >= 0."""
    x = r[..., None] / cutoff
    s, _ = _sinc_pair(freqs * x)
    return np.sqrt(2.0 / cutoff) * freqs / cutoff * s * _envelope(x, p)[0]


@bessel_basis.defjvp
def _bessel_basis_jvp(cutoff, p, primals, tangents):
    r, freqs = primals
    dr, dfreqs = tangents
    x = r[..., None] / cutoff
    dx = dr[..., None] / cutoff
    s, ds = _sinc_pair(freqs * x)
    u, du = _envelope(x, p)
    norm = np.sqrt(2.0 / cutoff) / cutoff
    out = norm * freqs * s * u
    wrt_x = freqs * (freqs * ds * u + s * du)
    wrt_f = jnp.cos(freqs * x) * u  # d/df [f sinc(f x)]
    return out, norm * (wrt_x * dx + wrt_f * dfreqs)


class RadialFeatures:
    """Trainable Bessel frequencies, initialised to n * pi."""

    def __init__(self, num_radial: int = 8, cutoff: float = 5.0, exponent: int = 6):
        self.num_radial, self.cutoff, self.exponent = num_radial, cutoff, exponent

    def init(self) -> Params:
        return {"freqs": jnp.pi * jnp.arange(1, self.num_radial + 1)}

    def __call__(self, params: Params, vectors):
        return bessel_basis(safe_norm(vectors, -1, False), params["freqs"], self.cutoff, self.exponent)


# --- charge equilibration ---------------------------------------------------


def _qeq_matrix(hardness, coulomb, mask):
    n = hardness.shape[0]
    both = mask[:, None] & mask[None, :]
    m = jnp.where(both, coulomb, 0.0) + jnp.diag(jnp.where(mask, hardness, 1.0))
    ones = mask.astype(m.dtype)
    kkt = jnp.zeros((n + 1, n + 1), m.dtype)
    return kkt.at[:n, :n].set(m).at[:n, n].set(ones).at[n, :n].set(ones)


@jax.custom_vjp
def equilibrate_charges(chi, hardness, coulomb, total_charge, mask):
    """Charges that minimise chi.q + q.(diag(hardness) + coulomb).q / 2 at fixed total charge.

    Parameters
    ----------
    chi, hardness : (n,)
    coulomb : (n, n) interaction without the diagonal self term
    total_charge : scalar
    mask : (n,) bool, False for padding atoms (which get charge zero)

    Returns
    -------
    charges : (n,)
    potential : scalar, the Lagrange multiplier (electronegativity common to all atoms, with minus sign)
    """
    rhs = jnp.append(jnp.where(mask, -chi, 0.0), total_charge)
    sol = jnp.linalg.solve(_qeq_matrix(hardness, coulomb, mask), rhs)
    return sol[:-1], sol[-1]


def _qeq_fwd(chi, hardness, coulomb, total_charge, mask):
    q, mu = equilibrate_charges(chi, hardness, coulomb, total_charge, mask)
    return (q, mu), (q, hardness, coulomb, mask)


def _qeq_bwd(res, g):
    q, hardness, coulomb, mask = res
    gq, gmu = g
    # one adjoint solve for everything; the potential needs no term of its own beyond the right-hand side
    adj = jnp.linalg.solve(_qeq_matrix(hardness, coulomb, mask).T, jnp.append(gq, gmu))
    lam = jnp.where(mask, adj[:-1], 0.0)
    return -lam, -lam * q, -jnp.outer(lam, q), adj[-1], None


equilibrate_charges.defvjp(_qeq_fwd, _qeq_bwd)


def damped_coulomb(positions, radii):
    """Gaussian-screened Coulomb matrix with an empty diagonal."""
    d = safe_norm(positions[:, None] - positions[None], -1, False)
    gamma = jnp.sqrt(radii[:, None] ** 2 + radii[None] ** 2)
    off = ~jnp.eye(d.shape[0], dtype=bool)
    r = jnp.where(off, d, 1.0)
    return jnp.where(off, KCOULOMB * jax.scipy.special.erf(r / gamma) / r, 0.0)


# --- electronic smearing ----------------------------------------------------


def _fermi(eigs, mu, kt):
    return jax.nn.sigmoid((mu - eigs) / kt)


def _find_mu(eigs, k_weights, n_elec, kt, iters=200):
    lo, hi = eigs.min() - 50.0 * kt, eigs.max() + 50.0 * kt

    def halve(_, bracket):
        lo, hi = bracket
        mid = 0.5 * (lo + hi)
        count = 2.0 * jnp.sum(k_weights[:, None] * _fermi(eigs, mid, kt))
        return jnp.where(count < n_elec, mid, lo), jnp.where(count < n_elec, hi, mid)

    lo, hi = jax.lax.fori_loop(0, iters, halve, (lo, hi))
    return 0.5 * (lo + hi)


@jax.custom_jvp
def fermi_occupations(eigs, n_elec, kt, k_weights):
    """Occupations at fixed electron number.

    The chemical potential solves 2 sum_k w_k sum_b f((mu - eigs[k, b]) / kt) = n_elec, with f the Fermi function.

    Parameters
    ----------
    eigs : (nk, nbands)
    n_elec : scalar
    kt : scalar smearing width
    k_weights : (nk,), multiplicities of the symmetry-reduced mesh, sum to one

    Returns
    -------
    occupations (nk, nbands) in 0..1, chemical potential
    """
    mu = _find_mu(eigs, k_weights, n_elec, kt)
    return _fermi(eigs, mu, kt), mu


@fermi_occupations.defjvp
def _fermi_occupations_jvp(primals, tangents):
    eigs, n_elec, kt, k_weights = primals
    d_eigs, d_n, d_kt, d_w = tangents
    f, mu = fermi_occupations(eigs, n_elec, kt, k_weights)
    x = (mu - eigs) / kt
    slope = f * (1.0 - f)
    # implicit derivative of the electron count
    shift = jnp.sum(slope * (d_eigs + x * d_kt)) / jnp.sum(slope)
    supply = 0.5 * d_n - jnp.sum(d_w[:, None] * f)
    d_mu = shift + kt * supply / jnp.sum(k_weights[:, None] * slope)
    d_f = slope * (d_mu - d_eigs - x * d_kt) / kt
    return (f, mu), (d_f, d_mu)


def band_energy(eigs, n_elec, temperature, k_weights: Optional[jnp.ndarray] = None) -> Tuple[jnp.ndarray, jnp.ndarray]:
    if k_weights is None:
        k_weights = jnp.full(eigs.shape[0], 1.0 / eigs.shape[0])
    f, mu = fermi_occupations(eigs, n_elec, KB * temperature, k_weights)
    return 2.0 * jnp.sum(k_weights[:, None] * f * eigs), mu


# --- total energy -----------------------------------------------------------


class ChargeTransferField:
    """Lennard-Jones plus equilibrated charges for a periodic box of mixed species (charges without images)."""

    def __init__(self, types, box, r_cut=6.0):
        self.types, self.box, self.r_cut = jnp.asarray(types), jnp.asarray(box), r_cut
        n = len(types)
        i, j = np.triu_indices(n, 1)
        self.pairs = Pairs(jnp.asarray(i), jnp.asarray(j))
        self.mask = jnp.ones(n, bool)

    def energy(self, params: Params, positions, total_charge=0.0):
        lj = lj_site_energies(positions, params["lj"], self.box, self.types, self.pairs, self.r_cut).sum()
        chi, hardness = params["chi"][self.types], params["hardness"][self.types]
        coulomb = damped_coulomb(positions, params["radius"][self.types])
        q, _ = equilibrate_charges(chi, hardness, coulomb, jnp.asarray(total_charge, chi.dtype), self.mask)
        return lj + chi @ q + 0.5 * q @ (hardness * q + coulomb @ q)

    def forces(self, params, positions):
        return -jax.grad(self.energy, argnums=1)(params, positions)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    xyz = jnp.asarray(np.stack(np.meshgrid(*[np.arange(2) * 3.0] * 3), -1).reshape(-1, 3) + 0.1 * rng.normal(size=(8, 3)))
    field = ChargeTransferField([0, 1] * 4, [9.0, 9.0, 9.0], r_cut=4.4)
    params = {
        "lj": {"sigma": jnp.array([2.6, 3.1]), "epsilon": jnp.array([0.004, 0.009])},
        "chi": jnp.array([4.0, 7.5]),
        "hardness": jnp.array([9.0, 13.0]),
        "radius": jnp.array([1.1, 0.8]),
    }
    print(field.energy(params, xyz), field.forces(params, xyz)[0])
    print(band_energy(jnp.asarray(rng.normal(size=(4, 6))), 5.0, 2000.0, jnp.array([1, 3, 3, 1]) / 8)[1])
