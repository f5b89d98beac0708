"""Differentiable model of a potato grading line.

Camera features are quantised for the edge device and graded into ordered quality classes; the line's
drops are tuned so that tubers are not bruised.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr

THOMSEN = 1.6075
G = 9.81


# Feature quantiser ----------------------------------------------------------

def _range(bits, signed):
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2 ** bits - 1)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def coarse_features(x, step, bits=4, signed=True):
    """Fake-quantise features (..., C) with a learned step per channel (C,).

    The gradient is deliberately not that of the staircase: rounding is passed straight through
    (as if round(v) were v with slope one) for x and, as in learned step size
    quantisation, for the step too; values beyond the range pass nothing to x.
    """
    lo, hi = _range(bits, signed)
    return jnp.clip(jnp.round(x / step), lo, hi) * step


def _coarse_fwd(x, step, bits, signed):
    return coarse_features(x, step, bits, signed), (x, step)


def _coarse_bwd(bits, signed, saved, g):
    x, step = saved
    lo, hi = _range(bits, signed)
    v = x / step
    inside = (v >= lo) & (v <= hi)
    level = jnp.clip(jnp.round(v), lo, hi)
    d_step = g * jnp.where(inside, level - v, level)
    return jnp.where(inside, g, 0.0), d_step.reshape(-1, step.shape[0]).sum(0)


coarse_features.defvjp(_coarse_fwd, _coarse_bwd)


# Ordered classes ------------------------------------------------------------

def _cdf(z, link):
    if link == "logit":
        return jax.nn.sigmoid(z)
    if link == "probit":
        return ndtr(z)
    if link == "cloglog":
        return -jnp.expm1(-jnp.exp(z))
    raise ValueError(link)


def _pdf(z, link):
    if link == "logit":
        p = jax.nn.sigmoid(z)
        return p * (1 - p)
    if link == "probit":
        return jnp.exp(-0.5 * z * z) / jnp.sqrt(2 * jnp.pi)
    return jnp.exp(z - jnp.exp(z))


def _class_prob(score, cuts, grade, link):
    below = _cdf(cuts[None] - score[:, None], link)
    edge = jnp.zeros_like(score)[:, None]
    cum = jnp.concatenate([edge, below, edge + 1], 1)
    rows = jnp.arange(score.shape[0])
    return cum[rows, grade + 1] - cum[rows, grade]


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def ordinal_grade_nll(score, cuts, grade, link="logit"):
    """Mean negative log-likelihood of a cumulative-link model.

    Args:
        score: (N,) roughness of each tuber.
        cuts: (K-1,) increasing cut points.
        grade: (N,) integers 0..K-1.
        link: distribution of the grader's noise; P(grade <= k) = F(cuts[k] - score) with F
            the logistic ("logit"), normal ("probit") or Gompertz ("cloglog") distribution.
    """
    return -jnp.log(jnp.maximum(_class_prob(score, cuts, grade, link), 1e-12)).mean()


def _grade_fwd(score, cuts, grade, link):
    p = jnp.maximum(_class_prob(score, cuts, grade, link), 1e-12)
    return -jnp.log(p).mean(), (score, cuts, grade, p)


def _grade_bwd(link, saved, g):
    score, cuts, grade, p = saved
    n, k = score.shape[0], cuts.shape[0]
    margin = score[:, None] - cuts[None]
    dens = _pdf(margin, link)
    cols = jnp.arange(k)[None]
    # upper cut of the tuber's class counts plus, lower one minus
    side = (cols == grade[:, None]).astype(dens.dtype) - (cols == grade[:, None] - 1)
    d_z = -g / n / p[:, None] * side * dens
    return -d_z.sum(1), d_z.sum(0), None


ordinal_grade_nll.defvjp(_grade_fwd, _grade_bwd)


# Skin -----------------------------------------------------------------------

@jax.custom_gradient
def peel_area(axes):
    """Skin of ellipsoidal tubers by Thomsen's formula, cm2.

    axes (..., 3) are the half axes in cm: length, width, thickness.
    """
    p = THOMSEN
    ap = axes ** p
    pairs = ap * jnp.roll(ap, 1, axis=-1)
    mean = pairs.sum(-1) / 3
    area = 4 * jnp.pi * mean ** (1 / p)

    def grad(ct):
        others = jnp.roll(ap, 1, axis=-1) + jnp.roll(ap, -2, axis=-1)
        scale = ct * area / (3 * mean)
        return scale[..., None] * others * axes ** (p - 1)

    return area, grad


# Drops ----------------------------------------------------------------------

@partial(jax.custom_vjp, nondiff_argnums=(4,))
def drop_damage(mass, height, tolerance, rebound, order=1.5):
    """Bruising of tubers that fall from belt to belt.

    mass (N,) kg; height (S,) m, tolerance (S,) J and rebound (S,) restitution, one per
    transfer (padded transfers tolerate more than bare steel).
    Returns the dose (N,), summed over the transfers, of energy beyond the tolerance to the
    power `order`, and the largest absorbed energy (N,) of any transfer, which the
    logger in the dummy tuber would report.
    """
    energy = _absorbed(mass, height, rebound)
    return (jnp.maximum(energy - tolerance, 0.0) ** order).sum(1), energy.max(1)


def _absorbed(mass, height, rebound):
    return G * mass[:, None] * height * (1 - rebound ** 2)


def _drop_fwd(mass, height, tolerance, rebound, order):
    out = drop_damage(mass, height, tolerance, rebound, order)
    return out, (mass, height, tolerance, rebound)


def _drop_bwd(order, saved, cts):
    mass, height, tolerance, rebound = saved
    g_dose, g_peak = cts
    excess = _absorbed(mass, height, rebound) - tolerance
    hurt = excess > 0
    d_excess = g_dose[:, None] * order * jnp.where(hurt, excess, 0.0) ** (order - 1) * hurt
    worst = jax.nn.one_hot(excess.argmax(1), height.shape[0], dtype=excess.dtype)
    d_energy = d_excess + g_peak[:, None] * worst
    loss = 1 - rebound ** 2
    return (G * (d_energy * height * loss).sum(1),
            G * (d_energy * mass[:, None]).sum(0) * loss,
            -d_excess.sum(0),
            -2 * G * rebound * height * (d_energy * mass[:, None]).sum(0))


drop_damage.defvjp(_drop_fwd, _drop_bwd)


class GraderHead:
    """Linear scorer on coarse features."""

    def __init__(self, channels, grades, link="logit"):
        self.link = link
        self.params = {"w": jnp.zeros(channels), "step": jnp.full(channels, 0.1),
                       "cuts": jnp.linspace(-1.0, 1.0, grades - 1)}

    def loss(self, params, features, grade):
        score = coarse_features(features, params["step"]) @ params["w"]
        return ordinal_grade_nll(score, params["cuts"], grade, self.link)
