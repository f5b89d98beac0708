"""Position auctions, contests, reserve prices."""
from functools import partial

import jax
import jax.numpy as jnp


def _rank_and_price(bids, quality, click_rate, reserve):
    score = bids * quality
    order = jnp.argsort(-score, axis=-1)
    inverse = jnp.argsort(order, axis=-1)
    slots = click_rate.shape[0]
    s = jnp.take_along_axis(score, order, -1)
    q = jnp.take_along_axis(quality, order, -1)
    tail = jnp.full(s.shape[:-1] + (1,), reserve, s.dtype)
    follow = jnp.concatenate([s[..., 1:], tail], -1)
    spare = s.shape[-1] - slots
    rate = jnp.pad(click_rate, (0, spare))
    return order, inverse, follow, q, rate


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def gsp_payments(bids, quality, click_rate, reserve=0.0):
    """Expected payments of a generalized second-price auction.

    Bidders are ranked by ``bid * quality``; the one in slot ``i`` pays, per click, the score of the next one
    divided by its own quality, and gets ``click_rate[i]`` clicks.

    Args:
      bids, quality: ``(auctions, bidders)``, positive, in any order.
      click_rate: ``(slots,)`` with ``slots <= bidders``.
      reserve: score which the last bidder has to beat.

    Returns:
      ``(auctions, bidders)`` payments in the order of the bids; zero without a slot.
    """
    order, inverse, follow, q, rate = _rank_and_price(bids, quality, click_rate, reserve)
    return jnp.take_along_axis(rate * follow / q, inverse, -1)


def _gsp_fwd(bids, quality, click_rate, reserve):
    parts = _rank_and_price(bids, quality, click_rate, reserve)
    order, inverse, follow, q, rate = parts
    pay = jnp.take_along_axis(rate * follow / q, inverse, -1)
    return pay, (bids, quality, click_rate, parts)


def _gsp_bwd(reserve, res, g):
    bids, quality, click_rate, (order, inverse, follow, q, rate) = res
    g = jnp.take_along_axis(g, inverse, -1)
    d_follow = g * rate / q
    d_score = jnp.pad(d_follow[..., :-1], [(0, 0)] * (g.ndim - 1) + [(1, 0)])
    d_q = -g * rate * follow / (q * q)
    d_rate = (g * follow / q)[..., : click_rate.shape[0]]
    d_score = jnp.take_along_axis(d_score, inverse, -1)
    d_q = jnp.take_along_axis(d_q, inverse, -1)
    return (d_score * quality, d_q + d_score * bids,
            d_rate.sum(axis=tuple(range(d_rate.ndim - 1))))


gsp_payments.defvjp(_gsp_fwd, _gsp_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def tullock_prizes(effort, decisiveness, prize, contest, num_contests):
    """Expected prize per player, prize_c * e^r_c / sum e^r_c over the players of contest c (effort > 0)."""
    return _tullock_fwd(effort, decisiveness, prize, contest, num_contests)[0]


def _tullock_fwd(effort, decisiveness, prize, contest, num_contests):
    logit = decisiveness[contest] * jnp.log(effort)
    top = jax.ops.segment_max(logit, contest, num_contests)
    e = jnp.exp(logit - top[contest])
    share = e / jax.ops.segment_sum(e, contest, num_contests)[contest]
    return prize[contest] * share, (effort, decisiveness, prize, contest, share)


def _tullock_bwd(num_contests, res, g):
    effort, decisiveness, prize, contest, share = res
    total = partial(jax.ops.segment_sum, segment_ids=contest, num_segments=num_contests)
    won = g * share
    d_prize = total(won)
    d_logit = prize[contest] * (won - share * d_prize[contest])
    return (d_logit * decisiveness[contest] / effort, total(d_logit * jnp.log(effort)), d_prize, None)


tullock_prizes.defvjp(_tullock_fwd, _tullock_bwd)


@jax.custom_jvp
def weibull_virtual_value(value, shape, scale):
    return value - scale / shape * (value / scale) ** (1.0 - shape)


@weibull_virtual_value.defjvp
def _virtual_jvp(primals, tangents):
    value, shape, scale = primals
    dv, dk, dl = tangents
    ratio = value / scale
    mills = scale / shape * ratio ** (1.0 - shape)
    out = value - mills
    tan = (dv * (1.0 - (1.0 - shape) * mills / value)
           + dk * mills * (1.0 / shape + jnp.log(ratio))
           - dl * mills * shape / scale)
    return out, tan
