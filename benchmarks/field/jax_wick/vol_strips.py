from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

KINDS = {"payer": (1.0, 0.0), "receiver": (0.0, 1.0), "straddle": (1.0, 1.0)}


def _terms(f, k, vol, t, shift):
    lf, lk = f + shift, k + shift
    sd = vol * jnp.sqrt(t)
    d1 = jnp.log(lf / lk) / sd + 0.5 * sd
    return lf, lk, sd, d1, d1 - sd


@partial(jax.custom_jvp, nondiff_argnums=(6,))
def displaced_caplet(f, k, vol, t, shift, annuity, kind="payer"):
    a, b = KINDS[kind]
    lf, lk, _, d1, d2 = _terms(f, k, vol, t, shift)
    up = lf * norm.cdf(d1) - lk * norm.cdf(d2)
    down = lk * norm.cdf(-d2) - lf * norm.cdf(-d1)
    return annuity * (a * up + b * down)


@displaced_caplet.defjvp
def _displaced_jvp(kind, primals, tangents):
    f, k, vol, t, shift, annuity = primals
    df, dk, dvol, dt, dshift, dannuity = tangents
    a, b = KINDS[kind]
    lf, lk, sd, d1, d2 = _terms(f, k, vol, t, shift)
    unit = lf * (a * norm.cdf(d1) - b * norm.cdf(-d1)) - lk * (a * norm.cdf(d2) - b * norm.cdf(-d2))
    delta = a * norm.cdf(d1) - b * norm.cdf(-d1)
    dual = b * norm.cdf(-d2) - a * norm.cdf(d2)
    dsd = dvol * jnp.sqrt(t) + 0.5 * sd * dt / t
    dunit = delta * df + dual * dk + (delta + dual) * dshift + (a + b) * lf * norm.pdf(d1) * dsd
    return annuity * unit, annuity * dunit + dannuity * unit


def make_cds_pricer(accrual, bucket, knots):
    # accrual: year fractions of the payment dates; bucket: hazard knot of each period
    accrual = np.asarray(accrual, float)
    bucket = np.asarray(bucket, int)

    @jax.custom_gradient
    def upfront(hazard, discount, recovery, coupon):
        q = jnp.exp(-jnp.cumsum(hazard[bucket] * accrual))
        q0 = jnp.concatenate([jnp.ones_like(q[:1]), q[:-1]])
        default_leg = jnp.sum(discount * (q0 - q))
        premium_leg = 0.5 * jnp.sum(accrual * discount * (q0 + q))

        def grad(g):
            lgd = 1.0 - recovery
            start = lgd * discount - 0.5 * coupon * accrual * discount
            end = -lgd * discount - 0.5 * coupon * accrual * discount
            dq = end + jnp.concatenate([start[1:], jnp.zeros_like(start[:1])])
            tail = jnp.cumsum((-q * dq)[::-1])[::-1]
            dh = jax.ops.segment_sum(tail * accrual, bucket, num_segments=knots)
            dd = lgd * (q0 - q) - 0.5 * coupon * accrual * (q0 + q)
            return g * dh, g * dd, -g * default_leg, -g * premium_leg

        return (1.0 - recovery) * default_leg - coupon * premium_leg, grad

    return upfront


def strip_weights(strikes):
    k = np.asarray(strikes, float)
    gap = np.diff(k)
    width = np.concatenate([gap[:1], 0.5 * (gap[1:] + gap[:-1]), gap[-1:]])
    return width / k**2


def at_the_money(forward, strikes):
    k = jnp.asarray(strikes)
    i = jnp.clip(jnp.searchsorted(k, forward, side="right") - 1, 0, k.size - 1)
    return k[i]


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def variance_strike(quote, listed, forward, rate, expiry, strikes):
    return _variance_fwd(quote, listed, forward, rate, expiry, strikes)[0]


def _variance_fwd(quote, listed, forward, rate, expiry, strikes):
    w = jnp.where(listed, jnp.asarray(strip_weights(strikes)), 0.0)
    k0 = at_the_money(forward, strikes)
    grow = jnp.exp(rate * expiry)
    strip = 2.0 * grow / expiry * jnp.sum(w * quote, axis=-1)
    moneyness = forward / k0 - 1.0
    var = strip - moneyness**2 / expiry
    return var, (w, k0, grow, strip, moneyness, var, rate, expiry)


def _variance_bwd(strikes, res, g):
    w, k0, grow, strip, moneyness, var, rate, expiry = res
    dquote = (2.0 * g * grow / expiry)[..., None] * w
    dforward = -2.0 * g * moneyness / (k0 * expiry)
    drate = g * strip * expiry
    dexpiry = -g * var / expiry
    return dquote, None, dforward, drate, dexpiry


variance_strike.defvjp(_variance_fwd, _variance_bwd)


def vol_index(near, far, days=30.0):
    # near, far: dicts with quote (desks, K), listed (desks, K), forward, rate, expiry (desks,) and strikes, a tuple
    v = [variance_strike(s["quote"], s["listed"], s["forward"], s["rate"], s["expiry"], s["strikes"]) for s in (near, far)]
    t = days / 365.0
    mix = (far["expiry"] - t) / (far["expiry"] - near["expiry"])
    total = mix * near["expiry"] * v[0] + (1.0 - mix) * far["expiry"] * v[1]
    return 100.0 * jnp.sqrt(total / t)


def bootstrap_hazard(pricer, spreads, discount, recovery=0.4, steps=40):
    h = jnp.asarray(spreads) / (1.0 - recovery)

    def loss(h):
        return sum(pricer(h, discount, recovery, c) ** 2 for c in spreads)

    for _ in range(steps):
        h = h - 0.5 * jax.grad(loss)(h)
    return h
