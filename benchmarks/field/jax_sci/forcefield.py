"""Energy terms of the classical force field.

Positions are in nm, energies in kJ/mol.  Lists of pairs are padded with the
number of atoms, as produced by the neighbour search.
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

COULOMB = 138.935458


class TorsionParams(NamedTuple):
    k: jax.Array       # (T,)
    phase: jax.Array   # (T,)


class AngleParams(NamedTuple):
    k: jax.Array       # (A,)
    theta0: jax.Array  # (A,)


def _pair_terms(pos, species, eps, sigma, pairs, box, r_cut):
    n = pos.shape[0]
    ok = (pairs < n).all(axis=1)
    i = jnp.where(ok, pairs[:, 0], 0)
    j = jnp.where(ok, pairs[:, 1], 0)
    dr = pos[i] - pos[j]
    shift = jnp.round(dr / box)
    dr = dr - box * shift
    r2 = jnp.where(ok, (dr * dr).sum(-1), 1.0)
    ok = ok & (r2 < r_cut * r_cut)
    si, sj = species[i], species[j]
    e, s = eps[si, sj], sigma[si, sj]
    s6 = jnp.where(ok, (s * s / r2) ** 3, 0.0)
    return i, j, si, sj, dr, shift, r2, e, s, s6


@functools.partial(jax.custom_vjp, nondiff_argnums=(6,))
def lennard_jones(pos, species, eps, sigma, pairs, box, r_cut=1.2):
    """Truncated Lennard-Jones energy over a half list of pairs.

    Parameters
    ----------
    pos : (n, 3) float
    species : (n,) int
        Row of each atom in the parameter tables.
    eps, sigma : (s, s) float
        Well depths and diameters by pair of species.
    pairs : (p, 2) int
        Every pair once; padding rows hold ``n``.
    box : (3,) float
        Orthorhombic cell.
    r_cut : float
        Cutoff, static.

    Returns
    -------
    energy : scalar
    """
    *_, e, s, s6 = _pair_terms(pos, species, eps, sigma, pairs, box, r_cut)
    return jnp.sum(4.0 * e * (s6 * s6 - s6))


def _lj_fwd(pos, species, eps, sigma, pairs, box, r_cut):
    out = lennard_jones(pos, species, eps, sigma, pairs, box, r_cut)
    return out, (pos, species, eps, sigma, pairs, box)


def _lj_bwd(r_cut, res, g):
    pos, species, eps, sigma, pairs, box = res
    i, j, si, sj, dr, shift, r2, e, s, s6 = _pair_terms(*res, r_cut)
    slope = 12.0 * s6 * s6 - 6.0 * s6
    f = (-4.0 * g * e * slope / r2)[:, None] * dr
    g_pos = jnp.zeros_like(pos).at[i].add(f).at[j].add(-f)
    g_eps = jnp.zeros_like(eps).at[si, sj].add(4.0 * g * (s6 * s6 - s6))
    g_sigma = jnp.zeros_like(sigma).at[si, sj].add(4.0 * g * e * slope / s)
    return g_pos, None, g_eps, g_sigma, None, -(f * shift).sum(0)


lennard_jones.defvjp(_lj_fwd, _lj_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def screened_coulomb(pos, charges, kappa, pairs, full_list=True):
    """Yukawa (screened Coulomb) energy.

    Args:
        pos: (n, 3) positions.
        charges: (n,) partial charges.
        kappa: scalar inverse screening length.
        pairs: (p, 2) integer list of atoms.
        full_list: whether ``pairs`` holds both (i, j) and (j, i); if False each
            pair is listed once.

    Returns:
        The scalar energy.
    """
    i, j = pairs[:, 0], pairs[:, 1]
    r = jnp.linalg.norm(pos[i] - pos[j], axis=-1)
    scale = 0.5 if full_list else 1.0
    return scale * COULOMB * jnp.sum(charges[i] * charges[j] * jnp.exp(-kappa * r) / r)


def _coulomb_fwd(pos, charges, kappa, pairs, full_list):
    return screened_coulomb(pos, charges, kappa, pairs, full_list), (pos, charges, kappa, pairs)


def _coulomb_bwd(full_list, res, g):
    pos, charges, kappa, pairs = res
    i, j = pairs[:, 0], pairs[:, 1]
    d = pos[i] - pos[j]
    r = jnp.linalg.norm(d, axis=-1)
    scale = 0.5 if full_list else 1.0
    green = COULOMB * jnp.exp(-kappa * r) / r
    qq = charges[i] * charges[j]
    f = (-scale * g * qq * green * (kappa + 1.0 / r) / r)[:, None] * d
    g_pos = jnp.zeros_like(pos).at[i].add(f).at[j].add(-f)
    # electrostatic potential at every atom
    potential = jnp.zeros_like(charges).at[i].add(charges[j] * green)
    g_kappa = -scale * g * jnp.sum(qq * green * r)
    return g_pos, g * potential, g_kappa, None


screened_coulomb.defvjp(_coulomb_fwd, _coulomb_bwd)


def _angles(pos, triples):
    a = pos[triples[:, 0]] - pos[triples[:, 1]]
    b = pos[triples[:, 2]] - pos[triples[:, 1]]
    cross = jnp.linalg.norm(jnp.cross(a, b), axis=-1)
    return jnp.arctan2(cross, (a * b).sum(-1)), a, b


@jax.custom_vjp
def harmonic_angles(pos, triples, params):
    """0.5 k (theta - theta0)^2 summed over the angles i-j-k.

    pos (n, 3); triples (A, 3) int, vertex in the middle; params AngleParams.
    """
    theta, _, _ = _angles(pos, triples)
    return 0.5 * jnp.sum(params.k * (theta - params.theta0) ** 2)


def _ha_fwd(pos, triples, params):
    return harmonic_angles(pos, triples, params), (pos, triples, params)


def _ha_bwd(res, g):
    pos, triples, params = res
    theta, a, b = _angles(pos, triples)
    dev = theta - params.theta0
    ra = jnp.linalg.norm(a, axis=-1, keepdims=True)
    rb = jnp.linalg.norm(b, axis=-1, keepdims=True)
    ua, ub = a / ra, b / rb
    cos, sin = jnp.cos(theta)[:, None], jnp.sin(theta)[:, None]
    pull = (g * params.k * dev)[:, None]
    fi = pull * (cos * ua - ub) / (ra * sin)
    fk = pull * (cos * ub - ua) / (rb * sin)
    forces = jnp.stack([fi, -fi - fk, fk], axis=1)
    g_pos = jnp.zeros_like(pos).at[triples.reshape(-1)].set(forces.reshape(-1, 3))
    return g_pos, None, AngleParams(0.5 * g * dev ** 2, -g * params.k * dev)


harmonic_angles.defvjp(_ha_fwd, _ha_bwd)


def _dihedral_vectors(pos, quads):
    p = pos[quads]
    f, c, h = p[:, 0] - p[:, 1], p[:, 1] - p[:, 2], p[:, 3] - p[:, 2]
    a, b = jnp.cross(f, c), jnp.cross(h, c)
    rc = jnp.linalg.norm(c, axis=-1)
    phi = jnp.arctan2((jnp.cross(b, a) * c).sum(-1) / rc, (a * b).sum(-1))
    return f, c, h, a, b, rc, phi


@jax.custom_vjp
def torsion_energy(pos, quads, multiplicity, params):
    phi = _dihedral_vectors(pos, quads)[-1]
    return jnp.sum(params.k * (1.0 + jnp.cos(multiplicity * phi - params.phase)))


def _torsion_fwd(pos, quads, multiplicity, params):
    return torsion_energy(pos, quads, multiplicity, params), (pos, quads, multiplicity, params)


def _torsion_bwd(res, g):
    # Blondel & Karplus, J. Comput. Chem. 17, 1132 (1996)
    pos, quads, multiplicity, params = res
    f, c, h, a, b, rc, phi = _dihedral_vectors(pos, quads)
    arg = multiplicity * phi - params.phase
    slope = -g * params.k * multiplicity * jnp.sin(arg)
    a_ = a / (a * a).sum(-1, keepdims=True)
    b_ = b / (b * b).sum(-1, keepdims=True)
    s = (f * c).sum(-1) / rc
    t = (h * c).sum(-1) / rc
    d0 = -rc[:, None] * a_
    d3 = rc[:, None] * b_
    mid = s[:, None] * a_ - t[:, None] * b_
    grads = jnp.stack([d0, mid - d0, -mid - d3, d3], axis=1) * slope[:, None, None]
    g_pos = jnp.zeros_like(pos).at[quads].add(grads)
    g_params = TorsionParams(k=g * (1.0 + jnp.cos(arg)), phase=g * params.k * jnp.sin(arg))
    return g_pos, None, None, g_params


torsion_energy.defvjp(_torsion_fwd, _torsion_bwd)


@jax.custom_vjp
def local_density(pos, neighbors, width):
    """Gaussian density of neighbours around every atom.

    Parameters
    ----------
    pos : (n, 3) float
    neighbors : (n, k) int
        Neighbour indices, padded with ``n`` where an atom has fewer than ``k``.
    width : scalar

    Returns
    -------
    rho : (n,) float
    """
    mask = neighbors < pos.shape[0]
    d = pos[:, None, :] - pos[neighbors]
    w = jnp.exp(-0.5 * (d * d).sum(-1) / width ** 2)
    return jnp.sum(jnp.where(mask, w, 0.0), axis=1)


def _density_fwd(pos, neighbors, width):
    return local_density(pos, neighbors, width), (pos, neighbors, width)


def _density_bwd(res, g):
    pos, neighbors, width = res
    d = pos[:, None, :] - pos[neighbors]
    r2 = (d * d).sum(-1)
    w = g[:, None] * jnp.exp(-0.5 * r2 / width ** 2)
    f = -(w / width ** 2)[..., None] * d
    g_pos = f.sum(axis=1)
    g_pos = g_pos.at[neighbors].add(-f, mode="drop")
    return g_pos, None, jnp.sum(w * r2) / width ** 3


local_density.defvjp(_density_fwd, _density_bwd)


def embedding_energy(pos, neighbors, width=0.2):
    """Finnis-Sinclair style many-body term."""
    return -jnp.sqrt(local_density(pos, neighbors, width) + 1e-6).sum()


if __name__ == "__main__":
    key = jax.random.PRNGKey(1)
    xyz = jax.random.uniform(key, (6, 3))
    quads = jnp.array([[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]])
    tp = TorsionParams(jnp.full(3, 5.0), jnp.zeros(3))
    print(jax.grad(torsion_energy)(xyz, quads, jnp.array([3, 2, 1]), tp))
