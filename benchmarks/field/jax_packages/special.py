"""Special functions missing from, or inconvenient in, ``jax.scipy.special``."""

import numpy as np

import jax
import jax.numpy as jnp
from jax.scipy import special as jss

__all__ = ["log1mexp", "lbeta", "lambertw0", "log_i0e", "chebval", "owens_t", "ChebyshevSeries"]


@jax.custom_jvp
def log1mexp(x):
    """Evaluates ``log(1 - exp(-x))`` for positive ``x`` without cancellation."""
    small = x < 0.6931471805599453
    x_small = jnp.where(small, x, 0.5)
    x_large = jnp.where(small, 1.0, x)
    return jnp.where(small, jnp.log(-jnp.expm1(-x_small)), jnp.log1p(-jnp.exp(-x_large)))


@log1mexp.defjvp
def _log1mexp_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return log1mexp(x), dx / jnp.expm1(x)


@jax.custom_jvp
def lbeta(x, y):
    return jss.gammaln(x) + jss.gammaln(y) - jss.gammaln(x + y)


lbeta.defjvps(
    lambda dx, ans, x, y: dx * (jss.digamma(x) - jss.digamma(x + y)),
    lambda dy, ans, x, y: dy * (jss.digamma(y) - jss.digamma(x + y)),
)


def _lambert_start(z):
    p = jnp.sqrt(jnp.maximum(2.0 * (jnp.e * z + 1.0), 0.0))
    near_branch = -1.0 + p * (1.0 - p * (1.0 / 3.0 - p * 11.0 / 72.0))
    moderate = jnp.log1p(jnp.maximum(z, 0.0))
    log_z = jnp.log(jnp.maximum(z, 3.0))
    large = log_z - jnp.log(log_z)
    return jnp.where(z < 0.25, near_branch, jnp.where(z < 3.0, moderate, large))


@jax.custom_gradient
def lambertw0(z):
    """Principal branch of the Lambert W function.

    Parameters
    ----------
    z : array_like
        Real argument, ``z > -1/e``.

    Returns
    -------
    w : jax.Array
        The solution ``w >= -1`` of ``w * exp(w) = z``, of the shape of ``z``.
    """
    z = jnp.asarray(z)

    def halley(_, w):
        ew = jnp.exp(w)
        resid = w * ew - z
        wp1 = jnp.where(w == -1.0, 1.0, w + 1.0)
        denom = ew * wp1 - 0.5 * (w + 2.0) * resid / wp1
        return w - resid / denom

    w = jax.lax.fori_loop(0, 16, halley, _lambert_start(z))

    def grad(g):
        return g * jnp.exp(-w) / (1.0 + w)

    return w, grad


@jax.custom_gradient
def log_i0e(x):
    """Logarithm of the exponentially scaled modified Bessel function of order zero.

    ``log_i0e(x) = log(exp(-|x|) * I_0(x))`` for real ``x`` of any shape. The
    function is even in ``x``.
    """
    scaled = jss.i0e(x)

    def grad(g):
        ratio = jss.i1e(x) / scaled
        return g * (ratio - 1.0)

    return jnp.log(scaled), grad


def _clenshaw(coef, x):
    b1 = jnp.zeros_like(x)
    b2 = jnp.zeros_like(x)
    for c in coef[:0:-1]:
        b1, b2 = c + 2.0 * x * b1 - b2, b1
    return coef[0] + x * b1 - b2


def _chebder(coef):
    n = coef.shape[0]
    if n == 1:
        return jnp.zeros_like(coef)
    order = jnp.arange(1, n, dtype=coef.dtype)
    der = 2.0 * order * coef[1:]
    if n > 3:
        der = der.at[:-2].add(der[2:])
    return der.at[0].multiply(0.5)


@jax.custom_jvp
def chebval(coef, x):
    """Value of a Chebyshev series of the first kind.

    Parameters
    ----------
    coef : jax.Array, shape (n,)
        Coefficients, in order of increasing degree. Any ``n >= 1``.
    x : jax.Array
        Points at which to evaluate, any shape.
    """
    return _clenshaw(coef, x)


@chebval.defjvp
def _chebval_jvp(primals, tangents):
    coef, x = primals
    dcoef, dx = tangents
    slope = _clenshaw(_chebder(coef), x)
    return _clenshaw(coef, x), _clenshaw(dcoef, x) + slope * dx


class ChebyshevSeries:
    """A truncated Chebyshev expansion on an interval.

    Args:
      domain: pair ``(lo, hi)`` which is mapped to ``[-1, 1]``.
    """

    def __init__(self, domain=(-1.0, 1.0)):
        self.lo, self.hi = domain

    def __call__(self, params, x):
        unit = (2.0 * x - self.lo - self.hi) / (self.hi - self.lo)
        return chebval(params["coef"], unit)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


@jax.custom_jvp
def owens_t(h, a):
    """Owen's T function, by Gauss-Legendre quadrature in the angle ``arctan(a)``.

    :param h: real array
    :param a: real array, broadcastable against ``h``
    :returns: ``1/(2 pi) int_0^a exp(-h**2 (1 + t**2) / 2) / (1 + t**2) dt``
    """
    h, a = jnp.broadcast_arrays(jnp.asarray(h), jnp.asarray(a))
    top = jnp.arctan(a)[..., None]
    nodes = jnp.asarray(0.5 * (_NODES + 1.0), dtype=top.dtype)
    weights = jnp.asarray(0.5 * _WEIGHTS, dtype=top.dtype)
    sec2 = 1.0 + jnp.square(jnp.tan(top * nodes))
    integrand = jnp.exp(-0.5 * jnp.square(h)[..., None] * sec2)
    return top[..., 0] * (integrand @ weights) / (2.0 * jnp.pi)


def _owens_t_dh(dh, ans, h, a):
    phi = jnp.exp(-0.5 * h * h) / np.sqrt(2.0 * np.pi)
    return -0.5 * dh * phi * jss.erf(a * h / np.sqrt(2.0))


def _owens_t_da(da, ans, h, a):
    return da * jnp.exp(-0.5 * h * h * (1.0 + a * a)) / (2.0 * jnp.pi)


owens_t.defjvps(_owens_t_dh, _owens_t_da)
