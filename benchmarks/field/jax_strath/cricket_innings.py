"""Limited-overs cricket: resources, partnerships and batting rates."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

WICKETS = 10
FULL_OVERS = 50.0


def _no_grad(ids):
    return np.zeros(np.shape(ids), jax.dtypes.float0)


def default_tables():
    lost = jnp.arange(WICKETS)
    return 280.0 * (1.0 - lost / 10.5) ** 1.3, 0.035 * (1.0 + 0.25 * lost)


@jax.custom_vjp
def resources_left(overs, wickets, z0, b):
    """Percentage of batting resources left in a Duckworth-Lewis type model.

    ``100 * z0[w] (1 - exp(-b[w] u)) / (z0[0] (1 - exp(-b[0] * 50)))``

    Parameters
    ----------
    overs : (...) overs left, ``u``
    wickets : (...) int, wickets lost, 0 to 10; with 10 lost nothing is left
    z0, b : (10,) asymptotic runs and decay for every number of wickets lost
    """
    return _resources_fwd(overs, wickets, z0, b)[0]


def _resources_fwd(overs, wickets, z0, b):
    batting = wickets < WICKETS
    w = jnp.where(batting, wickets, 0)
    e = jnp.exp(-b[w] * overs)
    runs = jnp.where(batting, z0[w] * (1.0 - e), 0.0)
    full = z0[0] * -jnp.expm1(-b[0] * FULL_OVERS)
    pct = 100.0 * runs / full
    return pct, (overs, wickets, w, batting, e, z0, b, full, pct)


def _resources_bwd(res, g):
    overs, wickets, w, batting, e, z0, b, full, pct = res
    g_runs = jnp.where(batting, 100.0 * g / full, 0.0)
    g_full = -jnp.sum(g * pct) / full
    full_decay = jnp.exp(-b[0] * FULL_OVERS)
    dz = jnp.zeros_like(z0).at[w].add(g_runs * (1.0 - e))
    db = jnp.zeros_like(b).at[w].add(g_runs * z0[w] * e * overs)
    dz = dz.at[0].add(g_full * (1.0 - full_decay))
    db = db.at[0].add(g_full * z0[0] * FULL_OVERS * full_decay)
    return g_runs * z0[w] * b[w] * e, _no_grad(wickets), dz, db


resources_left.defvjp(_resources_fwd, _resources_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def batter_rates(runs, balls, batter, league_rate, prior_balls, num_batters, pool_league=False):
    """Shrunken runs per ball of each batter; ``pool_league`` takes the league rate from the data."""
    return _rates_fwd(runs, balls, batter, league_rate, prior_balls, num_batters, pool_league)[0]


def _rates_fwd(runs, balls, batter, league_rate, prior_balls, num_batters, pool_league):
    r = jax.ops.segment_sum(runs, batter, num_batters)
    n = jax.ops.segment_sum(balls, batter, num_batters)
    league = r.sum() / n.sum() if pool_league else league_rate
    rate = (r + prior_balls * league) / (n + prior_balls)
    return rate, (batter, n, rate, league, prior_balls)


def _rates_bwd(num_batters, pool_league, res, g):
    batter, n, rate, league, prior = res
    per = g / (n + prior)
    d_runs = per[batter]
    d_balls = -(per * rate)[batter]
    d_prior = jnp.sum(per * (league - rate))
    d_league = jnp.zeros_like(league) if pool_league else jnp.sum(per) * prior
    return d_runs, d_balls, _no_grad(batter), d_league, d_prior


batter_rates.defvjp(_rates_fwd, _rates_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def partnership_nll(params, pair, balls, out, valid, reduction="mean"):
    return _partnership_fwd(params, pair, balls, out, valid, reduction)[0]


def _partnership_fwd(params, pair, balls, out, valid, reduction):
    # geometric end of a partnership; not-out stands (out = 0.0) are censored
    # params: {"base": (), "pair": (P,)}; balls and out are floats
    eta = params["base"] + params["pair"][pair]
    nll = jnp.where(valid, balls * jax.nn.softplus(eta) - out * eta, 0.0)
    count = jnp.maximum(valid.sum(), 1)
    if reduction == "mean":
        loss = nll.sum() / count
    elif reduction == "sum":
        loss = nll.sum()
    else:
        loss = nll
    return loss, (params, eta, pair, balls, out, valid, count)


def _partnership_bwd(reduction, res, g):
    params, eta, pair, balls, out, valid, count = res
    if reduction == "mean":
        g = g / count
    g = jnp.where(valid, g, 0.0)
    d_eta = g * (balls * jax.nn.sigmoid(eta) - out)
    d_params = {
        "base": d_eta.sum(),
        "pair": jnp.zeros_like(params["pair"]).at[pair].add(d_eta),
    }
    return (d_params, _no_grad(pair), g * jax.nn.softplus(eta), -g * eta, _no_grad(valid))


partnership_nll.defvjp(_partnership_fwd, _partnership_bwd)
