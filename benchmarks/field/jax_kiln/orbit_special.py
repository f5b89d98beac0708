"""Scalar special functions and reparameterised quantiles with closed-form derivatives."""
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

_LN2 = math.log(2.0)
_TWO_PI = 2.0 * math.pi


def _clausen_coefficients(count=28):
    # |B_{2n}| / (2n (2n+1)!) = 2 zeta(2n) / ((2 pi)^{2n} 2n (2n+1)),  n = 1, 2, ...
    coeffs = []
    for n in range(1, count + 1):
        if n == 1:
            zeta = math.pi**2 / 6.0
        elif n == 2:
            zeta = math.pi**4 / 90.0
        elif n == 3:
            zeta = math.pi**6 / 945.0
        else:
            zeta = sum(k ** (-2.0 * n) for k in range(1, 400))
        coeffs.append(2.0 * zeta / (_TWO_PI ** (2 * n) * 2 * n * (2 * n + 1)))
    return coeffs


_CLAUSEN = _clausen_coefficients()


def _fold_angle(theta):
    return theta - _TWO_PI * jnp.round(theta / _TWO_PI)


@jax.custom_jvp
def clausen(theta):
    r"""Clausen integral of order two.

    .. math:: \mathrm{Cl}_2(\theta) = -\int_0^\theta \log|2 \sin(t/2)|\,dt

    :param theta: angle in radians, any real value.
    :returns: array of the shape of ``theta``.
    """
    folded = _fold_angle(theta)
    a = jnp.abs(folded)
    a2 = a * a
    series = jnp.zeros_like(a)
    for c in reversed(_CLAUSEN):
        series = (series + c) * a2
    safe = jnp.where(a > 0, a, 1.0)
    value = jnp.where(a > 0, a * (1.0 - jnp.log(safe) + series), 0.0)
    return jnp.sign(folded) * value


@clausen.defjvp
def _clausen_jvp(primals, tangents):
    (theta,), (theta_dot,) = primals, tangents
    folded = _fold_angle(theta)
    slope = -jnp.log(2.0 * jnp.sin(0.5 * jnp.abs(folded)))
    return clausen(theta), jnp.sign(folded) * slope * theta_dot


@jax.custom_jvp
def logaddexp2(x, y):
    """Base-two logarithm of ``2**x + 2**y``; accepts infinities of either sign."""
    top = jnp.maximum(x, y)
    gap = x - y
    return jnp.where(
        jnp.isnan(gap), x + y, top + jnp.log1p(jnp.exp2(-jnp.abs(gap))) / _LN2
    )


@logaddexp2.defjvp
def _logaddexp2_jvp(primals, tangents):
    x, y = primals
    dx, dy = tangents
    gap = x - y
    undefined = jnp.isnan(gap) & ~(jnp.isnan(x) | jnp.isnan(y))
    wx = jnp.where(undefined, 0.5, jax.nn.sigmoid(_LN2 * gap))
    wy = jnp.where(undefined, 0.5, jax.nn.sigmoid(-_LN2 * gap))
    return logaddexp2(x, y), wx * dx + wy * dy


def _stumpff_series(psi, first):
    total = jnp.zeros_like(psi)
    for k in range(11, -1, -1):
        total = total * psi + (-1.0) ** k / math.factorial(2 * k + first)
    return total


def _stumpff_series_slope(psi, first):
    total = jnp.zeros_like(psi)
    for k in range(11, 0, -1):
        total = total * psi + (-1.0) ** k * k / math.factorial(2 * k + first)
    return total


@jax.custom_jvp
def stumpff_pair(psi):
    near = jnp.abs(psi) < 1.0
    pos = jnp.where(psi >= 1.0, psi, 1.0)
    neg = jnp.where(psi <= -1.0, -psi, 1.0)
    rp, rn = jnp.sqrt(pos), jnp.sqrt(neg)
    small = jnp.where(near, psi, 0.0)
    c2 = jnp.where(psi > 0, (1.0 - jnp.cos(rp)) / pos, (jnp.cosh(rn) - 1.0) / neg)
    c3 = jnp.where(
        psi > 0, (rp - jnp.sin(rp)) / (pos * rp), (jnp.sinh(rn) - rn) / (neg * rn)
    )
    return (
        jnp.where(near, _stumpff_series(small, 2), c2),
        jnp.where(near, _stumpff_series(small, 3), c3),
    )


@stumpff_pair.defjvp
def _stumpff_pair_jvp(primals, tangents):
    (psi,), (dpsi,) = primals, tangents
    c2, c3 = stumpff_pair(psi)
    near = jnp.abs(psi) < 1.0
    small = jnp.where(near, psi, 0.0)
    far = jnp.where(near, 1.0, psi)
    d2 = jnp.where(
        near, _stumpff_series_slope(small, 2), (1.0 - psi * c3 - 2.0 * c2) / (2.0 * far)
    )
    d3 = jnp.where(near, _stumpff_series_slope(small, 3), (c2 - 3.0 * c3) / (2.0 * far))
    return (c2, c3), (d2 * dpsi, d3 * dpsi)


class LogisticMixture(NamedTuple):
    """Parameters of a mixture of logistic laws; components on the last axis."""

    logits: jax.Array
    loc: jax.Array
    log_scale: jax.Array


@jax.custom_jvp
def logistic_mixture_icdf(u, mixture: LogisticMixture):
    """Quantile of a logistic mixture by bisection.

    Args:
      u: probabilities strictly inside (0, 1), shape ``[...]``.
      mixture: parameters, each of shape ``[..., K]``.

    Returns:
      Quantiles of shape ``[...]``, differentiable in ``u`` and in the parameters.
    """
    weights = jax.nn.softmax(mixture.logits, axis=-1)
    scale = jnp.exp(mixture.log_scale)
    logit_u = jnp.log(u) - jnp.log1p(-u)
    own = mixture.loc + scale * logit_u[..., None]
    bracket = (own.min(axis=-1), own.max(axis=-1))

    def halve(_, lohi):
        lo, hi = lohi
        mid = 0.5 * (lo + hi)
        cdf = jnp.sum(weights * jax.nn.sigmoid((mid[..., None] - mixture.loc) / scale), axis=-1)
        below = cdf < u
        return jnp.where(below, mid, lo), jnp.where(below, hi, mid)

    lo, hi = lax.fori_loop(0, 70, halve, bracket)
    return 0.5 * (lo + hi)


@logistic_mixture_icdf.defjvp
def _logistic_mixture_icdf_jvp(primals, tangents):
    u, mix = primals
    du, dmix = tangents
    x = logistic_mixture_icdf(u, mix)
    weights = jax.nn.softmax(mix.logits, axis=-1)
    scale = jnp.exp(mix.log_scale)
    z = (x[..., None] - mix.loc) / scale
    cdf_k = jax.nn.sigmoid(z)
    pdf_k = weights * cdf_k * jax.nn.sigmoid(-z)
    cdf = jnp.sum(weights * cdf_k, axis=-1, keepdims=True)
    density = jnp.sum(pdf_k / scale, axis=-1)
    dcdf = jnp.sum(
        weights * (cdf_k - cdf) * dmix.logits
        - pdf_k / scale * dmix.loc
        - pdf_k * z * dmix.log_scale,
        axis=-1,
    )
    return x, (du - dcdf) / density


@jax.custom_jvp
def asymmetric_laplace_from_uniform(u, loc, scale, kappa):
    """Map uniform noise to an asymmetric Laplace variate.

    Parameters
    ----------
    u : array
        Noise in (0, 1).
    loc, scale, kappa : array
        Location, positive scale and positive asymmetry, broadcast against ``u``.

    Returns
    -------
    array
        ``loc + scale * kappa * log(u (1 + kappa^2) / kappa^2)`` under the threshold
        ``kappa^2 / (1 + kappa^2)`` and ``loc - scale / kappa * log((1 - u)(1 + kappa^2))``
        over it.
    """
    k2 = kappa * kappa
    left = kappa * jnp.log(u * (1.0 + k2) / k2)
    right = -jnp.log((1.0 - u) * (1.0 + k2)) / kappa
    return loc + scale * jnp.where(u * (1.0 + k2) < k2, left, right)


@asymmetric_laplace_from_uniform.defjvp
def _asymmetric_laplace_jvp(primals, tangents):
    u, loc, scale, kappa = primals
    du, dloc, dscale, dkappa = tangents
    k2 = kappa * kappa
    lower = u * (1.0 + k2) < k2
    log_l = jnp.log(u * (1.0 + k2) / k2)
    log_r = jnp.log((1.0 - u) * (1.0 + k2))
    standard = jnp.where(lower, kappa * log_l, -log_r / kappa)
    wrt_u = jnp.where(lower, kappa / u, 1.0 / (kappa * (1.0 - u)))
    wrt_kappa = jnp.where(lower, log_l - 2.0 / (1.0 + k2), log_r / k2)
    out = loc + scale * standard
    return out, dloc + standard * dscale + scale * (wrt_u * du + wrt_kappa * dkappa)
