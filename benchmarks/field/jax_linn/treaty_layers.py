"""Excess-of-loss treaty pricing on simulated event sets."""

from functools import partial

import jax
import jax.numpy as jnp


def _layer_excess(losses, attach, limit):
    # [S, E], [L] -> [S, E, L]
    return losses[:, :, None] - attach, limit


@jax.custom_vjp
def ceded_by_layer(losses, occurs, attach, limit, share):
    """Recoveries per simulated year and layer.

    Parameters
    ----------
    losses : [S, E] event losses of S simulated years, padded to E events. What stands in the
        padding is arbitrary.
    occurs : [S, E] bool, False on padding.
    attach, limit, share : [L] attachment point, occurrence limit and signed share of each layer.

    Returns
    -------
    [S, L] ``share * sum_e min(max(loss - attach, 0), limit)`` over the events that occur.
    """
    excess, limit = _layer_excess(losses, attach, limit)
    rec = jnp.clip(excess, 0.0, limit)
    return share * jnp.sum(jnp.where(occurs[:, :, None], rec, 0.0), axis=1)


def _ceded_fwd(losses, occurs, attach, limit, share):
    excess, _ = _layer_excess(losses, attach, limit)
    rec = jnp.where(occurs[:, :, None], jnp.clip(excess, 0.0, limit), 0.0)
    gross = jnp.sum(rec, axis=1)
    return share * gross, (excess, occurs, limit, share, gross)


def _ceded_bwd(res, g):
    excess, occurs, limit, share, gross = res
    gs = (g * share)[:, None, :]
    exhausted = excess >= limit
    inside = (excess > 0.0) & ~exhausted & occurs[:, :, None]
    through = jnp.where(inside, gs, 0.0)
    d_losses = jnp.sum(through, axis=-1)
    d_attach = -jnp.sum(through, axis=(0, 1))
    d_limit = jnp.sum(jnp.where(exhausted, gs, 0.0), axis=(0, 1))
    d_share = jnp.sum(g * gross, axis=0)
    return d_losses, None, d_attach, d_limit, d_share


ceded_by_layer.defvjp(_ceded_fwd, _ceded_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def reinstatement_income(ceded, base_premium, limit, count=1, pro_rata=1.0):
    """Reinstatement premium of a year, summed over layers: ceded [S, L], base_premium/limit [L] -> [S]."""
    used = jnp.minimum(ceded, count * limit)
    return jnp.sum(pro_rata * base_premium * used / limit, axis=-1)


def _income_fwd(ceded, base_premium, limit, count, pro_rata):
    out = reinstatement_income(ceded, base_premium, limit, count, pro_rata)
    return out, (ceded, base_premium, limit)


def _income_bwd(count, pro_rata, res, g):
    ceded, base_premium, limit = res
    open_ = ceded < count * limit
    fraction = jnp.where(open_, ceded / limit, float(count))
    g = pro_rata * g[:, None]
    per_unit = jnp.where(open_, g * base_premium / limit, 0.0)
    return (
        per_unit,
        jnp.sum(g * fraction, axis=0),
        -jnp.sum(per_unit * fraction, axis=0),
    )


reinstatement_income.defvjp(_income_fwd, _income_bwd)


def make_exposure_curve(b_coef=(3.1, 0.15), g_coef=(0.78, 0.12)):
    """MBBEFD exposure curve G(d; c) of the one-parameter family.

    ``d`` is the deductible over the sum insured; a deductible at or above the sum insured retains
    everything (G = 1), a negative one nothing. ``c`` lies in (0, 4), and broadcasts against d.
    """

    def shape(c):
        b = jnp.exp(b_coef[0] - b_coef[1] * (1.0 + c) * c)
        g = jnp.exp((g_coef[0] + g_coef[1] * c) * c)
        return b, g

    @jax.custom_jvp
    def curve(d, c):
        b, g = shape(c)
        d = jnp.clip(d, 0.0, 1.0)
        inner = (g - 1.0) * b + (1.0 - g * b) * b**d
        return jnp.log(inner / (1.0 - b)) / jnp.log(g * b)

    @curve.defjvp
    def curve_jvp(primals, tangents):
        d, c = primals
        d_dot, c_dot = tangents
        b, g = shape(c)
        d = jnp.clip(d, 0.0, 1.0)
        bd = b**d
        inner = (g - 1.0) * b + (1.0 - g * b) * bd
        log_gb = jnp.log(g * b)
        out = jnp.log(inner / (1.0 - b)) / log_gb

        slope = (1.0 - g * b) * bd * jnp.log(b) / (inner * log_gb)
        inner_b = (g - 1.0) - g * bd + (1.0 - g * b) * d * bd / b
        inner_g = b * (1.0 - bd)
        by_b = (inner_b / inner + 1.0 / (1.0 - b) - out / b) / log_gb
        by_g = (inner_g / inner - out / g) / log_gb
        b_dot = -b_coef[1] * (1.0 + 2.0 * c) * b * c_dot
        g_dot = (g_coef[0] + 2.0 * g_coef[1] * c) * g * c_dot
        return out, slope * d_dot + by_b * b_dot + by_g * g_dot

    return curve


swiss_re_curve = make_exposure_curve()


def layer_rate(d_low, d_high, c):
    """Share of the risk premium between two deductibles."""
    return swiss_re_curve(d_high, c) - swiss_re_curve(d_low, c)
