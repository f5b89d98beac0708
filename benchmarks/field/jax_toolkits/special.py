"""Special functions that are not in ``jax.scipy.special``."""

from functools import partial
from math import factorial

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln

__all__ = [
    "langevin",
    "phi_function",
    "associated_laguerre",
    "logsubexp",
    "log_rising_factorial",
]

_LANGEVIN_SERIES = (
    1 / 3,
    -1 / 45,
    2 / 945,
    -1 / 4725,
    2 / 93555,
    -1382 / 638512875,
)


def _unbroadcast(ct, like):
    """Sum ``ct`` down to the shape of ``like``."""
    shape = jnp.shape(like)
    extra = jnp.ndim(ct) - len(shape)
    if extra:
        ct = jnp.sum(ct, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and ct.shape[i] != 1)
    if axes:
        ct = jnp.sum(ct, axis=axes, keepdims=True)
    return ct.astype(jnp.result_type(like))


@jax.custom_jvp
def langevin(x):
    """Langevin function ``coth(x) - 1/x``.

    Odd, increasing, with ``langevin(x) ~ x / 3`` around the origin and limits
    plus and minus one. A Taylor polynomial is used for ``|x| < 0.3``.
    """
    small = jnp.abs(x) < 0.3
    xs = jnp.where(small, x, 0.0)
    xl = jnp.where(small, 1.0, x)
    x2 = xs * xs
    poly = jnp.zeros_like(x2)
    for c in reversed(_LANGEVIN_SERIES):
        poly = poly * x2 + c
    return jnp.where(small, xs * poly, 1.0 / jnp.tanh(xl) - 1.0 / xl)


@langevin.defjvp
def _langevin_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    small = jnp.abs(x) < 0.3
    xs = jnp.where(small, x, 0.0)
    xl = jnp.where(small, 1.0, x)
    x2 = xs * xs
    poly = jnp.zeros_like(x2)
    for k in range(len(_LANGEVIN_SERIES) - 1, -1, -1):
        poly = poly * x2 + (2 * k + 1) * _LANGEVIN_SERIES[k]
    slope = jnp.where(small, poly, 1.0 / xl**2 - 1.0 / jnp.sinh(xl) ** 2)
    return langevin(x), slope * dx


def _phi(z, k):
    small = jnp.abs(z) < 1.0
    zs = jnp.where(small, z, 0.0)
    zl = jnp.where(small, 1.0, z)
    series = jnp.zeros_like(zs)
    for j in range(17, -1, -1):
        series = series * zs + 1.0 / factorial(j + k)
    direct = jnp.exp(zl)
    for j in range(k):
        direct = (direct - 1.0 / factorial(j)) / zl
    return jnp.where(small, series, direct)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def phi_function(z, order=1):
    r"""Phi functions of exponential integrators.

    .. math:: \varphi_k(z) = \sum_{j \ge 0} \frac{z^j}{(j + k)!}

    :param z: real array of any shape.
    :param order: ``k``, an integer of at least one.
    :returns: array of the shape of ``z``.
    """
    return _phi(z, order)


@phi_function.defjvp
def _phi_function_jvp(order, primals, tangents):
    (z,), (dz,) = primals, tangents
    value = _phi(z, order)
    return value, (value - _phi(z, order + 1)) * dz


def _laguerre_table(n, alpha, x):
    one = jnp.ones(jnp.broadcast_shapes(jnp.shape(alpha), jnp.shape(x)), jnp.result_type(alpha, x))
    table = [one]
    if n >= 1:
        table.append((1.0 + alpha - x) * one)
    for k in range(1, n):
        table.append(((2 * k + 1 + alpha - x) * table[k] - (k + alpha) * table[k - 1]) / (k + 1))
    return table


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def associated_laguerre(n: int, alpha: jax.Array, x: jax.Array) -> jax.Array:
    """Generalised Laguerre polynomial of degree ``n``.

    Parameters
    ----------
    n : int
        Degree, a Python integer.
    alpha : Array
        Order, real. Broadcasts against ``x``.
    x : Array
        Argument.

    Returns
    -------
    Array
        ``L_n^(alpha)(x)``.
    """
    return _laguerre_table(n, alpha, x)[n]


@associated_laguerre.defjvp
def _associated_laguerre_jvp(n, primals, tangents):
    alpha, x = primals
    dalpha, dx = tangents
    table = _laguerre_table(n, alpha, x)
    if n == 0:
        return table[0], jnp.zeros_like(table[0])
    by_x = -_laguerre_table(n - 1, alpha + 1.0, x)[n - 1]
    by_alpha = sum(table[k] / (n - k) for k in range(n))
    return table[n], by_alpha * dalpha + by_x * dx


@jax.custom_jvp
def logsubexp(a, b):
    d = b - a
    near = d > -0.6931472
    return a + jnp.where(
        near,
        jnp.log(-jnp.expm1(jnp.where(near, d, -0.5))),
        jnp.log1p(-jnp.exp(jnp.where(near, -1.0, d))),
    )


logsubexp.defjvps(
    lambda g, ans, a, b: g / -jnp.expm1(b - a),
    lambda g, ans, a, b: -g / jnp.expm1(a - b),
)


@jax.custom_gradient
def log_rising_factorial(x, m):
    """Logarithm of the Pochhammer symbol, ``lgamma(x + m) - lgamma(x)``.

    Args:
      x: positive array.
      m: positive array that broadcasts against ``x``; need not be whole.
    """
    value = gammaln(x + m) - gammaln(x)

    def grad(ct):
        top = digamma(x + m)
        return (
            _unbroadcast(ct * (top - digamma(x)), x),
            _unbroadcast(ct * (top - digamma(m)), m),
        )

    return value, grad
