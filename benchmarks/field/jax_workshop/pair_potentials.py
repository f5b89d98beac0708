# Short-range terms of the force field: bonds, van der Waals, real-space Ewald.
# Units: Angstrom, kcal/mol, elementary charges.
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc

COULOMB = 332.06371


# -- geometry ---------------------------------------------------------------

@jax.custom_gradient
def min_image_distance(ri, rj, box):
    raw = ri - rj
    shift = jnp.round(raw / box)
    d = raw - box * shift
    r = jnp.sqrt(jnp.sum(d * d, axis=-1))

    def vjp(g):
        # unit vector, zero for coincident sites
        unit = jnp.where(r[:, None] > 0, d / jnp.where(r > 0, r, 1.0)[:, None], 0.0)
        gd = g[:, None] * unit
        return gd, -gd, -jnp.sum(shift * gd, axis=0)

    return r, vjp


# -- cutoffs ----------------------------------------------------------------

@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def switch(r, r_on, r_off):
    x = jnp.clip((r - r_on) / (r_off - r_on), 0.0, 1.0)
    return 1.0 - x**3 * (10.0 - 15.0 * x + 6.0 * x**2)


@switch.defjvp
def _switch_jvp(r_on, r_off, primals, tangents):
    (r,), (dr,) = primals, tangents
    width = r_off - r_on
    x = jnp.clip((r - r_on) / width, 0.0, 1.0)
    slope = -30.0 * (x * (1.0 - x)) ** 2 / width
    return switch(r, r_on, r_off), slope * dr


# -- bonded -----------------------------------------------------------------

@jax.custom_jvp
def morse(r, params):
    # params: {"depth", "alpha", "r0"}, each (n_bonds,)
    well = 1.0 - jnp.exp(-params["alpha"] * (r - params["r0"]))
    return params["depth"] * well**2


@morse.defjvp
def _morse_jvp(primals, tangents):
    r, p = primals
    dr, dp = tangents
    stretch = r - p["r0"]
    e = jnp.exp(-p["alpha"] * stretch)
    well = 1.0 - e
    dwell = e * (p["alpha"] * (dr - dp["r0"]) + stretch * dp["alpha"])
    return p["depth"] * well**2, dp["depth"] * well**2 + 2.0 * p["depth"] * well * dwell


# -- van der Waals ----------------------------------------------------------

def _lj_terms(r, sig, eps):
    s6 = (sig / r) ** 6
    return 4.0 * eps * (s6 * s6 - s6), s6


@jax.custom_vjp
def lj_energy(pos, pairs, types, sigma, epsilon):
    # pos (N, 3), pairs (P, 2) with every pair once, types (N,)
    # sigma, epsilon (T, T): looked up as [type of first, type of second]
    i, j = pairs[:, 0], pairs[:, 1]
    r = jnp.linalg.norm(pos[i] - pos[j], axis=-1)
    e, _ = _lj_terms(r, sigma[types[i], types[j]], epsilon[types[i], types[j]])
    return e.sum()


def _lj_fwd(pos, pairs, types, sigma, epsilon):
    i, j = pairs[:, 0], pairs[:, 1]
    d = pos[i] - pos[j]
    r = jnp.linalg.norm(d, axis=-1)
    sig, eps = sigma[types[i], types[j]], epsilon[types[i], types[j]]
    e, s6 = _lj_terms(r, sig, eps)
    return e.sum(), (pos, pairs, types, sigma, epsilon, d, r, s6)


def _lj_bwd(res, g):
    pos, pairs, types, sigma, epsilon, d, r, s6 = res
    i, j = pairs[:, 0], pairs[:, 1]
    ti, tj = types[i], types[j]
    sig, eps = sigma[ti, tj], epsilon[ti, tj]

    # virial-like factor, shared by r and sigma
    w = 24.0 * eps * (2.0 * s6 * s6 - s6)
    f = (-g * w / r**2)[:, None] * d
    g_pos = jnp.zeros_like(pos).at[i].add(f).at[j].add(-f)
    g_sigma = jnp.zeros_like(sigma).at[ti, tj].set(g * w / sig)
    g_eps = jnp.zeros_like(epsilon).at[ti, tj].set(g * 4.0 * (s6 * s6 - s6))
    no_grad = lambda a: np.zeros(a.shape, jax.dtypes.float0)
    return g_pos, no_grad(pairs), no_grad(types), g_sigma, g_eps


lj_energy.defvjp(_lj_fwd, _lj_bwd)


# -- electrostatics ---------------------------------------------------------

def make_ewald_real(alpha, half_list=True):
    """Real-space Ewald sum for splitting parameter alpha.

    half_list: True if the neighbour list holds i<j only, False if it holds
    (i, j) as well as (j, i).
    """
    scale = COULOMB * (1.0 if half_list else 0.5)

    @jax.custom_vjp
    def ewald_real(charges, r, senders, receivers):
        return scale * jnp.sum(charges[senders] * charges[receivers] * erfc(alpha * r) / r)

    def fwd(charges, r, senders, receivers):
        return ewald_real(charges, r, senders, receivers), (charges, r, senders, receivers)

    def bwd(res, g):
        charges, r, senders, receivers = res
        qi, qj = charges[senders], charges[receivers]
        phi = erfc(alpha * r) / r
        g_q = jnp.zeros_like(charges).at[senders].add(qj * phi).at[receivers].add(qi * phi)
        g_r = -qi * qj * phi / r
        return scale * g * g_q, scale * g * g_r, None, None

    ewald_real.defvjp(fwd, bwd)
    return ewald_real


ewald_real_half = make_ewald_real(0.35)


class ForceField:
    def __init__(self, topology, cutoff=9.0, skin=1.0, alpha=0.35, full_list=False):
        self.top = topology
        self.r_on, self.r_off = cutoff - skin, cutoff
        self.coulomb = make_ewald_real(alpha, half_list=not full_list)

    def energy(self, params, pos, box, nbrs):
        b = self.top["bonds"]
        e = morse(min_image_distance(pos[b[:, 0]], pos[b[:, 1]], box), params["bond"]).sum()
        e += lj_energy(pos, nbrs, self.top["types"], params["sigma"], params["epsilon"])
        r = min_image_distance(pos[nbrs[:, 0]], pos[nbrs[:, 1]], box)
        e += self.coulomb(params["q"], r, nbrs[:, 0], nbrs[:, 1])
        return e

    def dispersion_tail(self, c6, r):
        return -jnp.sum(c6 * switch(r, self.r_on, self.r_off) / r**6)


if __name__ == "__main__":
    # four waters' worth of sites on a cubic lattice
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*[np.arange(2)] * 3, indexing="ij"), -1).reshape(-1, 3)
    pos = jnp.asarray(3.2 * grid + 0.1 * rng.normal(size=(8, 3)))
    pairs = jnp.asarray([(i, j) for i in range(8) for j in range(i + 1, 8)])
    ff = ForceField({"bonds": pairs[:2], "types": jnp.asarray([0, 1] * 4)})
    prm = {
        "bond": {"depth": jnp.full(2, 90.0), "alpha": jnp.full(2, 1.9), "r0": jnp.full(2, 3.0)},
        "sigma": jnp.asarray([[3.1, 2.8], [2.8, 2.5]]),
        "epsilon": jnp.asarray([[0.15, 0.10], [0.10, 0.05]]),
        "q": jnp.asarray([0.4, -0.4] * 4),
    }
    box = jnp.full(3, 12.0)
    e, f = jax.value_and_grad(ff.energy, argnums=1)(prm, pos, box, pairs)
    print("E = %.4f kcal/mol, |F|max = %.4f" % (e, math.sqrt(float((f**2).sum(-1).max()))))
