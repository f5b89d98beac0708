"""Pricing helpers for excess-of-loss reinsurance.

Amounts are in millions of the treaty currency.
"""

import jax
import jax.numpy as jnp
from jax import Array


# --------------------------------------------------------------------------- #
# From simulated events to a layer's annual result                            #
# --------------------------------------------------------------------------- #

@jax.custom_vjp
def layer_recoveries(losses, happened, attachment, limit, annual):
    """Recoveries of several layers from simulated years.

    losses      (Y, E)  event losses, E slots per year
    happened    (Y, E)  booleans, False for an empty slot
    attachment  (L,)
    limit       (L,)    per event
    annual      (L,)    cap on the layer's year, may be inf; a cap just reached counts as reached

    Returns (Y, L).
    """
    return jnp.minimum(_year(losses, happened, attachment, limit), annual)


def _year(losses, happened, attachment, limit):
    hit = jnp.clip(losses[:, :, None] - attachment, 0.0, limit)
    return (hit * happened[:, :, None]).sum(1)


def _lr_fwd(losses, happened, attachment, limit, annual):
    year = _year(losses, happened, attachment, limit)
    return jnp.minimum(year, annual), (losses, happened, attachment, limit, annual, year)


def _lr_bwd(saved, g):
    losses, happened, attachment, limit, annual, year = saved
    open_year = year < annual
    over = losses[:, :, None] - attachment
    live = happened[:, :, None]
    within = live & (over > 0) & (over < limit)
    gone = live & (over >= limit)
    g_year = jnp.where(open_year, g, 0.0)[:, None, :]
    through = jnp.where(within, g_year, 0.0)
    return (through.sum(-1), None, -through.sum((0, 1)),
            jnp.where(gone, g_year, 0.0).sum((0, 1)),
            jnp.where(open_year, 0.0, g).sum(0))


layer_recoveries.defvjp(_lr_fwd, _lr_bwd)


# --------------------------------------------------------------------------- #
# Stability clause                                                            #
# --------------------------------------------------------------------------- #

@jax.custom_jvp
def indexed_recovery(payments: Array, index: Array, retention: Array, cover: Array) -> Array:
    """Recovery on long-tail claims under a full stability clause.

    A bodily injury claim is paid over many years. Retention and cover are both
    multiplied by (sum of payments) / (sum of payments deflated by the index), so that the reinsurer
    does not carry the whole of the inflation.

    payments: claims x years.  index: years, 1 at inception.  retention, cover: one number or one
    per claim. Returns one recovery per claim.
    """
    total = payments.sum(-1)
    ratio = total / (payments / index).sum(-1)
    return jnp.clip(total - retention * ratio, 0.0, cover * ratio)


@indexed_recovery.defjvp
def _indexed_jvp(primals, tangents):
    payments, index, retention, cover = primals
    d_payments, d_index, d_retention, d_cover = tangents
    total = payments.sum(-1)
    real = (payments / index).sum(-1)
    ratio = total / real
    d_total = d_payments.sum(-1)
    d_real = (d_payments / index - payments * d_index / index ** 2).sum(-1)
    d_ratio = d_total / real - ratio * d_real / real
    above = total - retention * ratio
    top = cover * ratio
    d_in = d_total - d_retention * ratio - retention * d_ratio
    tangent = jnp.where(above <= 0, 0.0, jnp.where(above < top, d_in, ratio * d_cover))
    return jnp.clip(above, 0.0, top), tangent


# --------------------------------------------------------------------------- #
# Pareto severity                                                             #
# --------------------------------------------------------------------------- #

_SERIES = 12
_SMALL = 0.3


def _exp_moments(k, a, b):
    """Integrals over a..b of exp(k u) and of u exp(k u); any k, zero included."""
    flat = jnp.abs(k) * jnp.maximum(jnp.abs(a), jnp.abs(b)) < _SMALL
    ks = jnp.where(flat, 1.0, k)
    ea, eb = jnp.exp(ks * a), jnp.exp(ks * b)
    m0 = (eb - ea) / ks
    m1 = (b * eb - a * ea) / ks - m0 / ks
    s0 = s1 = 0.0
    term = 1.0
    for n in range(_SERIES):
        s0 = s0 + term * (b ** (n + 1) - a ** (n + 1)) / (n + 1)
        s1 = s1 + term * (b ** (n + 2) - a ** (n + 2)) / (n + 2)
        term = term * k / (n + 1)
    return jnp.where(flat, s0, m0), jnp.where(flat, s1, m1)


def _logs(threshold, attachment, limit):
    low = jnp.maximum(attachment, threshold)
    high = jnp.maximum(attachment + limit, threshold)
    return jnp.log(low / threshold), jnp.log(high / threshold)


@jax.custom_jvp
def pareto_layer_mean(shape, threshold, attachment, limit):
    """Expected loss to the layer `limit` xs `attachment` of one Pareto claim.

    Claims exceed `threshold` for certain and x with probability
    (threshold/x)**shape beyond. The layer may lie above the threshold, straddle it or
    lie below. Works for shape 1, at which the textbook formula is 0/0.
    """
    a, b = _logs(threshold, attachment, limit)
    certain = jnp.clip(threshold - attachment, 0.0, limit)
    return certain + threshold * _exp_moments(1.0 - shape, a, b)[0]


@pareto_layer_mean.defjvp
def _plm_jvp(primals, tangents):
    shape, threshold, attachment, limit = primals
    d_shape, d_threshold, d_attachment, d_limit = tangents
    a, b = _logs(threshold, attachment, limit)
    m0, m1 = _exp_moments(1.0 - shape, a, b)
    surv_low, surv_high = jnp.exp(-shape * a), jnp.exp(-shape * b)
    value = jnp.clip(threshold - attachment, 0.0, limit) + threshold * m0
    tangent = (-threshold * m1 * d_shape
               + shape * m0 * d_threshold
               + (surv_high - surv_low) * d_attachment
               + surv_high * d_limit)
    return value, tangent


class Programme:
    """A tower of layers quoted on one simulated event set."""

    def __init__(self, attachment, limit, annual=None):
        self.attachment = jnp.asarray(attachment)
        self.limit = jnp.asarray(limit)
        self.annual = jnp.full_like(self.limit, jnp.inf) if annual is None else jnp.asarray(annual)

    def burning_cost(self, losses, happened):
        return layer_recoveries(losses, happened, self.attachment, self.limit, self.annual).mean(0)

    def rate_on_line(self, shape, threshold, frequency):
        return frequency * pareto_layer_mean(shape, threshold, self.attachment, self.limit) / self.limit
