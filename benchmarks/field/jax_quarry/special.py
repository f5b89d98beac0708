"""Special functions that jax.scipy does not have."""

from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e, i1e

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_SPAN = 14.0


def _sph_series(n, x, terms=40):
    term = x**n / prod(range(1, 2 * n + 2, 2))
    total = term
    h = -0.5 * x * x
    for k in range(1, terms):
        term = term * h / (k * (2 * n + 2 * k + 1))
        total = total + term
    return total


def _sph_upward(n, x):
    low = jnp.sin(x) / x
    if n == 0:
        return low
    high = (low - jnp.cos(x)) / x
    for k in range(1, n):
        low, high = high, (2 * k + 1) / x * high - low
    return high


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def spherical_jn(n: int, x):
    """Spherical Bessel function of the first kind.

    Parameters
    ----------
    n : int
        Order, static and not negative.
    x : array
        Real argument, of any sign.

    Returns
    -------
    array
        ``j_n(x)``, regular at the origin.
    """
    x = jnp.asarray(x)
    small = jnp.abs(x) < n + 1.0
    near = _sph_series(n, jnp.where(small, x, 0.0))
    far = _sph_upward(n, jnp.where(small, n + 1.0, x))
    return jnp.where(small, near, far)


@spherical_jn.defjvp
def _spherical_jn_jvp(n, primals, tangents):
    (x,), (dx,) = primals, tangents
    val = spherical_jn(n, x)
    if n == 0:
        return val, -spherical_jn(1, x) * dx
    der = (n * spherical_jn(n - 1, x) - (n + 1) * spherical_jn(n + 1, x)) / (2 * n + 1)
    return val, der * dx


def _legendre_pair(x, degree, order):
    """P_degree^order and P_(degree-1)^order, by the recurrence in the degree."""
    prev = jnp.zeros_like(x)
    cur = prod(range(1, 2 * order, 2)) * (1.0 - x * x) ** (0.5 * order)
    for l in range(order + 1, degree + 1):
        prev, cur = cur, ((2 * l - 1) * x * cur - (l + order - 1) * prev) / (l - order)
    return cur, prev


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def associated_legendre(x, degree: int, order: int = 0):
    """Associated Legendre function of the first kind on the cut, without the phase.

    Defined for ``-1 < x < 1`` and ``0 <= order <= degree``, both static.
    """
    return _legendre_pair(x, degree, order)[0]


@associated_legendre.defjvp
def _associated_legendre_jvp(degree, order, primals, tangents):
    (x,), (dx,) = primals, tangents
    cur, prev = _legendre_pair(x, degree, order)
    slope = degree * (x * cur - prev) / (x * x - 1.0)
    return cur, slope * dx


def _rice_mass(a, lo, hi):
    nodes = jnp.asarray(_NODES, a.dtype)
    weights = jnp.asarray(_WEIGHTS, a.dtype)
    half = 0.5 * (hi - lo)
    r = lo[..., None] + half[..., None] * (nodes + 1.0)
    a = a[..., None]
    f = r * jnp.exp(-0.5 * jnp.square(r - a)) * i0e(a * r)
    return half * jnp.sum(weights * f, axis=-1)


@jax.custom_jvp
def marcum_q1(a, b):
    """First-order Marcum Q: the chance that a Rice variable with offset ``a`` exceeds ``b``.

    Both arguments are non-negative and broadcast.
    """
    a, b = jnp.broadcast_arrays(jnp.abs(a), b)
    tail = _rice_mass(a, b, b + _SPAN)
    body = _rice_mass(a, jnp.maximum(b - _SPAN, 0.0), b)
    return jnp.where(b > a, tail, 1.0 - body)


@marcum_q1.defjvp
def _marcum_q1_jvp(primals, tangents):
    a, b = primals
    da, db = tangents
    edge = b * jnp.exp(-0.5 * jnp.square(jnp.abs(a) - b))
    return marcum_q1(a, b), edge * (i1e(a * b) * da - i0e(a * b) * db)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _boltzmann(x, temperature, axis):
    return jnp.sum(x * jax.nn.softmax(x / temperature, axis=axis), axis=axis)


@_boltzmann.defjvp
def _boltzmann_jvp(axis, primals, tangents):
    x, temperature = primals
    dx, dt = tangents
    p = jax.nn.softmax(x / temperature, axis=axis)
    val = jnp.sum(p * x, axis=axis)
    c = x - jnp.expand_dims(val, axis)
    along_x = jnp.sum(p * (1.0 + c) * dx, axis=axis)
    along_t = -jnp.sum(p * c * c, axis=axis) / temperature**2 * dt
    return val, along_x + along_t


def boltzmann_operator(x, temperature=1.0, *, axis=-1):
    """Smooth maximum of ``x`` along ``axis``: its mean under ``softmax(x / temperature)``.

    Tends to the maximum for small temperatures and to the mean for large ones. The
    temperature is a positive scalar and may be learned.
    """
    return _boltzmann(x, jnp.asarray(temperature, x.dtype), axis)
