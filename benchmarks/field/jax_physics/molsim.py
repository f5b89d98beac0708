"""Molecular energies on pair lists and reaction kinetics.

Conventions: positions ``(N, 3)``; list entries are int32; padded list entries carry a
mask of zero (or False) and point at atom 0.
"""
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import custom_vjp


def _pair_vectors(pos, pairs, box=None):
    d = pos[pairs[:, 0]] - pos[pairs[:, 1]]
    if box is not None:
        d = d - box * jnp.round(d / box)
    return d


# ---------------------------------------------------------------------------- LJ

@partial(custom_vjp, nondiff_argnums=(5,))
def lj_energy(pos, box, eps, sigma, pairs, cutoff):
    """Truncated and shifted Lennard-Jones energy under the minimum image convention.

    Parameters
    ----------
    pos : (N, 3) float
    box : (3,) float
        Edge lengths of the orthorhombic cell, each at least ``2 * cutoff``.
    eps, sigma : (P,) float
        Already mixed parameters, one per pair.
    pairs : (P, 2) int
        Half list; ``i == j`` marks padding.
    cutoff : float
        Static.

    Returns
    -------
    () float
    """
    return _lj_fwd(pos, box, eps, sigma, pairs, cutoff)[0]


def _lj_fwd(pos, box, eps, sigma, pairs, cutoff):
    raw = pos[pairs[:, 0]] - pos[pairs[:, 1]]
    image = jnp.round(raw / box)
    d = raw - box * image
    r2 = jnp.sum(d * d, -1)
    on = (pairs[:, 0] != pairs[:, 1]) & (r2 < cutoff**2)
    r2 = jnp.where(on, r2, cutoff**2)
    s6 = (sigma**2 / r2) ** 3
    c6 = (sigma / cutoff) ** 6
    shape = (s6 * s6 - s6) - (c6 * c6 - c6)
    e = jnp.sum(jnp.where(on, 4.0 * eps * shape, 0.0))
    return e, (pos, image, d, r2, on, eps, sigma, s6, c6, shape, pairs)


def _lj_bwd(cutoff, res, g):
    pos, image, d, r2, on, eps, sigma, s6, c6, shape, pairs = res
    on = on.astype(d.dtype)
    gd = (g * on * 4.0 * eps * (-12.0 * s6 * s6 + 6.0 * s6) / r2)[:, None] * d
    gpos = jnp.zeros_like(pos).at[pairs[:, 0]].add(gd).at[pairs[:, 1]].add(-gd)
    gbox = -jnp.sum(gd * image, axis=0)
    geps = g * on * 4.0 * shape
    # d s6 / d sigma = 6 sigma^5 / r^6, likewise at the cutoff
    dshape = (2.0 * s6 - 1.0) / r2**3 - (2.0 * c6 - 1.0) / cutoff**6
    gsig = g * on * 24.0 * eps * dshape * sigma**5
    return gpos, gbox, geps, gsig, None


lj_energy.defvjp(_lj_fwd, _lj_bwd)


# ----------------------------------------------------------------------- Coulomb

@custom_vjp
def coulomb_energy(pos, charges, pairs):
    """Sum of q_i q_j / r_ij over the pair list.

    Args:
        pos: (N, 3)
        charges: (N,)
        pairs: (P, 2) integer half list without self pairs
    """
    r = jnp.linalg.norm(_pair_vectors(pos, pairs), axis=-1)
    return jnp.sum(charges[pairs[:, 0]] * charges[pairs[:, 1]] / r)


def _coulomb_fwd(pos, charges, pairs):
    return coulomb_energy(pos, charges, pairs), (pos, charges, pairs)


def _coulomb_bwd(res, g):
    pos, charges, pairs = res
    i, j = pairs[:, 0], pairs[:, 1]
    d = pos[i] - pos[j]
    r = jnp.linalg.norm(d, axis=-1)
    f = (-g * charges[i] * charges[j] / r**3)[:, None] * d
    gpos = jnp.zeros_like(pos).at[i].add(f).at[j].add(-f)
    gq = jnp.zeros_like(charges)
    gq = gq.at[i].set(g * charges[j] / r)
    gq = gq.at[j].add(g * charges[i] / r)
    return gpos, gq, None


coulomb_energy.defvjp(_coulomb_fwd, _coulomb_bwd)


# ------------------------------------------------------------------------- angles

def _angle_parts(pos, triplets):
    a = pos[triplets[:, 0]] - pos[triplets[:, 1]]
    b = pos[triplets[:, 2]] - pos[triplets[:, 1]]
    ra = jnp.linalg.norm(a, axis=-1, keepdims=True)
    rb = jnp.linalg.norm(b, axis=-1, keepdims=True)
    ah, bh = a / ra, b / rb
    cos = jnp.sum(ah * bh, -1, keepdims=True)
    return ah, bh, ra, rb, cos


@custom_vjp
def angle_energy(pos, k, theta0, triplets):
    """Harmonic bending 0.5 k (theta - theta0)^2; triplets (T, 3), centre in column 1."""
    cos = _angle_parts(pos, triplets)[-1][:, 0]
    return 0.5 * jnp.sum(k * (jnp.arccos(cos) - theta0) ** 2)


def _angle_fwd(pos, k, theta0, triplets):
    return angle_energy(pos, k, theta0, triplets), (pos, k, theta0, triplets)


def _angle_bwd(res, g):
    pos, k, theta0, triplets = res
    ah, bh, ra, rb, cos = _angle_parts(pos, triplets)
    sin = jnp.sqrt(1.0 - cos**2)
    dev = jnp.arccos(cos)[:, 0] - theta0
    pref = (g * k * dev)[:, None]
    ga = -pref * (bh - cos * ah) / (sin * ra)
    gc = -pref * (ah - cos * bh) / (sin * ra)
    gpos = (jnp.zeros_like(pos)
            .at[triplets[:, 0]].add(ga)
            .at[triplets[:, 2]].add(gc)
            .at[triplets[:, 1]].add(-ga - gc))
    return gpos, 0.5 * g * dev**2, -g * k * dev, None


angle_energy.defvjp(_angle_fwd, _angle_bwd)


# -------------------------------------------------------------------------- Morse

@custom_vjp
def morse(r, table, kind):
    x = jnp.exp(-table["a"][kind] * (r - table["r0"][kind]))
    return table["D"][kind] * (1.0 - x) ** 2


def _morse_fwd(r, table, kind):
    return morse(r, table, kind), (r, table, kind)


def _morse_bwd(res, g):
    r, table, kind = res
    D, a, r0 = table["D"][kind], table["a"][kind], table["r0"][kind]
    x = jnp.exp(-a * (r - r0))
    slope = g * 2.0 * D * (1.0 - x) * x
    n = table["D"].shape[0]
    tot = partial(jax.ops.segment_sum, segment_ids=kind, num_segments=n)
    g_table = {
        "D": tot(g * (1.0 - x) ** 2),
        "a": tot(slope * (r - r0)),
        "r0": tot(-slope * a),
    }
    return slope * a, g_table, None


morse.defvjp(_morse_fwd, _morse_bwd)


class BondedTerm(eqx.Module):
    """Morse bonds with one parameter row per bond kind."""
    D: jax.Array
    a: jax.Array
    r0: jax.Array

    def __call__(self, pos, bonds, kind):
        r = jnp.linalg.norm(pos[bonds[:, 0]] - pos[bonds[:, 1]], axis=-1)
        return jnp.sum(morse(r, {"D": self.D, "a": self.a, "r0": self.r0}, kind))


# ----------------------------------------------------------------------- EAM density

@custom_vjp
def atomic_density(pos, decay, senders, receivers, mask):
    """Host electron density rho_i = sum_{edges into i} exp(-decay * r).

    pos (N, 3); decay scalar; senders, receivers (E,) int; mask (E,) bool, False on
    padding and on edges of the (skinned) list that are beyond the cutoff -> (N,)
    """
    r = _edge_lengths(pos, senders, receivers)
    w = jnp.where(mask, jnp.exp(-decay * r), 0.0)
    return jax.ops.segment_sum(w, receivers, num_segments=pos.shape[0])


def _edge_lengths(pos, senders, receivers):
    d2 = jnp.sum((pos[receivers] - pos[senders]) ** 2, -1)
    return jnp.sqrt(jnp.maximum(d2, 1e-12))


def _density_fwd(pos, decay, senders, receivers, mask):
    out = atomic_density(pos, decay, senders, receivers, mask)
    return out, (pos, decay, senders, receivers)


def _density_bwd(res, g):
    pos, decay, senders, receivers = res
    d = pos[receivers] - pos[senders]
    r = _edge_lengths(pos, senders, receivers)
    w = g[receivers] * jnp.exp(-decay * r)
    gd = (-decay * w / r)[:, None] * d
    gpos = jnp.zeros_like(pos).at[receivers].add(gd).at[senders].add(-gd)
    return gpos, -jnp.sum(w * r), None, None, None


atomic_density.defvjp(_density_fwd, _density_bwd)


# ----------------------------------------------------------------------- kinetics

@custom_vjp
def mass_action(conc, k, order):
    """Mass-action rates.

    conc : float[batch, species]
    k : float[reactions]
    order : int[reactions, species]   reaction orders, 0, 1, 2, ...

    returns float[batch, reactions]
    """
    return k * jnp.prod(_powers(conc, order), axis=-1)


def _powers(conc, order):
    return conc[:, None, :] ** order[None]


def _ma_fwd(conc, k, order):
    return mass_action(conc, k, order), (conc, k, order)


def _ma_bwd(res, g):
    conc, k, order = res
    p = _powers(conc, order)
    lowered = order * conc[:, None, :] ** jnp.maximum(order - 1, 0)[None]
    # leave-one-out products over species; concentrations may be exactly zero
    n = order.shape[1]
    eye = jnp.eye(n, dtype=bool)
    loo = jnp.prod(jnp.where(eye, 1.0, p[:, :, None, :]), axis=-1)
    gconc = jnp.einsum("br,r,brs->bs", g, k, lowered * loo)
    gk = jnp.sum(g * jnp.prod(p, -1), axis=0)
    return gconc, gk, None


mass_action.defvjp(_ma_fwd, _ma_bwd)
