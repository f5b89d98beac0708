"""Linear operators, matrix equations, order statistics and inner solvers."""
import functools
import math
from typing import Any, Callable, Optional

import jax
import jax.numpy as jnp
from jax import lax


class FiniteDifference:
    """Forward difference along one axis, with an explicit adjoint.

    Args:
        axis: Axis along which differences are taken.
        spacing: Distance between neighbouring samples.
        boundary: ``"circular"`` wraps around, ``"neumann"`` sets the
            difference at the last sample to zero. The output has the shape of
            the input in both cases.
    """

    def __init__(self, axis: int = -1, spacing: float = 1.0, boundary: str = "circular"):
        if boundary not in ("circular", "neumann"):
            raise ValueError(f"unknown boundary {boundary!r}")
        self.axis = axis
        self.spacing = spacing
        self.boundary = boundary
        self._eval = jax.custom_vjp(self._forward)
        self._eval.defvjp(
            lambda x: (self._forward(x), None),
            lambda _, y: (self.adjoint(y),),
        )

    def _last(self, x):
        shape = [1] * x.ndim
        n = x.shape[self.axis]
        shape[self.axis] = n
        return (jnp.arange(n) == n - 1).reshape(shape)

    def _forward(self, x):
        d = (jnp.roll(x, -1, axis=self.axis) - x) / self.spacing
        if self.boundary == "neumann":
            d = jnp.where(self._last(x), 0.0, d)
        return d

    def adjoint(self, y):
        """Backward difference under the conditions of the boundary."""
        before = jnp.roll(y, 1, axis=self.axis)
        if self.boundary == "neumann":
            first = jnp.roll(self._last(y), 1, axis=self.axis)
            before = jnp.where(first, 0.0, before)
        return (before - y) / self.spacing

    def apply(self, x: jax.Array) -> jax.Array:
        return self._eval(x)

    __call__ = apply


def _kron_sylvester(a, b, q):
    m, n = q.shape
    big = jnp.kron(a, jnp.eye(n, dtype=a.dtype)) + jnp.kron(jnp.eye(m, dtype=b.dtype), b.T)
    return jnp.linalg.solve(big, q.reshape(-1)).reshape(m, n)


@jax.custom_vjp
def sylvester_solve(a: jax.Array, b: jax.Array, q: jax.Array) -> jax.Array:
    """Solve the Sylvester equation ``a x + x b = q`` for real matrices.

    :param a: matrix of shape ``(m, m)``
    :param b: matrix of shape ``(n, n)``; ``a`` and ``-b`` share no eigenvalue
    :param q: right side of shape ``(m, n)``
    :returns: the solution, of shape ``(m, n)``
    """
    return _kron_sylvester(a, b, q)


def _sylvester_fwd(a, b, q):
    x = _kron_sylvester(a, b, q)
    return x, (a, b, x)


def _sylvester_bwd(res, g):
    a, b, x = res
    y = _kron_sylvester(a.T, b, g)
    return -y @ x.T, -x.T @ y, y


sylvester_solve.defvjp(_sylvester_fwd, _sylvester_bwd)


def _quantile_stencil(n, q, interpolation):
    position = q * (n - 1)
    lower = min(max(math.floor(position), 0), n - 1)
    upper = min(max(math.ceil(position), 0), n - 1)
    if interpolation == "lower":
        return lower, lower, 0.0
    if interpolation == "higher":
        return upper, upper, 0.0
    if interpolation == "midpoint":
        return lower, upper, 0.5
    if interpolation == "linear":
        return lower, upper, position - lower
    raise ValueError(f"unknown interpolation {interpolation!r}")


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def quantile_along(x, q: float, axis: int = -1, interpolation: str = "linear"):
    """Sample quantile of ``x`` along ``axis`` for one level ``q`` in [0, 1].

    ``interpolation`` is "linear", "lower", "higher" or "midpoint".
    """
    lower, upper, t = _quantile_stencil(x.shape[axis], q, interpolation)
    s = jnp.sort(x, axis=axis)
    return (1.0 - t) * jnp.take(s, lower, axis=axis) + t * jnp.take(s, upper, axis=axis)


@quantile_along.defjvp
def _quantile_along_jvp(q, axis, interpolation, primals, tangents):
    (x,), (dx,) = primals, tangents
    lower, upper, t = _quantile_stencil(x.shape[axis], q, interpolation)
    order = jnp.argsort(x, axis=axis)
    s = jnp.take_along_axis(x, order, axis=axis)
    ds = jnp.take_along_axis(dx, order, axis=axis)

    def mix(v):
        return (1.0 - t) * jnp.take(v, lower, axis=axis) + t * jnp.take(v, upper, axis=axis)

    return mix(s), mix(ds)


def make_posterior_mode(
    log_density: Callable[[jax.Array, Any], jax.Array],
    max_iter: int = 50,
    tol: Optional[float] = None,
):
    """Build a function that finds the mode of a smooth log-concave density.

    Args:
      log_density: ``log_density(theta, params)``, a scalar, strictly concave in
        the vector ``theta``. ``params`` may be any pytree.
      max_iter: Most Newton steps taken.
      tol: Length of a step, relative to one plus that of ``theta``, at which
        the iteration ends. By default it follows from the precision.

    Returns:
      ``mode(params, theta0)``. It is differentiable in ``params`` by the
      implicit function theorem; the starting point has no influence.
    """

    def newton(f, theta0):
        limit = float(jnp.finfo(theta0.dtype).eps) ** (2.0 / 3.0) if tol is None else tol
        jac = jax.jacfwd(f)

        def cond(state):
            theta, step, i = state
            size = jnp.linalg.norm(step)
            return (i < max_iter) & (size > limit * (1.0 + jnp.linalg.norm(theta)))

        def body(state):
            theta, _, i = state
            step = jnp.linalg.solve(jac(theta), f(theta))
            return theta - step, step, i + 1

        start = (theta0, jnp.full_like(theta0, jnp.inf), 0)
        theta, _, _ = lax.while_loop(cond, body, start)
        return theta

    def tangent_solve(g, y):
        return jnp.linalg.solve(jax.jacobian(g)(y), y)

    def mode(params, theta0):
        def score(theta):
            return jax.grad(log_density)(theta, params)

        return lax.custom_root(score, theta0, newton, tangent_solve)

    return mode
