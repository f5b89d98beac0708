"""Rates, activities and flash for small reactor models.

Units are SI apart from the ion sizes, which are in angstrom as in every table
that one can find of them.  Arrays may have leading batch dimensions unless the
text of a function says otherwise.
"""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.dtypes import float0

LN10 = float(np.log(10.0))
DH_B = 0.3286


def _log10(x):
    return jnp.log(x) / LN10


def _broadening(log_pr, log_fc):
    c = -0.4 - 0.67 * log_fc
    n = 0.75 - 1.27 * log_fc
    num = log_pr + c
    den = n - 0.14 * num
    q = num / den
    return n, den, q, log_fc / (1.0 + q * q)


@jax.custom_jvp
def troe_rate(k_low, k_high, third_body, f_cent):
    """Pressure-dependent rate constant in the form of Troe.

    The low-pressure limit, the high-pressure limit, the concentration of the
    third body and the centring factor (between 0.1 and 0.95) all have the same
    shape, and are positive. The answer has that shape too.
    """
    pr = k_low * third_body / k_high
    *_, log_f = _broadening(_log10(pr), _log10(f_cent))
    return k_high * pr / (1.0 + pr) * 10.0**log_f


@troe_rate.defjvp
def _troe_rate_jvp(primals, tangents):
    k_low, k_high, third_body, f_cent = primals
    t_low, t_high, t_body, t_fc = tangents
    pr = k_low * third_body / k_high
    log_fc = _log10(f_cent)
    n, den, q, log_f = _broadening(_log10(pr), log_fc)
    out = k_high * pr / (1.0 + pr) * 10.0**log_f

    # work with logarithmic tangents throughout
    l_high = t_high / k_high
    l_pr = t_low / k_low + t_body / third_body - l_high
    l_fc = t_fc / f_cent
    dq = n / (den * den)
    dlogf_dpr = -log_fc * 2.0 * q * dq / (1.0 + q * q) ** 2
    l_f = dlogf_dpr * l_pr + l_fc / (1.0 + q * q)
    return out, out * (l_high + l_pr / (1.0 + pr) + l_f)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def log_activity(charges, molality, ion_size, a_dh):
    """Natural log of the activity coefficients (extended Debye-Hueckel).

    `charges` is a tuple of ints, one for each of the S species. Molalities are
    positive, with the species last and any batch before it; the ion sizes are
    one per species and are shared by the whole batch. `a_dh` is the
    Debye-Hueckel slope, one for each member of the batch.
    """
    return _log_activity_fwd(charges, molality, ion_size, a_dh)[0]


def _log_activity_fwd(charges, molality, ion_size, a_dh):
    z2 = jnp.asarray(charges, molality.dtype) ** 2
    root = jnp.sqrt(0.5 * jnp.sum(z2 * molality, axis=-1, keepdims=True))
    den = 1.0 + DH_B * ion_size * root
    out = -LN10 * a_dh[..., None] * z2 * root / den
    return out, (root, den, ion_size, a_dh, out)


def _log_activity_bwd(charges, res, g):
    root, den, ion_size, a_dh, out = res
    z2 = jnp.asarray(charges, root.dtype) ** 2
    go = g * out
    # d log(root/den) / d root = 1 / (root * den)
    g_root = jnp.sum(go / (root * den), axis=-1, keepdims=True)
    g_molality = g_root * 0.25 * z2 / root
    g_size = -go * DH_B * root / den
    g_size = jnp.sum(g_size.reshape(-1, g_size.shape[-1]), axis=0)
    return g_molality, g_size, jnp.sum(go, axis=-1) / a_dh


log_activity.defvjp(_log_activity_fwd, _log_activity_bwd)


def make_flash(num_steps=80):
    """Return ``flash(feed, k_values) -> vapour fraction``.

    The feed fractions and the K values are (..., C); at least one K is above
    one and at least one below. The fraction is the root of the Rachford-Rice
    equation between its two central poles, so it may be below 0 or above 1
    (a "negative flash"). The feed need not be normalised.
    """

    def bisect(z, k):
        d = k - 1.0
        lo = 1.0 / (1.0 - jnp.max(k, axis=-1))
        hi = 1.0 / (1.0 - jnp.min(k, axis=-1))

        def body(_, ab):
            a, b = ab
            mid = 0.5 * (a + b)
            h = jnp.sum(z * d / (1.0 + mid[..., None] * d), axis=-1)
            return jnp.where(h > 0, mid, a), jnp.where(h > 0, b, mid)

        a, b = jax.lax.fori_loop(0, num_steps, body, (lo, hi))
        return 0.5 * (a + b)

    @jax.custom_vjp
    def flash(feed, k_values):
        return bisect(feed, k_values)

    def fwd(feed, k_values):
        v = bisect(feed, k_values)
        return v, (feed, k_values, v)

    def bwd(res, g):
        z, k, v = res
        d = k - 1.0
        t = 1.0 / (1.0 + v[..., None] * d)
        slope = jnp.sum(z * (d * t) ** 2, axis=-1)
        lam = (g / slope)[..., None]
        return lam * d * t, lam * z * t

    flash.defvjp(fwd, bwd)
    return flash


flash_drum = make_flash()


def equilibrium_split(feed, k_values):
    """Liquid and vapour compositions of one drum."""
    v = flash_drum(feed, k_values)[..., None]
    x = feed / (1.0 + v * (k_values - 1.0))
    return x, k_values * x


@jax.custom_vjp
def buckingham_energy(table, pair_type, dist):
    """Energy of each pair in an exp-6 potential.

    `table` is a dict of the three parameter vectors "a", "b" and "c6", with an
    entry for each type of pair; `pair_type` holds the type (int) and `dist` the
    distance of each of the P pairs in the neighbour list.
    """
    return _buckingham_fwd(table, pair_type, dist)[0]


def _buckingham_fwd(table, pair_type, dist):
    a = table["a"][pair_type]
    b = table["b"][pair_type]
    rep = jnp.exp(-b * dist)
    disp = dist**-6
    out = a * rep - table["c6"][pair_type] * disp
    return out, (table, pair_type, dist, rep, disp)


def _buckingham_bwd(res, g):
    table, pair_type, dist, rep, disp = res
    a, b, c6 = (table[name][pair_type] for name in ("a", "b", "c6"))
    g_table = {
        "a": jnp.zeros_like(table["a"]).at[pair_type].add(g * rep),
        "b": jnp.zeros_like(table["b"]).at[pair_type].add(-g * a * dist * rep),
        "c6": jnp.zeros_like(table["c6"]).at[pair_type].set(-g * disp),
    }
    g_dist = g * (6.0 * c6 * disp / dist - a * b * rep)
    return g_table, np.zeros(pair_type.shape, dtype=float0), g_dist


buckingham_energy.defvjp(_buckingham_fwd, _buckingham_bwd)


def cell_energy(table, neighbours, positions, cutoff=12.0):
    i, j, kind = neighbours
    r = jnp.linalg.norm(positions[i] - positions[j], axis=-1)
    e = buckingham_energy(table, kind, r)
    return 0.5 * jnp.sum(jnp.where(r < cutoff, e, 0.0))
