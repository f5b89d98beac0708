"""Log-densities for the hierarchical models, with closed-form scores."""
from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

HALF_LOG_2PI = 0.9189385332046727
LOG2 = 0.6931471805599453


def _log_cosh(t):
    a = jnp.abs(t)
    return a + jnp.log1p(jnp.exp(-2.0 * a)) - LOG2


@jax.custom_jvp
def sinh_arcsinh_logpdf(x, loc, scale, skew, tail):
    """Log-density of the Jones-Pewsey sinh-arcsinh distribution.

    With ``z = (x - loc)/scale`` the variable ``sinh(tail * asinh(z) - skew)`` is
    standard normal.

    Args:
      x: observations.
      loc: real.
      scale: positive.
      skew: real; 0 is symmetric, positive leans to the right.
      tail: positive; 1 with ``skew=0`` is the normal, below 1 has heavier tails.
      All broadcast against each other.

    Returns:
      Log-density in the broadcast shape.
    """
    z = (x - loc) / scale
    t = tail * jnp.arcsinh(z) - skew
    jac = jnp.log(tail / scale) + _log_cosh(t) - 0.5 * jnp.log1p(z * z)
    return jac - 0.5 * jnp.sinh(t) ** 2 - HALF_LOG_2PI


@sinh_arcsinh_logpdf.defjvp
def _sinh_arcsinh_jvp(primals, tangents):
    x, loc, scale, skew, tail = primals
    dx, dloc, dscale, dskew, dtail = tangents
    z = (x - loc) / scale
    a = jnp.arcsinh(z)
    t = tail * a - skew
    root2 = 1.0 + z * z
    d_t = jnp.tanh(t) - jnp.sinh(t) * jnp.cosh(t)
    d_z = d_t * tail / jnp.sqrt(root2) - z / root2
    out = sinh_arcsinh_logpdf(x, loc, scale, skew, tail)
    tangent = (
        d_z / scale * (dx - dloc)
        - (1.0 + d_z * z) / scale * dscale
        - d_t * dskew
        + (1.0 / tail + d_t * a) * dtail
    )
    return out, tangent


def _shifted_ranks(shift, first, last):
    ranks = jnp.arange(first, last + 1, dtype=shift.dtype)
    return ranks + shift[..., None]


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def zipf_mandelbrot_logpmf(rank, exponent, shift, last, first=1):
    """Log-probability of ranks under the Zipf-Mandelbrot law.

    ``P(r) = (r + shift)**-exponent / Z`` on the ranks ``first..last``.

    Args:
      rank: integer array with entries in ``first..last``.
      exponent, shift: float arrays of the shape of ``rank``; shift > -first.
      last: static, the size of the vocabulary.
      first: static, lowest rank kept. Use it where the stop words were removed,
        and the law is conditional on the rest.

    Returns:
      Log-probabilities in the shape of ``rank``. Differentiable in both parameters.
    """
    grid = jnp.log(_shifted_ranks(shift, first, last))
    log_z = logsumexp(-exponent[..., None] * grid, axis=-1)
    return -exponent * jnp.log(rank + shift) - log_z


def _zipf_fwd(rank, exponent, shift, last, first):
    out = zipf_mandelbrot_logpmf(rank, exponent, shift, last, first)
    return out, (rank, exponent, shift)


def _zipf_bwd(last, first, res, ct):
    rank, exponent, shift = res
    base = _shifted_ranks(shift, 1, last)
    grid = jnp.log(base)
    p = jax.nn.softmax(-exponent[..., None] * grid, axis=-1)
    d_exponent = ct * (jnp.sum(p * grid, axis=-1) - jnp.log(rank + shift))
    d_shift = ct * exponent * (jnp.sum(p / base, axis=-1) - 1.0 / (rank + shift))
    return None, d_exponent, d_shift


zipf_mandelbrot_logpmf.defvjp(_zipf_fwd, _zipf_bwd)


def _turn(u, v, rotation):
    if rotation in (90, 180):
        u = 1.0 - u
    if rotation in (180, 270):
        v = 1.0 - v
    return u, v


def _plackett_parts(u, v, theta):
    e = theta - 1.0
    top = 1.0 + e * (u + v - 2.0 * u * v)
    base = 1.0 + e * (u + v)
    return e, top, base, base**2 - 4.0 * theta * e * u * v


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def plackett_copula_logpdf(u, v, theta, rotation=0):
    u, v = _turn(u, v, rotation)
    _, top, _, disc = _plackett_parts(u, v, theta)
    return jnp.log(theta) + jnp.log(top) - 1.5 * jnp.log(disc)


def _plackett_fwd(u, v, theta, rotation):
    out = plackett_copula_logpdf(u, v, theta, rotation)
    return out, (*_turn(u, v, rotation), theta)


def _plackett_bwd(rotation, res, ct):
    u, v, theta = res
    e, top, base, disc = _plackett_parts(u, v, theta)
    d_u = ct * e * ((1.0 - 2.0 * v) / top - (3.0 * base - 6.0 * theta * v) / disc)
    d_v = ct * e * ((1.0 - 2.0 * u) / top - (3.0 * base - 6.0 * theta * u) / disc)
    spread = (u + v) * base - 2.0 * (2.0 * theta - 1.0) * u * v
    d_theta = ct * (1.0 / theta + (u + v - 2.0 * u * v) / top - 3.0 * spread / disc)
    return d_u, d_v, d_theta if jnp.ndim(theta) else d_theta.sum()


plackett_copula_logpdf.defvjp(_plackett_fwd, _plackett_bwd)


class PairCopula:
    """One edge of a vine."""

    def __init__(self, rotation=0):
        if rotation not in (0, 90, 180, 270):
            raise ValueError(rotation)
        self.rotation = rotation

    def logpdf(self, uv, theta):
        return plackett_copula_logpdf(uv[..., 0], uv[..., 1], theta, self.rotation)
