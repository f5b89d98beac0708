"""Hydrogen-deuterium exchange mass spectrometry: forward models used in protection-factor fits."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

PROTON_EXCESS = 1.00627674  # Da gained per exchanged amide


@dataclass(frozen=True)
class PeptideMap:
    """Which amides each proteolytic peptide reports on."""

    sequence: str
    spans: tuple  # ((first, last), ...) inclusive, zero based

    def table(self):
        """Residue table, padded by -1; the two leading amides and prolines never report."""
        rows = [[i for i in range(a + 2, b + 1) if self.sequence[i] != "P"] for a, b in self.spans]
        width = max(len(r) for r in rows)
        out = np.full((len(rows), width), -1, dtype=np.int32)
        for r, row in enumerate(rows):
            out[r, : len(row)] = row
        return out


@jax.custom_vjp
def peptide_uptake(log_pf, k_int, times, table):
    """Deuterons carried by every peptide.

    Parameters
    ----------
    log_pf : (n_residues,) array
        Natural logarithm of the protection factors.
    k_int : (n_residues,) array
        Intrinsic exchange rates, 1/s.
    times : (n_times,) array
        Labelling times, s.
    table : (n_peptides, width) int array
        Residues of each peptide as given by `PeptideMap.table`, -1 for padding. Peptides of a
        digest normally cover one another.

    Returns
    -------
    (n_peptides, n_times) array
    """
    rate = k_int * jnp.exp(-log_pf)
    frac = -jnp.expm1(-rate[:, None] * times)
    return jnp.sum(jnp.where(table[..., None] >= 0, frac[table], 0.0), axis=1)


def _uptake_fwd(log_pf, k_int, times, table):
    return peptide_uptake(log_pf, k_int, times, table), (log_pf, k_int, times, table)


def _uptake_bwd(res, g):
    log_pf, k_int, times, table = res
    n = log_pf.shape[0]
    inv_pf = jnp.exp(-log_pf)
    rate = k_int * inv_pf
    left = jnp.where(table[..., None] >= 0, jnp.exp(-rate[:, None] * times)[table], 0.0)
    d_site = jnp.einsum("pt,plt,t->pl", g, left, times)
    slots = jnp.where(table >= 0, table, n)
    d_rate = jnp.zeros_like(rate).at[slots].set(d_site, mode="drop")
    d_times = jnp.einsum("pt,plt,pl->t", g, left, rate[table])
    return -d_rate * rate, d_rate * inv_pf, d_times, None


peptide_uptake.defvjp(_uptake_fwd, _uptake_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def corrected_uptake(mass, mass_zero, mass_full, n_amide, clip=False):
    """Back-exchange corrected deuteron count.

    Parameters
    ----------
    mass : (n_peptides, n_times)
    mass_zero, mass_full : (n_peptides,)
        Centroids of the undeuterated and of the fully deuterated control.
    n_amide : (n_peptides,)
        Exchangeable amides (a float, corrected for D2O content).
    clip : bool
        Hold the answer inside [0, n_amide].
    """
    n = n_amide[:, None]
    d = n * (mass - mass_zero[:, None]) / (mass_full - mass_zero)[:, None]
    return jnp.clip(d, 0.0, n) if clip else d


@corrected_uptake.defjvp
def _corrected_jvp(clip, primals, tangents):
    mass, zero, full, n_amide = primals
    dm, dz, df, dn = tangents
    n, span = n_amide[:, None], (full - zero)[:, None]
    frac = (mass - zero[:, None]) / span
    d_frac = (dm - dz[:, None] - frac * (df - dz)[:, None]) / span
    out, d_out = n * frac, n * d_frac + frac * dn[:, None]
    if clip:
        out = jnp.clip(out, 0.0, n)
        d_out = jnp.where(frac <= 0.0, 0.0, jnp.where(frac >= 1.0, dn[:, None], d_out))
    return out, d_out


@jax.custom_vjp
def deuterium_count_pmf(p, active):
    """Distribution of the number of deuterated sites, sites being independent.

    Parameters
    ----------
    p : (n_sites,) probabilities in [0, 1]
    active : (n_sites,) bool, false for slots that only pad the peptide

    Returns
    -------
    (n_sites + 1,) probabilities of 0 .. n_sites deuterons
    """
    return _pmf_scan(jnp.where(active, p, 0.0))[0]


def _up(s):
    return jnp.concatenate([jnp.zeros_like(s[:1]), s[:-1]])


def _down(s):
    return jnp.concatenate([s[1:], jnp.zeros_like(s[:1])])


def _pmf_scan(q):
    start = jnp.zeros(q.shape[0] + 1, q.dtype).at[0].set(1.0)
    return jax.lax.scan(lambda s, qi: (s + qi * (_up(s) - s), s), start, q)


def _pmf_fwd(p, active):
    q = jnp.where(active, p, 0.0)
    pmf, before = _pmf_scan(q)
    return pmf, (q, active, before)


def _pmf_bwd(res, g):
    q, active, before = res

    def back(lam, item):
        qi, s = item
        return lam + qi * (_down(lam) - lam), jnp.vdot(lam, _up(s) - s)

    _, d_q = jax.lax.scan(back, g, (q, before), reverse=True)
    return jnp.where(active, d_q, 0.0), None


deuterium_count_pmf.defvjp(_pmf_fwd, _pmf_bwd)


@jax.custom_gradient
def stretched_uptake(times, rate, beta, amplitude):
    """Stretched exponential, amplitude * (1 - exp(-(rate * t)**beta)), peptides by times.

    `times` (n_times,) > 0; `rate`, `beta`, `amplitude` are (n_peptides,) and positive.
    """
    u = (rate[:, None] * times) ** beta[:, None]
    left = jnp.exp(-u)
    amp = amplitude[:, None]

    def grad(g):
        flow = g * amp * left * u
        d_times = jnp.sum(flow * beta[:, None], axis=0) / times
        d_rate = jnp.sum(flow, axis=1) * beta / rate
        d_beta = jnp.sum(flow * jnp.log(times), axis=1)
        return d_times, d_rate, d_beta, jnp.sum(g * (1.0 - left), axis=1)

    return amp * (1.0 - left), grad


def centroid_mass(base_mass, p, active):
    pmf = deuterium_count_pmf(p, active)
    return base_mass + PROTON_EXCESS * jnp.vdot(pmf, jnp.arange(pmf.shape[0], dtype=pmf.dtype))


def fit_protection(peptides, k_int, times, measured, steps=200, lr=0.05, ridge=1e-3):
    """Plain gradient descent on log protection factors."""
    table = jnp.asarray(peptides.table())

    def loss(log_pf):
        misfit = peptide_uptake(log_pf, k_int, times, table) - measured
        return jnp.mean(misfit**2) + ridge * jnp.mean(jnp.diff(log_pf) ** 2)

    step = jax.jit(lambda v: v - lr * jax.grad(loss)(v))
    log_pf = jnp.zeros_like(k_int)
    for _ in range(steps):
        log_pf = step(log_pf)
    return log_pf
