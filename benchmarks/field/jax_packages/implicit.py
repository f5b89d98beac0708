"""Solvers that are differentiated through their solution, not their iterations."""

from typing import Callable, Optional

import jax
import jax.numpy as jnp
from jax import lax


@jax.custom_vjp
def linear_solve(a, b):
    return jnp.linalg.solve(a, b)


def _linear_solve_fwd(a, b):
    x = jnp.linalg.solve(a, b)
    return x, (a, x)


def _linear_solve_bwd(res, g):
    a, x = res
    gb = jnp.linalg.solve(a, g)
    ga = -jnp.outer(gb, x) if x.ndim == 1 else -gb @ x.T
    return ga, gb


linear_solve.defvjp(_linear_solve_fwd, _linear_solve_bwd)


def _tree_gap(a, b):
    gaps = [jnp.max(jnp.abs(u - v)) for u, v in zip(jax.tree.leaves(a), jax.tree.leaves(b))]
    return jnp.max(jnp.stack(gaps))


def _iterate(step, x0, tol, max_iter):
    if tol is None:
        tol = 8.0 * max(float(jnp.finfo(x.dtype).eps) for x in jax.tree.leaves(x0))

    def cond(state):
        i, prev, cur = state
        return (i < max_iter) & (_tree_gap(prev, cur) > tol)

    def body(state):
        i, _, cur = state
        return i + 1, cur, step(cur)

    return lax.while_loop(cond, body, (1, x0, step(x0)))[2]


def make_fixed_point(f: Callable, *, tol: Optional[float] = None, max_iter: int = 2000) -> Callable:
    """Makes a solver of ``x = f(params, x)``.

    Args:
      f: a contraction in its second argument. Both arguments may be pytrees.
      tol: largest change of an entry at which to stop, a few ulps if ``None``.
      max_iter: most iterations, forwards and backwards.

    Returns:
      ``solve(params, x0)``. The solution does not depend on the guess ``x0``.
    """

    @jax.custom_vjp
    def solve(params, x0):
        return _iterate(lambda x: f(params, x), x0, tol, max_iter)

    def solve_fwd(params, x0):
        x = solve(params, x0)
        return x, (params, x)

    def solve_bwd(res, g):
        params, x = res
        _, pull_x = jax.vjp(lambda x_: f(params, x_), x)
        _, pull_params = jax.vjp(lambda p: f(p, x), params)
        u = _iterate(
            lambda u_: jax.tree.map(jnp.add, g, pull_x(u_)[0]), g, tol, max_iter
        )
        return pull_params(u)[0], jax.tree.map(jnp.zeros_like, x)

    solve.defvjp(solve_fwd, solve_bwd)
    return solve


def _combine(left, right):
    a_l, b_l = left
    a_r, b_r = right
    return a_l * a_r, a_r * b_l + b_r


@jax.custom_vjp
def _recurrence(a, b, h0):
    decay, drive = lax.associative_scan(_combine, (a, b))
    return decay * h0 + drive


def _recurrence_fwd(a, b, h0):
    h = _recurrence(a, b, h0)
    return h, (a, h)


def _recurrence_bwd(res, g):
    a, h = res
    a_next = jnp.concatenate([a[1:], jnp.zeros_like(a[:1])])
    _, lam = lax.associative_scan(_combine, (a_next, g), reverse=True)
    h_prev = jnp.concatenate([jnp.zeros_like(h[:1]), h[:-1]])
    return lam * h_prev, lam, a[0] * lam[0]


_recurrence.defvjp(_recurrence_fwd, _recurrence_bwd)


def linear_recurrence(a, b, h0=None):
    """Runs ``h[t] = a[t] * h[t-1] + b[t]`` along the leading axis.

    :param a: decays, ``(t, ...)``
    :param b: inputs, the shape of ``a``
    :param h0: state before the first step, ``(...)``; zeros if not given
    :return: all states, ``(t, ...)``
    """
    if h0 is None:
        h0 = jnp.zeros(b.shape[1:], b.dtype)
    return _recurrence(a, b, h0)


def make_scalar_inverse(fn, lower, upper, num_bisections=60, num_newton=4):
    """Inverts a function that increases in its first argument.

    Args:
      fn: ``fn(x, theta)``, elementwise in ``x``.
      lower: lower end of the bracket.
      upper: upper end of the bracket.
      num_bisections: halvings of the bracket.
      num_newton: Newton steps after them.

    Returns:
      ``inverse(y, theta)``, which solves ``fn(x, theta) = y`` for ``x``.
    """

    def slope(x, theta):
        return jax.jvp(lambda x_: fn(x_, theta), (x,), (jnp.ones_like(x),))[1]

    @jax.custom_jvp
    def inverse(y, theta):
        y = jnp.asarray(y)

        def halve(_, ends):
            lo, hi = ends
            mid = 0.5 * (lo + hi)
            below = fn(mid, theta) < y
            return jnp.where(below, mid, lo), jnp.where(below, hi, mid)

        ends = jnp.full_like(y, lower), jnp.full_like(y, upper)
        lo, hi = lax.fori_loop(0, num_bisections, halve, ends)
        x = 0.5 * (lo + hi)
        for _ in range(num_newton):
            x = jnp.clip(x - (fn(x, theta) - y) / slope(x, theta), lower, upper)
        return x

    @inverse.defjvp
    def inverse_jvp(primals, tangents):
        y, theta = primals
        dy, dtheta = tangents
        x = inverse(y, theta)
        _, shift = jax.jvp(lambda th: fn(x, th), (theta,), (dtheta,))
        return x, (dy + shift) / slope(x, theta)

    return inverse


def stationary_point(objective, init, params, num_steps=40):
    """Newton's method for the minimum over a vector of a strictly convex ``objective(x, params)``."""
    grad = jax.grad(objective)

    def newton(optimality, x0):
        jac = jax.jacfwd(optimality)

        def step(_, x):
            return x - jnp.linalg.solve(jac(x), optimality(x))

        return lax.fori_loop(0, num_steps, step, x0)

    def tangent_solve(linear, y):
        return jnp.linalg.solve(jax.jacfwd(linear)(y), y)

    return lax.custom_root(lambda x: grad(x, params), init, newton, tangent_solve)


class RidgeLogit:
    """Logistic regression with a ridge penalty, fitted by Newton's method."""

    def __init__(self, num_steps=40):
        self.num_steps = num_steps

    @staticmethod
    def objective(coef, params):
        x, y, ridge = params["x"], params["y"], params["ridge"]
        score = x @ coef
        nll = jnp.sum(jax.nn.softplus(score) - y * score)
        return nll + 0.5 * ridge * jnp.sum(jnp.square(coef))

    def fit(self, x, y, ridge):
        init = jnp.zeros((x.shape[1],), x.dtype)
        params = {"x": x, "y": y, "ridge": ridge}
        return stationary_point(self.objective, init, params, self.num_steps)
