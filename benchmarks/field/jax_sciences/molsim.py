"""Differentiable pieces of a small force field / electronic structure toolkit.

Units are whatever the caller uses consistently (we use Hartree and Bohr for the
electronic part, kJ/mol and nm for the classical part).
"""
from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import gammainc, gammaln


# ---------------------------------------------------------------------------
# classical terms
# ---------------------------------------------------------------------------

def _displacements(positions, box):
    dr = positions[:, None, :] - positions[None, :, :]
    return dr - jnp.round(dr / box) * box


def _upper_pairs(n):
    return jnp.arange(n)[:, None] < jnp.arange(n)[None, :]


@jax.custom_vjp
def lj_energy(positions, box, eps, sigma):
    """Total Lennard-Jones energy of a periodic system (minimum image).

    Parameters
    ----------
    positions : (N, 3) float array
        Cartesian positions.  They may be unwrapped, i.e. come straight from a
        trajectory in which particles diffused through several periodic cells.
    box : (3,) float array
        Edge lengths of the orthorhombic cell.
    eps, sigma : float
        Well depth and diameter.

    Returns
    -------
    energy : scalar
    """
    d = _displacements(positions, box)
    keep = _upper_pairs(positions.shape[0])
    r2 = jnp.where(keep, jnp.sum(d * d, -1), 1.0)
    s6 = (sigma * sigma / r2) ** 3
    return jnp.sum(jnp.where(keep, 4.0 * eps * (s6 * s6 - s6), 0.0))


def _lj_fwd(positions, box, eps, sigma):
    return lj_energy(positions, box, eps, sigma), (positions, box, eps, sigma)


def _lj_bwd(res, g):
    positions, box, eps, sigma = res
    d = _displacements(positions, box)
    keep = _upper_pairs(positions.shape[0])
    r2 = jnp.where(keep, jnp.sum(d * d, -1), 1.0)
    s6 = jnp.where(keep, (sigma * sigma / r2) ** 3, 0.0)

    # dE/d(dr) for each pair i < j
    f = (24.0 * eps * (s6 - 2.0 * s6 * s6) / r2)[..., None] * d
    d_pos = jnp.sum(f, 1) - jnp.sum(f, 0)

    raw = positions[:, None, :] - positions[None, :, :]
    image = jnp.where(jnp.abs(raw) > 0.5 * box, jnp.sign(raw), 0.0)
    d_box = -jnp.sum(f * image, (0, 1))

    d_eps = jnp.sum(4.0 * (s6 * s6 - s6))
    d_sigma = jnp.sum(24.0 * eps * (2.0 * s6 * s6 - s6)) / sigma
    return g * d_pos, g * d_box, g * d_eps, g * d_sigma


lj_energy.defvjp(_lj_fwd, _lj_bwd)


def forces_and_pressure(positions, box, eps=1.0, sigma=0.3):
    """Forces and diagonal of the static pressure tensor."""
    d_pos, d_box = jax.grad(lj_energy, argnums=(0, 1))(positions, box, eps, sigma)
    volume = jnp.prod(box)
    return -d_pos, -d_box * box / volume


@jax.custom_vjp
def harmonic_bonds(params, positions, bonds, bond_type):
    """Sum over bonds of ``k/2 (r - r0)^2``.

    Parameters
    ----------
    params : dict
        ``{"k": (T,), "r0": (T,)}``, one entry per bond type.
    positions : (N, 3)
    bonds : (B, 2) int
        Atom indices.
    bond_type : (B,) int
        Index into ``params``.
    """
    d = positions[bonds[:, 0]] - positions[bonds[:, 1]]
    r = jnp.sqrt(jnp.sum(d * d, -1))
    return 0.5 * jnp.sum(params["k"][bond_type] * (r - params["r0"][bond_type]) ** 2)


def _hb_fwd(params, positions, bonds, bond_type):
    d = positions[bonds[:, 0]] - positions[bonds[:, 1]]
    r = jnp.sqrt(jnp.sum(d * d, -1))
    stretch = r - params["r0"][bond_type]
    k = params["k"][bond_type]
    out = 0.5 * jnp.sum(k * stretch ** 2)
    return out, (params, positions, d, r, stretch, k, bonds, bond_type)


def _hb_bwd(res, g):
    params, positions, d, r, stretch, k, bonds, bond_type = res
    tension = g * k * stretch
    f = (tension / r)[:, None] * d
    d_pos = jnp.zeros_like(positions).at[bonds[:, 0]].add(f).at[bonds[:, 1]].add(-f)
    d_params = {
        "k": jnp.zeros_like(params["k"]).at[bond_type].add(0.5 * g * stretch ** 2),
        "r0": jnp.zeros_like(params["r0"]).at[bond_type].add(-tension),
    }
    return d_params, d_pos, None, None


harmonic_bonds.defvjp(_hb_fwd, _hb_bwd)


# ---------------------------------------------------------------------------
# electronic structure
# ---------------------------------------------------------------------------

def _boys_series(n, x, terms=60):
    term = jnp.ones_like(x) / (2 * n + 1)
    total = term
    for i in range(1, terms):
        term = term * 2.0 * x / (2 * n + 2 * i + 1)
        total = total + term
    return jnp.exp(-x) * total


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def boys(n, x):
    r"""Boys function :math:`F_n(x) = \int_0^1 t^{2n} e^{-x t^2} dt`.

    Parameters
    ----------
    n : int
        Order, ``0 <= n <= 8``.
    x : array
        Non-negative argument(s).
    """
    x = jnp.asarray(x)
    small = x < 12.0
    xs = jnp.where(small, x, 1.0)
    xl = jnp.where(small, 12.0, x)
    a = n + 0.5
    large = 0.5 * jnp.exp(gammaln(a) - a * jnp.log(xl)) * gammainc(a, xl)
    return jnp.where(small, _boys_series(n, xs), large)


@boys.defjvp
def _boys_jvp(n, primals, tangents):
    (x,), (dx,) = primals, tangents
    return boys(n, x), -boys(n + 1, x) * dx


def nuclear_attraction_s(alpha, beta, A, B, C, Z=1.0):
    """Attraction integral between two s primitives and a point charge at C."""
    p = alpha + beta
    P = (alpha * A + beta * B) / p
    pref = jnp.exp(-alpha * beta / p * jnp.sum((A - B) ** 2))
    return -2.0 * jnp.pi / p * Z * pref * boys(0, p * jnp.sum((P - C) ** 2))


def _roothaan(fock, overlap):
    lower = jnp.linalg.cholesky(0.5 * (overlap + overlap.T))
    linv = jnp.linalg.inv(lower)
    e, u = jnp.linalg.eigh(linv @ (0.5 * (fock + fock.T)) @ linv.T)
    return e, linv.T @ u


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def band_energy(fock, overlap, n_occ):
    """Closed-shell band energy: twice the sum of the ``n_occ`` lowest orbital energies.

    Parameters
    ----------
    fock : (n, n)
        Symmetric Fock matrix.
    overlap : (n, n)
        Symmetric positive definite overlap matrix.
    n_occ : int
        Number of doubly occupied orbitals; a gap above the last one is assumed.
    """
    e, _ = _roothaan(fock, overlap)
    return 2.0 * jnp.sum(e[:n_occ])


def _band_fwd(fock, overlap, n_occ):
    e, c = _roothaan(fock, overlap)
    return 2.0 * jnp.sum(e[:n_occ]), (e[:n_occ], c[:, :n_occ])


def _band_bwd(n_occ, res, g):
    e, c = res
    density = 2.0 * c @ c.T
    weighted = 2.0 * (c * e) @ c.T
    return g * density, -g * weighted


band_energy.defvjp(_band_fwd, _band_bwd)


@jax.custom_vjp
def coulomb_matrix(charges, coords):
    """Coulomb matrix descriptor (Rupp et al.).

    ``M_ii = 0.5 Z_i^2.4`` and ``M_ij = Z_i Z_j / |R_i - R_j|``.

    Parameters
    ----------
    charges : (N,) positive floats
    coords : (N, 3)

    Returns
    -------
    (N, N) array
    """
    return _coulomb(charges, coords)[0]


def _coulomb(charges, coords):
    n = charges.shape[0]
    eye = jnp.eye(n, dtype=bool)
    d = coords[:, None, :] - coords[None, :, :]
    r = jnp.sqrt(jnp.where(eye, 1.0, jnp.sum(d * d, -1)))
    inv_r = jnp.where(eye, 0.0, 1.0 / r)
    m = charges[:, None] * charges[None, :] * inv_r
    return m + jnp.diag(0.5 * charges ** 2.4), d, inv_r


def _coulomb_fwd(charges, coords):
    m, d, inv_r = _coulomb(charges, coords)
    return m, (charges, d, inv_r)


def _coulomb_bwd(res, g):
    charges, d, inv_r = res
    d_charges = 2.0 * (g * inv_r) @ charges + 1.2 * charges ** 1.4 * jnp.diagonal(g)
    zz = charges[:, None] * charges[None, :]
    pair = -(g + g.T) * zz * inv_r ** 3
    d_coords = jnp.sum(pair[..., None] * d, axis=1)
    return d_charges, d_coords


coulomb_matrix.defvjp(_coulomb_fwd, _coulomb_bwd)


def descriptor(charges, coords, weights):
    """Flattened lower triangle contracted with readout weights."""
    m = coulomb_matrix(charges, coords)
    i, j = jnp.tril_indices(charges.shape[0])
    return jnp.dot(m[i, j], weights)
