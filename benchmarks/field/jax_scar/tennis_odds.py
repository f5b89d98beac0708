"""Point-level tennis models: hold probabilities, serve/return skills, momentum."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

SURFACES = ("hard", "clay", "grass")


class Skills(NamedTuple):
    serve: jax.Array    # (players, surfaces)
    ret: jax.Array      # (players, surfaces)
    bias: jax.Array     # (surfaces,)


def init_skills(players, surfaces=len(SURFACES)):
    z = jnp.zeros((players, surfaces))
    return Skills(z, z, jnp.full((surfaces,), 0.5))


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def hold_probability(p, no_ad=False):
    """Probability that the server wins a game.

    p: chance of winning a point on serve, any shape, in [0, 1].
    no_ad: at deuce a single deciding point is played instead of the usual
        two-point lead.
    """
    q = 1.0 - p
    deuce = p if no_ad else p * p / (p * p + q * q)
    return p**4 * (1.0 + 4.0 * q + 10.0 * q * q) + 20.0 * (p * q) ** 3 * deuce


@hold_probability.defjvp
def _hold_jvp(no_ad, primals, tangents):
    (p,), (dp,) = primals, tangents
    q = 1.0 - p
    # before deuce: p^4 (1 + 4q + 10q^2)
    love_to_thirty = 4.0 * p**3 * (1.0 + 4.0 * q + 10.0 * q * q) - p**4 * (4.0 + 20.0 * q)
    reach = 20.0 * (p * q) ** 3
    d_reach = 60.0 * (p * q) ** 2 * (q - p)
    if no_ad:
        deuce, d_deuce = p, jnp.ones_like(p)
    else:
        s = p * p + q * q
        deuce, d_deuce = p * p / s, 2.0 * p * q / (s * s)
    slope = love_to_thirty + d_reach * deuce + reach * d_deuce
    return hold_probability(p, no_ad), slope * dp


def _point_logits(skills, server, returner, surface):
    return (skills.serve[server, surface]
            - skills.ret[returner, surface]
            + skills.bias[surface])


@jax.custom_vjp
def serve_point_nll(skills, server, returner, surface, won, weight):
    """Weighted mean NLL of points; server/returner/surface (n,) ids, won (n,) bool, weight (n,)."""
    z = _point_logits(skills, server, returner, surface)
    ll = jnp.where(won, jax.nn.log_sigmoid(z), jax.nn.log_sigmoid(-z))
    return -jnp.sum(weight * ll) / jnp.sum(weight)


def _serve_fwd(skills, server, returner, surface, won, weight):
    z = _point_logits(skills, server, returner, surface)
    ll = jnp.where(won, jax.nn.log_sigmoid(z), jax.nn.log_sigmoid(-z))
    total = jnp.sum(weight)
    loss = -jnp.sum(weight * ll) / total
    return loss, (skills, server, returner, surface, won, weight, z, ll, loss, total)


def _serve_bwd(res, g):
    skills, server, returner, surface, won, weight, z, ll, loss, total = res
    dz = g * weight / total * (jax.nn.sigmoid(z) - jnp.where(won, 1.0, 0.0))
    d_serve = jnp.zeros_like(skills.serve).at[server, surface].add(dz)
    d_ret = jnp.zeros_like(skills.ret).at[returner, surface].set(-dz)
    d_bias = jax.ops.segment_sum(dz, surface, num_segments=skills.bias.shape[0])
    d_weight = g * (-ll - loss) / total
    return Skills(d_serve, d_ret, d_bias), None, None, None, None, d_weight


serve_point_nll.defvjp(_serve_fwd, _serve_bwd)


@jax.custom_vjp
def momentum_trace(x, decay, carry, starts):
    return _momentum(x, decay, carry, starts)


def _momentum(x, decay, carry, starts):
    # x, starts: (points, players); decay, carry: (players,)
    def step(h, inp):
        xt, s = inp
        h = decay * jnp.where(s, 0.0, h) + xt
        return h, h
    return jax.lax.scan(step, carry, (x, starts))[1]


def _momentum_fwd(x, decay, carry, starts):
    h = _momentum(x, decay, carry, starts)
    return h, (h, decay, carry, starts)


def _momentum_bwd(res, g):
    h, decay, carry, starts = res
    prev = jnp.concatenate([carry[None], h[:-1]])
    prev = jnp.where(starts, 0.0, prev)

    def back(lam, inp):
        gt, s = inp
        total = gt + lam
        return jnp.where(s, 0.0, decay * total), total

    d_carry, lam = jax.lax.scan(back, jnp.zeros_like(carry), (g, starts), reverse=True)
    return lam, jnp.sum(lam * prev, axis=0), d_carry, None


momentum_trace.defvjp(_momentum_fwd, _momentum_bwd)


def set_win_from_holds(hold_a, hold_b):
    """Crude normal approximation of the set win chance from two hold rates."""
    edge = hold_a - hold_b
    var = hold_a * (1 - hold_a) + hold_b * (1 - hold_b)
    return jax.scipy.stats.norm.cdf(jnp.sqrt(5.0) * edge / jnp.sqrt(var + 1e-9))
