"""Special functions that the transforms and the basis expansions rely on."""

import functools
import math

import jax
import jax.numpy as jnp
from jax.scipy.special import erfc, erfcx

_SERIES_TERMS = 18
_TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)


def _as_float(x):
    x = jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.result_type(float))


def _horner(coefficients, x):
    total = jnp.zeros_like(x)
    for c in reversed(coefficients):
        total = total * x + c
    return total


@jax.custom_jvp
def log_erfc(x):
    """Logarithm of the complementary error function, finite far into the right tail.

    Args:
        x: real array of any shape.

    Returns:
        ``log(erfc(x))`` with the shape of ``x``.
    """
    x = _as_float(x)
    right = x > 0
    xr = jnp.where(right, x, 1.0)
    xl = jnp.where(right, 0.0, x)
    return jnp.where(right, jnp.log(erfcx(xr)) - xr * xr, jnp.log(erfc(xl)))


@log_erfc.defjvp
def _log_erfc_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    right = x > 0
    xr = jnp.where(right, x, 1.0)
    xl = jnp.where(right, 0.0, x)
    slope = jnp.where(right, 1.0 / erfcx(xr), jnp.exp(-xl * xl) / erfc(xl))
    return log_erfc(x), -_TWO_OVER_SQRT_PI * slope * dx


def _exprel_slope(x):
    small = jnp.abs(x) < 1.0
    xs = jnp.where(small, x, 0.0)
    xb = jnp.where(small, 2.0, x)
    series = _horner([(k + 1) / math.factorial(k + 2) for k in range(_SERIES_TERMS)], xs)
    closed = (jnp.exp(xb) * (1.0 - 1.0 / xb) + 1.0 / xb) / xb
    return jnp.where(small, series, closed)


@jax.custom_jvp
def exprel(x):
    """Relative exponential ``(exp(x) - 1) / x``, continued by 1 at the origin."""
    x = _as_float(x)
    zero = x == 0
    safe = jnp.where(zero, 1.0, x)
    return jnp.where(zero, 1.0, jnp.expm1(safe) / safe)


@exprel.defjvp
def _exprel_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return exprel(x), _exprel_slope(x) * dx


_LOG_SINHC_SMALL = 0.5
_LOG_SINHC_LARGE = 15.0


@jax.custom_gradient
def log_sinhc(x):
    r"""Evaluate :math:`\log(\sinh(x) / x)`.

    The function is even, zero at the origin and grows like
    :math:`|x| - \log(2 |x|)`; it is the cumulant function of the uniform
    distribution on ``[-1, 1]``.

    :param x: real array of any shape and sign
    :returns: array like ``x``
    """
    mag = jnp.abs(x)
    small = mag < _LOG_SINHC_SMALL
    large = mag > _LOG_SINHC_LARGE
    x2 = jnp.where(small, x * x, 0.0)
    series = x2 * (1 / 6 + x2 * (-1 / 180 + x2 * (1 / 2835 + x2 * (-1 / 37800 + x2 / 467775))))
    mid = jnp.where(small | large, 1.0, mag)
    big = jnp.where(large, mag, 1.0)
    out = jnp.where(small, series, jnp.log(jnp.sinh(mid) / mid))
    out = jnp.where(large, big - jnp.log(2.0 * big), out)

    def pullback(g):
        xm = jnp.where(small | large, 1.0, x)
        slope = 1.0 / jnp.tanh(xm) - 1.0 / xm
        near = x * (1 / 3 + x2 * (-1 / 45 + x2 * (2 / 945 + x2 * (-1 / 4725 + x2 * 2 / 93555))))
        slope = jnp.where(small, near, slope)
        slope = jnp.where(large, 1.0 - 1.0 / big, slope)
        return (g * slope,)

    return out, pullback


def _hermite_table(n, x):
    rows = [math.pi ** -0.25 * jnp.exp(-0.5 * x * x)]
    previous = jnp.zeros_like(x)
    for k in range(n):
        following = math.sqrt(2.0 / (k + 1)) * x * rows[-1] - math.sqrt(k / (k + 1)) * previous
        previous = rows[-1]
        rows.append(following)
    return rows


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def hermite_function(n: int, x: jax.Array) -> jax.Array:
    """Normalised Hermite function of order ``n`` (an oscillator eigenstate).

    Parameters
    ----------
    n : int
        Order, at least zero.
    x : array
        Points at which the function is evaluated.

    Returns
    -------
    array
        Values with the shape of ``x``; the functions are orthonormal on the line.
    """
    if n < 0:
        raise ValueError("n must not be negative")
    return _hermite_table(n, _as_float(x))[n]


@hermite_function.defjvp
def _hermite_function_jvp(n, primals, tangents):
    (x,), (dx,) = primals, tangents
    slope = -math.sqrt((n + 1) / 2.0) * hermite_function(n + 1, x)
    if n:
        slope = slope + math.sqrt(n / 2.0) * hermite_function(n - 1, x)
    return hermite_function(n, x), slope * dx


@jax.custom_jvp
def yeo_johnson(x, lmbda):
    x, lmbda = jnp.broadcast_arrays(_as_float(x), _as_float(lmbda))
    reach = jnp.log1p(jnp.abs(x))
    power = jnp.where(x >= 0, lmbda, 2.0 - lmbda)
    return jnp.where(x >= 0, 1.0, -1.0) * reach * exprel(power * reach)


@yeo_johnson.defjvp
def _yeo_johnson_jvp(primals, tangents):
    x, lmbda = primals
    dx, dlmbda = tangents
    reach = jnp.log1p(jnp.abs(x))
    power = jnp.where(x >= 0, lmbda, 2.0 - lmbda)
    by_x = jnp.exp((power - 1.0) * reach)
    by_lmbda = reach * reach * _exprel_slope(power * reach)
    return yeo_johnson(x, lmbda), by_x * dx + by_lmbda * dlmbda
