"""Matrix functions, structured solves and quadrature."""

from functools import partial
from typing import Any, Callable, Optional

import jax
import jax.numpy as jnp
import numpy as np


def _t(a):
    return jnp.swapaxes(a, -1, -2)


@jax.custom_jvp
def polar_orthogonal(a: jax.Array) -> jax.Array:
    """Orthonormal factor of the polar decomposition ``a = q @ p``.

    Args:
        a: matrices of shape ``(..., m, n)`` with ``m >= n`` and full column rank.

    Returns:
        ``q`` of the shape of ``a``, whose columns are orthonormal; it is the matrix
        with orthonormal columns that lies nearest to ``a``.
    """
    u, _, vt = jnp.linalg.svd(a, full_matrices=False)
    return u @ vt


@polar_orthogonal.defjvp
def _polar_orthogonal_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    inner = _t(u) @ da @ _t(vt)
    skew = (inner - _t(inner)) / (s[..., :, None] + s[..., None, :])
    return u @ vt, u @ skew @ vt


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def pseudo_inverse(a, rcond: Optional[float] = None):
    """Moore-Penrose inverse of real matrices.

    Singular values below ``rcond`` times the largest are treated as zero; the
    derivative is that at constant rank.

    :param a: array of shape ``(..., m, n)``
    :param rcond: relative cutoff; ``None`` takes ``10 * max(m, n) * eps``
    :returns: array of shape ``(..., n, m)``
    """
    if rcond is None:
        rcond = 10.0 * max(a.shape[-2:]) * float(jnp.finfo(a.dtype).eps)
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    keep = s > rcond * s[..., :1]
    inv = jnp.where(keep, 1.0 / jnp.where(keep, s, 1.0), 0.0)
    return (_t(vt) * inv[..., None, :]) @ _t(u)


@pseudo_inverse.defjvp
def _pseudo_inverse_jvp(rcond, primals, tangents):
    (a,), (da,) = primals, tangents
    p = pseudo_inverse(a, rcond)
    pt, dat = _t(p), _t(da)
    out = -p @ da @ p
    left = p @ (pt @ dat)
    out = out + left - (left @ a) @ p
    right = (dat @ pt) @ p
    out = out + right - p @ (a @ right)
    return p, out


@jax.custom_vjp
def circulant_solve(column, rhs):
    symbol = jnp.fft.fft(column)
    return jnp.fft.ifft(jnp.fft.fft(rhs, axis=-1) / symbol, axis=-1).real


def _circulant_solve_fwd(column, rhs):
    x = circulant_solve(column, rhs)
    return x, (column, x)


def _circulant_solve_bwd(res, g):
    column, x = res
    symbol = jnp.fft.fft(column)
    lam_hat = jnp.fft.fft(g, axis=-1) / jnp.conj(symbol)
    rhs_bar = jnp.fft.ifft(lam_hat, axis=-1).real
    cross = lam_hat * jnp.conj(jnp.fft.fft(x, axis=-1))
    column_bar = -jnp.fft.ifft(cross, axis=-1).real
    column_bar = column_bar.reshape(-1, column.shape[0]).sum(axis=0)
    return column_bar.astype(column.dtype), rhs_bar.astype(x.dtype)


circulant_solve.defvjp(_circulant_solve_fwd, _circulant_solve_bwd)


def make_quadrature(integrand: Callable[[Any, jax.Array], jax.Array], num_nodes: int = 32):
    """Build a definite integral with Gauss-Legendre nodes.

    Parameters
    ----------
    integrand : callable
        ``integrand(params, t)``, which maps an array of points to values of the
        same shape; ``params`` is any pytree of arrays.
    num_nodes : int
        How many nodes the rule takes.

    Returns
    -------
    callable
        ``integrate(params, lower, upper)``, a scalar that is differentiable in the
        parameters and in both limits. Memory of the reverse pass does not depend
        on what ``integrand`` saves.
    """
    points, weights = np.polynomial.legendre.leggauss(num_nodes)

    def _place(lower, upper):
        half = 0.5 * (upper - lower)
        return half, 0.5 * (upper + lower) + half * points

    @jax.custom_vjp
    def integrate(params, lower, upper):
        half, nodes = _place(lower, upper)
        return half * jnp.sum(weights * integrand(params, nodes))

    def fwd(params, lower, upper):
        return integrate(params, lower, upper), (params, lower, upper)

    def bwd(res, g):
        params, lower, upper = res
        _, nodes = _place(lower, upper)
        _, pull = jax.vjp(lambda p: jnp.sum(weights * integrand(p, nodes)), params)
        (params_bar,) = pull(g)
        return params_bar, -g * integrand(params, lower), g * integrand(params, upper)

    integrate.defvjp(fwd, bwd)
    return integrate
