# Retirement money: pots that are filled and emptied, safe withdrawal rates, rebalancing.
#
# Axes are always (paths, years); everything that all paths share has one axis less.

import jax
import jax.numpy as jnp


@jax.custom_vjp
def pot_balances(start, flows, returns, fee):
    """Year-end balances of a pot.

    Args:
      start: opening balance per path, (paths,).
      flows: what is paid in (positive) or drawn (negative) at the start of each year, (years,).
      returns: yearly returns, (paths, years).
      fee: yearly fee as a fraction of the pot.

    Returns:
      (paths, years) balances. A pot cannot be overdrawn: what is missing is simply not paid out, and
      later payments in fill it again.
    """
    return _pot_fwd(start, flows, returns, fee)[0]


def _pot_fwd(start, flows, returns, fee):
    def year(balance, inputs):
        flow, r = inputs
        invested = jnp.maximum(balance + flow, 0.0)
        balance = invested * (1.0 + r) * (1.0 - fee)
        return balance, (balance, invested)

    _, (balances, invested) = jax.lax.scan(year, start, (flows, returns.T))
    return balances.T, (returns, fee, invested.T)


def _pot_bwd(res, g):
    returns, fee, invested = res
    growth = (1.0 + returns) * (1.0 - fee)

    def year(adjoint, inputs):
        g_t, growth_t = inputs
        total = adjoint + g_t
        return total * growth_t, total

    d_start, total = jax.lax.scan(year, jnp.zeros_like(g[:, 0]), (g.T, growth.T), reverse=True)
    total = total.T
    d_flows = jnp.sum(total * growth, axis=0)
    d_returns = total * invested * (1.0 - fee)
    d_fee = -jnp.sum(total * invested * (1.0 + returns))
    return d_start, d_flows, d_returns, d_fee


pot_balances.defvjp(_pot_fwd, _pot_bwd)


def make_withdrawal_rate(timing="start"):
    """Builds the constant withdrawal rate that a return path supports.

    `timing` says when the yearly amount is drawn: at the "start" of the year (before its return) or at
    the "end" (after it).
    """
    if timing not in ("start", "end"):
        raise ValueError(f"unknown timing {timing!r}")

    @jax.custom_vjp
    def withdrawal_rate(returns, legacy):
        """Yearly draw per unit of opening balance which leaves `legacy` (a fraction of the opening
        balance, one number for all paths) after the last year. returns: (paths, years)."""
        return forward(returns, legacy)[0]

    def forward(returns, legacy):
        after = jnp.cumprod(1.0 / (1.0 + returns), axis=-1)
        if timing == "start":
            worth = jnp.concatenate([jnp.ones_like(after[:, :1]), after[:, :-1]], axis=-1)
        else:
            worth = after
        annual = worth.sum(axis=-1)
        rate = (1.0 - legacy * after[:, -1]) / annual
        return rate, (returns, legacy, after[:, -1], worth, annual, rate)

    def backward(res, g):
        returns, legacy, final, worth, annual, rate = res
        later = jnp.flip(jnp.cumsum(jnp.flip(worth, -1), -1), -1)
        if timing == "start":
            later = later - worth
        pull = (legacy * final)[:, None] + rate[:, None] * later
        d_returns = (g / annual)[:, None] * pull / (1.0 + returns)
        return d_returns, -jnp.sum(g * final / annual)

    withdrawal_rate.defvjp(forward, backward)
    return withdrawal_rate


@jax.custom_vjp
def rebalanced_growth(target, returns, cost=0.0):
    """Growth factor of one year held from `target` and then traded back to it.

    Args:
      target: asset weights (assets,), summing to one.
      returns: (paths, assets).
      cost: trading cost per unit of turnover; by the end of the year the weights have drifted to
        w_i (1 + r_i) / sum_j w_j (1 + r_j), and the turnover is the sum of |drifted - target|.
    """
    return _rebalance_fwd(target, returns, cost)[0]


def _rebalance_fwd(target, returns, cost=0.0):
    held = target * (1.0 + returns)
    growth = held.sum(axis=-1)
    drifted = held / growth[:, None]
    turnover = jnp.abs(drifted - target).sum(axis=-1)
    return growth * (1.0 - cost * turnover), (target, returns, cost, growth, drifted, turnover)


def _rebalance_bwd(res, g):
    target, returns, cost, growth, drifted, turnover = res
    side = jnp.sign(drifted - target)
    g_growth = g * (1.0 - cost * turnover)
    g_drift = -(g * growth * cost)[:, None] * side
    # drifted = held / growth
    g_held = (g_drift - jnp.sum(g_drift * drifted, -1, keepdims=True)) / growth[:, None] + g_growth[:, None]
    d_target = jnp.sum(g_held * (1.0 + returns), axis=0)
    return d_target, g_held * target, -jnp.sum(g * growth * turnover)


rebalanced_growth.defvjp(_rebalance_fwd, _rebalance_bwd)


def plan_value(plan, returns, asset_returns):
    """Mean final wealth of a plan (a dict with start, flows, fee, target) after one rebalanced year more."""
    paths = returns.shape[0]
    balances = pot_balances(jnp.full((paths,), plan["start"]), plan["flows"], returns, plan["fee"])
    return jnp.mean(balances[:, -1] * rebalanced_growth(plan["target"], asset_returns, plan.get("cost", 0.0)))


def main():
    key = jax.random.key(3)
    r = 0.04 + 0.12 * jax.random.normal(key, (1000, 30))
    print("5% quantile of the safe rate:", jnp.quantile(make_withdrawal_rate()(r, 0.0), 0.05))


if __name__ == "__main__":
    main()
