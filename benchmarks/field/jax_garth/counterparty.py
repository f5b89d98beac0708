import functools

import jax
import jax.numpy as jnp
from jax import lax


def _system(owed, assets, total, bad):
    n = owed.shape[0]
    rows = jnp.where(bad[:, None], -owed.T, 0.0)
    matrix = rows + jnp.diag(jnp.where(bad, total, 1.0))
    return matrix, jnp.where(bad, assets, 1.0)


def _recovery(owed, assets):
    total = owed.sum(axis=1)

    def round_(_, state):
        bad, frac = state
        bad = bad | (assets + owed.T @ frac < total)
        matrix, rhs = _system(owed, assets, total, bad)
        return bad, jnp.linalg.solve(matrix, rhs)

    start = (jnp.zeros(assets.shape, bool), jnp.ones_like(assets))
    bad, frac = lax.fori_loop(0, owed.shape[0], round_, start)
    return total, bad, frac


def _settle(owed, assets, total, frac):
    paid = total * frac
    return paid, assets + owed.T @ frac - paid


@jax.custom_vjp
def clearing_payments(owed, assets):
    total, _, frac = _recovery(owed, assets)
    return _settle(owed, assets, total, frac)


def _clearing_fwd(owed, assets):
    total, bad, frac = _recovery(owed, assets)
    return _settle(owed, assets, total, frac), (owed, assets, total, bad, frac)


def _clearing_bwd(res, cotangents):
    owed, assets, total, bad, frac = res
    g_paid, g_equity = cotangents
    g_net = g_paid - g_equity
    g_frac = g_net * total + owed @ g_equity
    matrix, _ = _system(owed, assets, total, bad)
    lam = jnp.where(bad, jnp.linalg.solve(matrix.T, g_frac), 0.0)
    g_total = (g_net - lam) * frac
    g_inflow = g_equity + lam
    return g_total[:, None] + frac[:, None] * g_inflow[None, :], g_inflow


clearing_payments.defvjp(_clearing_fwd, _clearing_bwd)


def shortfall(owed, assets):
    paid, _ = clearing_payments(owed, assets)
    return jnp.sum(owed) - jnp.sum(paid)


def _exposure(value, floor, multiplier, cap):
    wanted = multiplier * jnp.maximum(value - floor, 0.0)
    return jnp.minimum(wanted, cap * value)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def cppi_wealth(start, floor, multiplier, rate, returns, cap=1.0):
    def day(carry, ret):
        value, floor = carry
        x = _exposure(value, floor, multiplier, cap)
        value = value + x * ret + (value - x) * rate
        return (value, floor * (1.0 + rate)), value

    _, path = lax.scan(day, (start, floor), returns)
    return path


def _cppi_fwd(start, floor, multiplier, rate, returns, cap):
    def day(carry, ret):
        value, floor = carry
        x = _exposure(value, floor, multiplier, cap)
        after = value + x * ret + (value - x) * rate
        return (after, floor * (1.0 + rate)), (after, value, floor, x)

    _, (path, values, floors, xs) = lax.scan(day, (start, floor), returns)
    return path, (multiplier, rate, returns, values, floors, xs)


def _cppi_bwd(cap, res, g):
    multiplier, rate, returns, values, floors, xs = res

    def day(carry, inputs):
        g_value, g_floor, g_mult, g_rate = carry
        g_out, ret, value, floor, x = inputs
        g_value = g_value + g_out
        cushion = value - floor
        g_x = g_value * (ret - rate)
        capped = multiplier * cushion > cap * value
        lever = jnp.where((cushion > 0.0) & ~capped, g_x, 0.0)
        carry = (
            g_value * (1.0 + rate) + lever * multiplier + jnp.where(capped, g_x * cap, 0.0),
            g_floor * (1.0 + rate) - lever * multiplier,
            g_mult + lever * cushion,
            g_rate + g_value * (value - x),
        )
        return carry, g_value * x

    zero = jnp.zeros_like(values[0])
    (g_start, g_floor, g_mult, g_rate), g_returns = lax.scan(
        day, (zero, zero, zero, zero), (g, returns, values, floors, xs), reverse=True
    )
    return g_start, g_floor, g_mult, g_rate, g_returns


cppi_wealth.defvjp(_cppi_fwd, _cppi_bwd)


def final_shortfall(start, floor, multiplier, rate, scenarios, cap=1.0):
    paths = jax.vmap(cppi_wealth, in_axes=(None, None, None, None, 0, None))(
        start, floor, multiplier, rate, scenarios, cap
    )
    target = floor * (1.0 + rate) ** scenarios.shape[1]
    return jnp.mean(jnp.maximum(target - paths[:, -1], 0.0))


def _netted(values, netting, threshold):
    sets = jnp.zeros((values.shape[0], threshold.shape[0], values.shape[2]), values.dtype)
    return sets.at[:, netting].add(values) - threshold[:, None]


@jax.custom_vjp
def _epe(values, netting, threshold, weights):
    positive = jnp.maximum(_netted(values, netting, threshold), 0.0).sum(axis=1)
    return weights @ positive / weights.sum()


def _epe_fwd(values, netting, threshold, weights):
    open_ = _netted(values, netting, threshold)
    positive = jnp.maximum(open_, 0.0).sum(axis=1)
    total = weights.sum()
    return weights @ positive / total, (open_ > 0.0, netting, weights, total, positive)


def _epe_bwd(res, g):
    live, netting, weights, total, positive = res
    share = weights / total
    g_sets = jnp.where(live, share[:, None, None] * g, 0.0)
    return g_sets[:, netting], None, -g_sets.sum(axis=(0, 2)), positive @ g / total


_epe.defvjp(_epe_fwd, _epe_bwd)


def epe_profile(values, netting, threshold, weights=None):
    if weights is None:
        weights = jnp.ones(values.shape[0], values.dtype)
    return _epe(values, netting, threshold, weights)


def cva(values, netting, threshold, hazard, discount, recovery=0.4, weights=None):
    profile = epe_profile(values, netting, threshold, weights)
    survival = jnp.exp(-jnp.cumsum(hazard))
    default = jnp.concatenate([jnp.ones(1, survival.dtype), survival[:-1]]) - survival
    return (1.0 - recovery) * jnp.sum(profile * default * discount)
