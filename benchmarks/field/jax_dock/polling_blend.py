"""Blend opinion polls into an estimate, and the estimate into seats.

Usage:

    polls = Polls(shares, size, age, house)       # 40 polls of 5 parties
    params = {"effects": jnp.zeros((9, 5)), "logit_swing": jnp.zeros(5)}
    estimate(params, polls, n_houses=9)           # -> (5,)
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

LN2 = 0.6931471805599453


class Polls(NamedTuple):
    shares: jnp.ndarray   # (polls, parties)
    size: jnp.ndarray     # (polls,) respondents
    age: jnp.ndarray      # (polls,) days since the field work
    house: jnp.ndarray    # (polls,) which pollster


def poll_blender(half_life: float = 14.0, size_cap: float = 2500.0):
    """Average whose weights grow as the root of the sample, and halve with time.

    Samples beyond size_cap earn no more weight than size_cap: giant online panels
    do not have the accuracy that their size promises.
    """

    @jax.custom_gradient
    def blend(shares, size, age):
        eff = jnp.minimum(size, size_cap)
        w = jnp.sqrt(eff) * 2.0 ** (-age / half_life)
        w_norm = w / jnp.sum(w)
        avg = w_norm @ shares

        def backward(ct):
            d_shares = w_norm[:, None] * ct
            # d avg / d log w
            pull = w_norm * ((shares - avg) @ ct)
            return d_shares, 0.5 * pull / eff, -LN2 / half_life * pull

        return avg, backward

    return blend


def house_adjuster(house, n_houses: int):
    """Take house effects out of polls.

    The effects only mean something relative to one another, so their mean over
    the polls (not over the houses) is removed first.
    """
    counts = jnp.bincount(house, length=n_houses)

    @jax.custom_gradient
    def adjust(shares, effects):
        freq = (counts / house.shape[0]).astype(effects.dtype)
        centred = effects - freq @ effects

        def backward(ct):
            per_house = jax.ops.segment_sum(ct, house, n_houses)
            return ct, freq[:, None] * jnp.sum(ct, axis=0) - per_house

        return shares - centred[house], backward

    return adjust


def _match(g, ref):
    """Sum g down to the shape of ref."""
    extra = g.ndim - jnp.ndim(ref)
    g = g.sum(axis=tuple(range(extra)))
    keep = tuple(i for i, n in enumerate(jnp.shape(ref)) if n == 1 and g.shape[i] != 1)
    return g.sum(axis=keep, keepdims=True)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def seat_probability(margin, local_sd, national_sd=0.0):
    """Chance that the leading party holds each seat.

    margin: expected lead in points, any shape.
    local_sd: error of a single seat in points; a number, or one that broadcasts.
    national_sd: error that all seats share, in points, zero or more.
    """
    return norm.cdf(margin / jnp.sqrt(local_sd**2 + national_sd**2))


def _seat_fwd(margin, local_sd, national_sd):
    total = jnp.sqrt(local_sd**2 + national_sd**2)
    z = margin / total
    return norm.cdf(z), (z, total, local_sd)


def _seat_bwd(national_sd, res, ct):
    z, total, local_sd = res
    d_margin = ct * norm.pdf(z) / total
    return d_margin, _match(-d_margin * z, local_sd)


seat_probability.defvjp(_seat_fwd, _seat_bwd)


def estimate(params, polls: Polls, n_houses: int, half_life: float = 14.0):
    adjust = house_adjuster(polls.house, n_houses)
    blend = poll_blender(half_life)
    avg = blend(adjust(polls.shares, params["effects"]), polls.size, polls.age)
    return jax.nn.softmax(jnp.log(avg) + params["logit_swing"])


def expected_seats(params, polls, n_houses, last_result, last_national, local_sd):
    """last_result (seats, 2): the two leading parties; uniform national swing."""
    now = estimate(params, polls, n_houses)
    lead = (last_result[:, 0] - last_result[:, 1]) * 100.0
    swing = ((now - last_national)[0] - (now - last_national)[1]) * 100.0
    return jnp.sum(seat_probability(lead + swing, local_sd, 2.5))


def backtest(params, polls, n_houses, truth, weight=1e-3):
    """Squared error at a past election, with a ridge on the effects."""
    err = estimate(params, polls, n_houses) - truth
    return jnp.sum(err**2) + weight * jnp.sum(params["effects"] ** 2)
