"""Special functions, quantile functions and cumulative reductions."""
from functools import partial
from typing import Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri

__all__ = [
    "jacobi_polynomial",
    "voigt_profile",
    "two_piece_normal_from_uniform",
    "cumulative_logsumexp",
]

_SQRT_PI = float(np.sqrt(np.pi))
_SQRT_2PI = float(np.sqrt(2.0 * np.pi))


def _jacobi_recurrence(x, n, a, b):
    if n < 0:
        return jnp.zeros_like(x)
    prev = jnp.ones_like(x)
    if n == 0:
        return prev
    cur = (a + 1.0) + 0.5 * (a + b + 2.0) * (x - 1.0)
    for k in range(2, n + 1):
        s = 2.0 * k + a + b
        c0 = 2.0 * k * (k + a + b) * (s - 2.0)
        c1 = (s - 1.0) * s * (s - 2.0)
        c2 = (s - 1.0) * (a * a - b * b)
        c3 = 2.0 * (k + a - 1.0) * (k + b - 1.0) * s
        prev, cur = cur, ((c1 * x + c2) * cur - c3 * prev) / c0
    return cur


@partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3, 4))
def jacobi_polynomial(
    x: jax.Array, n: int, alpha: float = 0.0, beta: float = 0.0, order: int = 0
) -> jax.Array:
    r"""Jacobi polynomial :math:`P_n^{(\alpha, \beta)}(x)` or one of its derivatives.

    Parameters
    ----------
    x : jax.Array
        Points in [-1, 1].
    n : int
        Degree.
    alpha, beta : float
        Weights, both greater than -1.
    order : int
        Order of the derivative with respect to ``x`` that is returned. The
        default, 0, is the polynomial itself.

    Returns
    -------
    jax.Array
        Values of the same shape as ``x``.
    """
    scale = 1.0
    for j in range(order):
        scale *= 0.5 * (n + alpha + beta + 1.0 + j)
    return scale * _jacobi_recurrence(x, n - order, alpha + order, beta + order)


@jacobi_polynomial.defjvp
def _jacobi_polynomial_jvp(n, alpha, beta, order, primals, tangents):
    (x,), (dx,) = primals, tangents
    y = jacobi_polynomial(x, n, alpha, beta, order)
    slope = 0.5 * (n + alpha + beta + 1.0) * jacobi_polynomial(x, n - 1, alpha + 1.0, beta + 1.0)
    return y, slope * dx


def _weideman_coefficients(n):
    m = 2 * n
    m2 = 2 * m
    k = np.arange(-m + 1, m)
    scale = np.sqrt(n / np.sqrt(2.0))
    t = scale * np.tan(0.5 * k * np.pi / m)
    f = np.concatenate([[0.0], np.exp(-t * t) * (scale**2 + t * t)])
    a = np.real(np.fft.fft(np.fft.fftshift(f))) / m2
    return scale, a[1 : n + 1][::-1].copy()


_W_SCALE, _W_COEF = _weideman_coefficients(40)
_FAR = 10.0


def _faddeeva_and_slope(z):
    """w(z) and w'(z) in the closed upper half plane."""
    far = jnp.abs(z) > _FAR
    zn = jnp.where(far, 1.0, z)
    zf = jnp.where(far, z, _FAR)

    den = _W_SCALE - 1j * zn
    p = jnp.polyval(jnp.asarray(_W_COEF, dtype=zn.real.dtype), (_W_SCALE + 1j * zn) / den)
    w_near = 2.0 * p / den**2 + (1.0 / _SQRT_PI) / den
    dw_near = -2.0 * zn * w_near + 2j / _SQRT_PI

    inv = 1.0 / zf
    inv2 = inv * inv
    term = jnp.ones_like(zf)
    w_far = term
    dw_far = term
    for j in range(1, 11):
        term = term * (2 * j - 1) * 0.5 * inv2
        w_far = w_far + term
        dw_far = dw_far + (2 * j + 1) * term
    w_far = 1j / _SQRT_PI * inv * w_far
    dw_far = -1j / _SQRT_PI * inv2 * dw_far
    return jnp.where(far, w_far, w_near), jnp.where(far, dw_far, dw_near)


@jax.custom_jvp
def voigt_profile(x, sigma, gamma):
    """Voigt line profile, normalised to unit area.

    Args:
      x: Distance from the centre of the line.
      sigma: Standard deviation of the Gaussian part, positive.
      gamma: Half width at half maximum of the Lorentzian part, not negative.

    Returns:
      The profile, broadcast over the three arguments.
    """
    z = (x + 1j * gamma) / (sigma * np.sqrt(2.0).item())
    w, _ = _faddeeva_and_slope(z)
    return w.real / (sigma * _SQRT_2PI)


@voigt_profile.defjvp
def _voigt_profile_jvp(primals, tangents):
    x, sigma, gamma = primals
    dx, dsigma, dgamma = tangents
    width = sigma * np.sqrt(2.0).item()
    z = (x + 1j * gamma) / width
    w, dw = _faddeeva_and_slope(z)
    norm = sigma * _SQRT_2PI
    value = w.real / norm
    from_x = dw.real / (norm * width) * dx
    from_gamma = -dw.imag / (norm * width) * dgamma
    from_sigma = -(value + (z * dw).real / norm) / sigma * dsigma
    return value, from_x + from_gamma + from_sigma


def _normal_pdf(z):
    return jnp.exp(-0.5 * z * z) / _SQRT_2PI


@jax.custom_gradient
def _two_piece_icdf(u, s):
    s2 = s * s
    left = u * (1.0 + s2) < s2
    z_left = ndtri(jnp.minimum(0.5 * u * (1.0 + s2) / s2, 0.5))
    z_right = ndtri(jnp.minimum(0.5 * (1.0 - u) * (1.0 + s2), 0.5))
    x = jnp.where(left, s * z_left, -z_right / s)

    def grad(g):
        z = jnp.where(left, z_left, z_right)
        pdf = _normal_pdf(z)
        du = 0.5 * (1.0 + s2) / (s * pdf)
        ds = jnp.where(left, z - u / (s2 * pdf), z / s2 - (1.0 - u) / pdf)
        return g * du, g * ds

    return x, grad


def two_piece_normal_from_uniform(u, skewness, loc=0.0, scale=1.0):
    """Quantile transform of the two-piece normal distribution.

    The density has scale ``scale * skewness`` below ``loc`` and scale
    ``scale / skewness`` above it; uniform ``u`` are carried to samples, with
    reparameterised gradients in every argument.
    """
    u, skewness = jnp.broadcast_arrays(jnp.asarray(u), jnp.asarray(skewness))
    return loc + scale * _two_piece_icdf(u, skewness)


def _running_logsumexp(x, axis, reverse):
    return jax.lax.cumlogsumexp(x, axis=axis % x.ndim, reverse=reverse)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def cumulative_logsumexp(x, axis=-1, reverse=False):
    return _running_logsumexp(x, axis, reverse)


def _cumulative_logsumexp_fwd(x, axis, reverse):
    y = _running_logsumexp(x, axis, reverse)
    return y, (x, y)


def _cumulative_logsumexp_bwd(axis, reverse, res: Tuple[jax.Array, jax.Array], g):
    x, y = res
    share = g * jnp.exp(x - y)
    return (jax.lax.cumsum(share, axis=axis % x.ndim, reverse=not reverse),)


cumulative_logsumexp.defvjp(_cumulative_logsumexp_fwd, _cumulative_logsumexp_bwd)
