"""Implicit layers: differentiate through the *solution* of an equation instead of the solver.

All solvers take the defining function as their first argument.  The function has to be a pure
function of its arguments (pass parameters explicitly, don't close over traced values).
"""
from functools import partial
from typing import Any, Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

PyTree = Any


def _tol(x, scale=8.0):
    return scale * jnp.finfo(x.dtype).eps


def _iterate(step, x0, max_iter):
    """Picard iteration until the relative update is at rounding level."""

    def cond(state):
        x, prev, i = state
        moved = jnp.max(jnp.abs(x - prev)) > _tol(x) * (1.0 + jnp.max(jnp.abs(x)))
        return jnp.logical_and(moved, i < max_iter)

    def body(state):
        x, _, i = state
        return step(x), x, i + 1

    x, _, _ = lax.while_loop(cond, body, (step(x0), x0, 0))
    return x


# ----------------------------------------------------------------------------- fixed points

@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fixed_point(f: Callable[[PyTree, Array], Array], params: PyTree, x0: Array) -> Array:
    """Solves ``x = f(params, x)`` for a map that is a contraction in ``x``.

    Args:
        f: the map; called as ``f(params, x)``.
        params: any pytree of floating-point arrays.
        x0: initial guess, any shape.  The solution does not depend on it.

    Returns:
        The fixed point, same shape as ``x0``.
    """
    return _iterate(partial(f, params), x0, 2000)


def _fixed_point_fwd(f, params, x0):
    x_star = fixed_point(f, params, x0)
    return x_star, (params, x_star)


def _fixed_point_bwd(f, res, g):
    params, x_star = res
    _, vjp_x = jax.vjp(lambda x: f(params, x), x_star)
    _, vjp_p = jax.vjp(lambda p: f(p, x_star), params)
    u = _iterate(lambda u: g + vjp_x(u)[0], g, 2000)
    (g_params,) = vjp_p(u)
    return g_params, jnp.zeros_like(x_star)


fixed_point.defvjp(_fixed_point_fwd, _fixed_point_bwd)


# ----------------------------------------------------------------------------- root finding

@partial(jax.custom_vjp, nondiff_argnums=(0,))
def newton_root(f, theta, x0):
    """Root of ``f(x, theta) = 0`` in ``x`` (shape (n,)) by Newton's method from ``x0``.

    ``theta`` may be any pytree.
    """

    def body(_, x):
        J = jax.jacfwd(f)(x, theta)
        return x - jnp.linalg.solve(J, f(x, theta))

    return lax.fori_loop(0, 20, body, x0)


def _newton_fwd(f, theta, x0):
    x = newton_root(f, theta, x0)
    return x, (theta, x)


def _newton_bwd(f, res, g):
    theta, x = res
    J = jax.jacfwd(f)(x, theta)
    lam = -jnp.linalg.solve(J, g)
    _, pullback = jax.vjp(lambda th: f(x, th), theta)
    return pullback(lam)[0], jnp.zeros_like(x)


newton_root.defvjp(_newton_fwd, _newton_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def bisect_root(func, lo, hi, args):
    """Elementwise root of an increasing function inside a bracket.

    Parameters
    ----------
    func : callable
        ``func(x, *args)``, acting elementwise on ``x``, strictly increasing in ``x``.
    lo, hi : arrays of the shape of the result
        Bracket, ``func(lo) < 0 < func(hi)``.
    args : tuple of arrays
        Further parameters of ``func``.
    """

    def body(_, bracket):
        a, b = bracket
        mid = a + 0.5 * (b - a)
        below = func(mid, *args) < 0
        return jnp.where(below, mid, a), jnp.where(below, b, mid)

    a, b = lax.fori_loop(0, 70, body, (lo, hi))
    return a + 0.5 * (b - a)


@bisect_root.defjvp
def _bisect_jvp(func, primals, tangents):
    lo, hi, args = primals
    _, _, dargs = tangents
    x = bisect_root(func, lo, hi, args)
    _, slope = jax.jvp(lambda x_: func(x_, *args), (x,), (jnp.ones_like(x),))
    _, df = jax.jvp(lambda *a: func(x, *a), args, dargs)
    return x, -df / slope


def _mixture_cdf_gap(x, p, logits, loc, scale):
    w = jax.nn.softmax(logits)
    z = (x[..., None] - loc) / scale
    return jnp.sum(w * jax.nn.sigmoid(z), axis=-1) - p


def logistic_mixture_icdf(p, logits, loc, scale):
    """Inverse CDF of a mixture of logistics at probabilities ``p``, any shape."""
    lo = jnp.full_like(p, -1e3)
    return bisect_root(_mixture_cdf_gap, lo, -lo, (p, logits, loc, scale))


# ----------------------------------------------------------------------------- optimisation

def make_argmin(objective, num_steps=40):
    """Builds a differentiable ``solver(theta, x0) -> argmin_x objective(x, theta)``.

    ``objective`` must be twice differentiable and strictly convex in the vector ``x``.
    """
    grad_x = jax.grad(objective)
    hess_x = jax.hessian(objective)

    @jax.custom_vjp
    def solver(theta, x0):
        def body(_, x):
            d = grad_x(x, theta)
            step = jnp.linalg.solve(hess_x(x, theta), d)
            dec = jnp.sqrt(jnp.maximum(d @ step, 0.0))
            return x - jnp.where(dec < 0.25, 1.0, 1.0 / (1.0 + dec)) * step

        return lax.fori_loop(0, num_steps, body, x0)

    def fwd(theta, x0):
        x = solver(theta, x0)
        return x, (theta, x)

    def bwd(res, g):
        theta, x = res
        u = jnp.linalg.solve(hess_x(x, theta), g)
        _, pullback = jax.vjp(lambda th: grad_x(x, th), theta)
        (g_theta,) = pullback(-u)
        return g_theta, jnp.zeros_like(x)

    solver.defvjp(fwd, bwd)
    return solver


def _logistic_objective(w, theta):
    margins = theta["targets"] * (theta["features"] @ w)
    return jnp.mean(jax.nn.softplus(-margins)) + 0.5 * jnp.exp(theta["log_reg"]) * jnp.sum(w**2)


# theta = {"features": (n, d), "targets": (n,) in {-1., 1.}, "log_reg": ()},  x0: (d,)
ridge_logistic = make_argmin(_logistic_objective)


# ----------------------------------------------------------------------------- ODE stepping

@partial(jax.custom_vjp, nondiff_argnums=(0,))
def backward_euler_step(vf, y, t, dt, theta):
    """One step of the backward Euler method.

    Solves ``y1 = y + dt * vf(t + dt, y1, theta)`` with a few Newton iterations.

    Args:
        vf: vector field, ``vf(t, y, theta) -> dy/dt``.
        y: state at time ``t``, shape (n,).
        t: scalar time.
        dt: scalar step size (may be learned).
        theta: parameters of the field, pytree.
    """
    eye = jnp.eye(y.shape[0], dtype=y.dtype)

    def body(_, y1):
        r = y1 - y - dt * vf(t + dt, y1, theta)
        J = eye - dt * jax.jacfwd(vf, argnums=1)(t + dt, y1, theta)
        return y1 - jnp.linalg.solve(J, r)

    return lax.fori_loop(0, 10, body, y)


def _be_fwd(vf, y, t, dt, theta):
    y1 = backward_euler_step(vf, y, t, dt, theta)
    return y1, (y1, t, dt, theta)


def _be_bwd(vf, res, g):
    y1, t, dt, theta = res
    t1 = t + dt
    J = jax.jacfwd(vf, argnums=1)(t1, y1, theta)
    lam = jnp.linalg.solve((jnp.eye(y1.shape[0], dtype=y1.dtype) - dt * J).T, g)
    rate, pullback = jax.vjp(lambda s, th: vf(s, y1, th), t1, theta)
    g_t, g_theta = pullback(dt * lam)
    g_dt = jnp.vdot(lam, rate)
    return lam, g_t, g_dt, g_theta


backward_euler_step.defvjp(_be_fwd, _be_bwd)


def integrate(vf, y0, t0, dt, n_steps, theta):
    def step(carry, _):
        y, t = carry
        y = backward_euler_step(vf, y, t, dt, theta)
        return (y, t + dt), y

    _, ys = lax.scan(step, (y0, t0), None, length=n_steps)
    return ys


if __name__ == "__main__":
    W = 0.3 * jax.random.normal(jax.random.PRNGKey(1), (4, 4))
    deq = lambda p, x: jnp.tanh(p["W"] @ x + p["b"])
    print(jax.grad(lambda p: fixed_point(deq, p, jnp.zeros(4)).sum())({"W": W, "b": jnp.ones(4)}))
