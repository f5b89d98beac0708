"""Handbells: sound of a single bell, tuning of a set, and timing of the ringers."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

LN_1000 = 6.907755278982137     # 60 dB in nepers
GLOVE = 0.035                   # seconds, decay of a bell that is put on the table


class Bell(NamedTuple):
    freq: jax.Array    # Hz, one a partial
    amp: jax.Array
    t60: jax.Array     # s


def tuned_bell(prime, ratios=(1.0, 3.0, 5.4), loud=(1.0, 0.35, 0.1)):
    ratios = jnp.asarray(ratios)
    return Bell(prime * ratios, jnp.asarray(loud), 4.0 / ratios)


def _partials(t, bell, strike):
    age = jnp.maximum(t - strike, 0.0)[..., None]
    swell = jnp.exp(-LN_1000 * age / bell.t60)
    turn = 2 * jnp.pi * bell.freq
    return age, swell, turn


def _hand(t, damp):
    return jnp.exp(-jnp.maximum(t - damp, 0.0) / GLOVE)


@jax.custom_jvp
def ring(t, bell, strike, damp):
    """Sound pressure at the times t of a bell struck at `strike` and damped by hand from `damp` on.

    Silent before the strike. damp may be infinity (let vibrate).
    """
    age, swell, turn = _partials(t, bell, strike)
    return jnp.sum(bell.amp * swell * jnp.sin(turn * age), -1) * _hand(t, damp)


@ring.defjvp
def _ring_jvp(primals, tangents):
    t, bell, strike, damp = primals
    dt, dbell, dstrike, ddamp = tangents
    age, swell, turn = _partials(t, bell, strike)
    sine, cosine = jnp.sin(turn * age), jnp.cos(turn * age)
    hand = _hand(t, damp)
    free = jnp.sum(bell.amp * swell * sine, -1)
    by_age = jnp.sum(bell.amp * swell * (turn * cosine - LN_1000 / bell.t60 * sine), -1)
    by_bell = jnp.sum(swell * (dbell.amp * sine
                               + bell.amp * cosine * age * 2 * jnp.pi * dbell.freq
                               + bell.amp * sine * LN_1000 * age / bell.t60 ** 2 * dbell.t60), -1)
    dage = jnp.where(t > strike, dt - dstrike, 0.0)
    dhand = jnp.where(t > damp, hand * (ddamp - dt) / GLOVE, 0.0)
    return free * hand, hand * (by_age * dage + by_bell) + free * dhand


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def cents_variance(freqs, target, weights, ddof=0):
    """Weighted variance, in cents squared, of how far bells are from their target pitches.

    freqs    (..., bells) as measured
    target   (bells,) Hz
    weights  (bells,) number of times each bell was measured, real numbers allowed
    ddof     0: the measurements are everything; 1: they are a sample, the sum of weights less one divides

    A common offset of the whole set does not count: the weighted mean is taken off first.
    """
    return _cents_fwd(freqs, target, weights, ddof)[0]


def _cents_fwd(freqs, target, weights, ddof):
    cents = 1200.0 * jnp.log2(freqs / target)
    total = weights.sum()
    off = cents - jnp.sum(weights * cents, -1, keepdims=True) / total
    var = jnp.sum(weights * off ** 2, -1) / (total - ddof)
    return var, (freqs, target, weights, off, var)


def _cents_bwd(ddof, res, g):
    freqs, target, weights, off, var = res
    total = weights.sum()
    g = g[..., None]
    d_cents = 2 * g * weights * off / (total - ddof) * (1200.0 / jnp.log(2.0))
    d_weights = g * (off ** 2 - var[..., None]) / total
    lead = tuple(range(freqs.ndim - 1))
    return d_cents / freqs, -jnp.sum(d_cents, lead) / target, jnp.sum(d_weights, lead)


cents_variance.defvjp(_cents_fwd, _cents_bwd)


def rows_of(changes, bells):
    """Rows of a method from its changes; a change is a list of places that swap with the next one."""
    row, rows = list(range(bells)), []
    for change in changes:
        for p in change:
            row[p], row[p + 1] = row[p + 1], row[p]
        rows.append(tuple(row))
    return jnp.array(rows)


@jax.custom_vjp
def blow_times(gaps, rows, handstroke):
    """When each place of each row sounds.

    gaps [bells]: seconds that a bell leaves before itself (heavy bells leave more). rows [R, bells] of bell numbers,
    each row a permutation. handstroke [R]: the wait ahead of a row. Result [R, bells], row after row in one clock.
    """
    within = jnp.cumsum(gaps[rows], axis=1)
    ahead = jnp.cumsum(handstroke + within[:, -1]) - within[:, -1]
    return ahead[:, None] + within


def _blow_fwd(gaps, rows, handstroke):
    return blow_times(gaps, rows, handstroke), rows


def _blow_bwd(rows, g):
    tail = jnp.cumsum(g[:, ::-1], axis=1)[:, ::-1]          # this row's blows from a place on
    per_row = tail[:, 0]
    after = jnp.cumsum(per_row[::-1])[::-1]                 # this row and all that follow
    d_place = tail + (after - per_row)[:, None]
    d_gaps = jnp.sum(jnp.take_along_axis(d_place, rows, axis=1), axis=0)
    return d_gaps, None, after


blow_times.defvjp(_blow_fwd, _blow_bwd)


def striking_error(gaps, handstroke, rows, heard):
    """Mean squared error of the heard blows, as striking competitions mark it."""
    return jnp.mean((heard - blow_times(gaps, rows, handstroke)) ** 2)


if __name__ == "__main__":
    rows = rows_of([[0, 2], [1], [0, 2], [1]], 4)
    print(blow_times(jnp.full(4, 0.25), rows, jnp.full(4, 0.1)))
    print(ring(jnp.linspace(0, 1, 5), tuned_bell(523.25), 0.1, jnp.inf))
