"""Pin-jointed frames: small-displacement solve, finite strain, member checks."""
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Layout:
    members: np.ndarray      # (E, 2) joint ids
    supported: np.ndarray    # (N, D) bool
    modulus: float = 210e3


def cantilever(bays=2):
    """A braced cantilever of `bays` square bays, pinned at the left."""
    xy = np.array([(i, j) for i in range(bays + 1) for j in (0, 1)], float)
    mem = []
    for b in range(bays):
        lo, hi, lo2, hi2 = 2 * b, 2 * b + 1, 2 * b + 2, 2 * b + 3
        mem += [(lo, lo2), (hi, hi2), (lo, hi2), (lo2, hi2)]
    sup = np.zeros_like(xy, bool)
    sup[:2] = True
    return jnp.asarray(xy), Layout(np.array(mem), sup)


def make_truss_solver(layout: Layout):
    i, j = layout.members.T
    free = jnp.asarray(~layout.supported).reshape(-1)
    n, dim = layout.supported.shape

    def stiffness(areas, coords):
        d = coords[j] - coords[i]
        length = jnp.linalg.norm(d, axis=-1)
        e = d / length[:, None]
        k = (layout.modulus * areas / length)[:, None, None] * e[:, :, None] * e[:, None, :]
        full = jnp.zeros((n, n, dim, dim), k.dtype)
        full = full.at[i, i].add(k).at[j, j].add(k).at[i, j].add(-k).at[j, i].add(-k)
        full = full.transpose(0, 2, 1, 3).reshape(n * dim, n * dim)
        return jnp.where(free[:, None] & free[None, :], full, 0.0) + jnp.diag(1.0 * ~free)

    @jax.custom_vjp
    def truss_displacements(areas, coords, loads):
        """Joint displacements (C, N, D) for areas (E,), coords (N, D), loads (C, N, D).

        Loads on supported degrees of freedom go straight to the ground.
        """
        rhs = jnp.where(free, loads.reshape(-1, n * dim), 0.0)
        return jnp.linalg.solve(stiffness(areas, coords), rhs.T).T.reshape(loads.shape)

    def fwd(areas, coords, loads):
        u = truss_displacements(areas, coords, loads)
        return u, (areas, coords, u)

    def bwd(res, g):
        areas, coords, u = res
        k, pull = jax.vjp(stiffness, areas, coords)
        lam = jnp.linalg.solve(k, g.reshape(-1, n * dim).T).T     # K is symmetric
        d_areas, d_coords = pull(-lam.T @ u.reshape(-1, n * dim))
        return d_areas, d_coords, lam.reshape(g.shape)

    truss_displacements.defvjp(fwd, bwd)
    return truss_displacements


@jax.custom_vjp
def green_strain(coords, disp, members):
    """Green-Lagrange strain (C, E) of bars: coords (N, D), disp (C, N, D), members (E, 2) int."""
    return _green_fwd(coords, disp, members)[0]


def _green_fwd(coords, disp, members):
    i, j = members[:, 0], members[:, 1]
    d = coords[j] - coords[i]
    e = disp[:, j] - disp[:, i]
    l2 = jnp.sum(d * d, axis=-1)
    eps = (jnp.sum(d * e, -1) + 0.5 * jnp.sum(e * e, -1)) / l2
    return eps, (d, e, l2, eps, members, coords.shape[0])


def _green_bwd(res, g):
    d, e, l2, eps, members, n = res
    i, j = members[:, 0], members[:, 1]
    h = (g / l2)[..., None]
    de = h * (d + e)
    dd = jnp.sum(h * (e - 2.0 * eps[..., None] * d), axis=0)
    scatter = lambda v: jnp.zeros((n, d.shape[-1]), v.dtype).at[j].add(v).at[i].add(-v)
    return scatter(dd), jax.vmap(scatter)(de), None


green_strain.defvjp(_green_fwd, _green_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5, 6))
def member_utilisation(force, area, length, k_eff=1.0, modulus=210e3, yield_stress=355.0, form=0.8):
    """Utilisation of members; force (cases, members), tension positive."""
    return _util(force, area, length, k_eff, modulus, yield_stress, form)


def _util(force, area, length, k_eff, modulus, yield_stress, form):
    # second moment of area taken as form * A^2
    p_cr = jnp.pi**2 * modulus * form * area**2 / (k_eff * length) ** 2
    return jnp.where(force >= 0, force / (area * yield_stress), -force / p_cr)


def _util_fwd(force, area, length, k_eff, modulus, yield_stress, form):
    u = _util(force, area, length, k_eff, modulus, yield_stress, form)
    return u, (force, area, length, u)


def _util_bwd(k_eff, modulus, yield_stress, form, res, g):
    force, area, length, u = res
    p_cr = jnp.pi**2 * modulus * form * area**2 / (k_eff * length) ** 2
    tension = force >= 0
    d_force = g * jnp.where(tension, 1.0 / (area * yield_stress), -1.0 / p_cr)
    d_area = -(g * u).sum(0) / area
    d_length = jnp.where(tension, 0.0, 2.0 * g * u).sum(0) / length
    return d_force, d_area, d_length


member_utilisation.defvjp(_util_fwd, _util_bwd)


def worst_case(force, area, length, **kw):
    return jnp.max(member_utilisation(force, area, length, **kw), axis=0)
