"""Nearest-neighbour thermodynamics and motif scoring for oligo design."""

from functools import partial

import jax
import jax.numpy as jnp

R_CAL = 1.98720
KELVIN = 273.15
SALT_SHIFT = 16.6
SALT_ENTROPY = 0.368
ALPHABET = "ACGT"


def encode_stacks(sequence):
    """Ids 0..15 of the dinucleotides of a sequence."""
    codes = [ALPHABET.index(b) for b in sequence]
    return jnp.array([4 * a + b for a, b in zip(codes[:-1], codes[1:])])


@jax.custom_vjp
def stack_energy(table, stacks, mask):
    """Total (enthalpy, entropy) per duplex: table["init"] (2,) plus table["stack"] (16, 2) over stacks (B, L)."""
    picked = jnp.where(mask[..., None], table["stack"][stacks], 0.0)
    return table["init"] + picked.sum(axis=-2)


def _stack_fwd(table, stacks, mask):
    return stack_energy(table, stacks, mask), (table["stack"], stacks, mask)


def _stack_bwd(res, g):
    stack, stacks, mask = res
    per_site = jnp.where(mask[..., None], g[..., None, :], 0.0)
    stacks = jnp.broadcast_to(stacks, per_site.shape[:-1])
    g_stack = jnp.zeros_like(stack).at[stacks].add(per_site)
    g_init = g.reshape(-1, g.shape[-1]).sum(axis=0)
    return {"stack": g_stack, "init": g_init}, None, None


stack_energy.defvjp(_stack_fwd, _stack_bwd)


def _total_entropy(ds, conc, sodium, length, self_complementary, salt):
    ratio = conc if self_complementary else conc / 4.0
    total = ds + R_CAL * jnp.log(ratio)
    if salt == "entropy":
        total = total + SALT_ENTROPY * (length - 1) * jnp.log(sodium)
    return total


@partial(jax.custom_jvp, nondiff_argnums=(5, 6))
def melting_temperature(dh, ds, conc, sodium, length, self_complementary=False, salt="shift"):
    """Two-state melting temperature in Celsius.

    Args:
      dh: enthalpy, kcal/mol (negative).
      ds: entropy, cal/mol/K (negative).
      conc: total strand concentration, mol/l.
      sodium: monovalent salt, mol/l.
      length: base pairs per oligo (integers).
      self_complementary: the strand pairs with itself, so that the
        concentration is not divided by four.
      salt: "shift" adds 16.6 log10[Na+] to the temperature; "entropy"
        corrects the entropy by 0.368 (N - 1) ln[Na+].

    All of the first five broadcast against each other.
    """
    total = _total_entropy(ds, conc, sodium, length, self_complementary, salt)
    tm = 1000.0 * dh / total - KELVIN
    if salt == "shift":
        tm = tm + SALT_SHIFT * jnp.log10(sodium)
    return tm


@melting_temperature.defjvp
def _melting_jvp(self_complementary, salt, primals, tangents):
    dh, ds, conc, sodium, length = primals
    t_dh, t_ds, t_conc, t_sodium, _ = tangents
    tm = melting_temperature(dh, ds, conc, sodium, length, self_complementary, salt)
    total = _total_entropy(ds, conc, sodium, length, self_complementary, salt)
    kelvin = 1000.0 * dh / total
    t_total = t_ds + R_CAL * t_conc / conc
    t_tm = 1000.0 * t_dh / total - kelvin / total * t_total
    t_tm = t_tm + SALT_SHIFT / jnp.log(10.0) * t_sodium / sodium
    return tm, jnp.broadcast_to(t_tm, tm.shape).astype(tm.dtype)


def _window_scores(bases, pwm, lengths):
    width = pwm.shape[0]
    starts = jnp.arange(bases.shape[1] - width + 1)
    index = starts[:, None] + jnp.arange(width)
    windows = bases[:, index]
    scores = jnp.einsum("bnwc,wc->bn", windows, pwm)
    fits = starts + width <= lengths[:, None]
    return jnp.where(fits, scores, -jnp.inf), windows, index


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def motif_occupancy(bases, pwm, potential, lengths, both_strands=True):
    return _occupancy_fwd(bases, pwm, potential, lengths, both_strands)[0]


def _occupancy_fwd(bases, pwm, potential, lengths, both_strands):
    # log of the partition sum over an empty promoter and every site
    forward, windows, index = _window_scores(bases, pwm, lengths)
    scores = [forward]
    if both_strands:
        scores.append(_window_scores(bases, pwm[::-1, ::-1], lengths)[0])
    scores = jnp.stack(scores) + jnp.reshape(potential, ())
    top = jnp.maximum(scores.max(axis=(0, 2)), 0.0)
    weights = jnp.exp(scores - top[:, None])
    z = weights.sum(axis=(0, 2)) + jnp.exp(-top)
    return top + jnp.log(z), (bases, windows, index, pwm, weights / z[:, None], jnp.shape(potential))


def _occupancy_bwd(both_strands, res, g):
    bases, windows, index, pwm, probs, shape = res
    g_scores = probs * g[:, None]
    g_windows = jnp.einsum("bn,wc->bnwc", g_scores[0], pwm)
    g_pwm = jnp.einsum("bn,bnwc->wc", g_scores[0], windows)
    if both_strands:
        g_windows += jnp.einsum("bn,wc->bnwc", g_scores[1], pwm[::-1, ::-1])
        g_pwm += jnp.einsum("bn,bnwc->wc", g_scores[1], windows)[::-1, ::-1]
    g_bases = jnp.zeros_like(bases).at[:, index].add(g_windows)
    return g_bases, g_pwm, g_scores.sum().reshape(shape), None


motif_occupancy.defvjp(_occupancy_fwd, _occupancy_bwd)
