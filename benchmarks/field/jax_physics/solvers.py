"""Implicitly differentiated solvers: roots, fixed points, time steppers."""

from functools import partial
from typing import Callable

import jax
import jax.numpy as jnp
import numpy as np


# ------------------------------------------------------------- scalar roots, factory

def implicit_root(residual: Callable, guess: Callable, n_iter: int = 12):
    """Build an elementwise solver for ``residual(x, *args) == 0``.

    ``residual`` acts elementwise; all ``args`` must have one common shape, which is
    also the shape of the returned root.
    """

    def _newton(*args):
        dres = jax.grad(lambda x, *a: jnp.sum(residual(x, *a)))

        def body(_, x):
            return x - residual(x, *args) / dres(x, *args)

        return jax.lax.fori_loop(0, n_iter, body, guess(*args))

    @jax.custom_vjp
    def root(*args):
        return _newton(*args)

    def fwd(*args):
        x = _newton(*args)
        return x, (x, args)

    def bwd(saved, g):
        x, args = saved
        _, pull = jax.vjp(residual, x, *args)
        r_x = pull(jnp.ones_like(x))[0]
        return pull(-g / r_x)[1:]

    root.defvjp(fwd, bwd)
    return root


LOG10_E = 0.4342944819032518


def _colebrook(x, re, rel_rough):
    # x = 1 / sqrt(f)
    return x + 2.0 * LOG10_E * jnp.log(rel_rough / 3.7 + 2.51 * x / re)


# 1/sqrt(f) of the Darcy friction factor; re in 4e3 .. 1e8, rel_rough in 0 .. 0.05
inv_sqrt_friction = implicit_root(
    _colebrook, guess=lambda re, rel_rough: 6.0 * jnp.ones_like(re + rel_rough))


def pressure_drop(re, rel_rough, length, diameter, rho, v):
    f = inv_sqrt_friction(re, rel_rough) ** -2
    return f * length / diameter * 0.5 * rho * v**2


# ------------------------------------------------------------------------ Kepler

@jax.custom_jvp
def eccentric_anomaly(M, e):
    """Solve Kepler's equation ``E - e sin E = M`` (0 <= e < 0.9). Broadcasts."""
    M, e = jnp.broadcast_arrays(M, e)
    E = M + e * jnp.sin(M) / (1.0 - jnp.sin(M + e) + jnp.sin(M))

    def step(_, E):
        f = E - e * jnp.sin(E) - M
        fp = 1.0 - e * jnp.cos(E)
        fpp = e * jnp.sin(E)
        return E - f / (fp - 0.5 * f * fpp / fp)

    return jax.lax.fori_loop(0, 15, step, E)


@eccentric_anomaly.defjvp
def _ecc_jvp(primals, tangents):
    M, e = primals
    dM, de = tangents
    E = eccentric_anomaly(M, e)
    return E, (dM + jnp.sin(E) * de) / (1.0 - e * jnp.cos(E))


# ------------------------------------------------------------- generic fixed point

@partial(jax.custom_vjp, nondiff_argnums=(0, 3))
def fixed_point_solve(f, params, z0, n_iter=200):
    """Iterate ``z <- f(params, z)`` from ``z0``; ``f`` must be a contraction in z.

    params and z may be any pytrees. The result does not depend on z0.
    """
    return jax.lax.fori_loop(0, n_iter, lambda _, z: f(params, z), z0)


def _fps_fwd(f, params, z0, n_iter):
    z = fixed_point_solve(f, params, z0, n_iter)
    return z, (params, z)


def _fps_bwd(f, n_iter, res, g):
    params, z = res
    _, vjp_z = jax.vjp(lambda zz: f(params, zz), z)
    _, vjp_p = jax.vjp(lambda p: f(p, z), params)

    def body(_, u):
        return jax.tree_util.tree_map(jnp.add, g, vjp_z(u)[0])

    u = jax.lax.fori_loop(0, n_iter, body, g)
    return vjp_p(u)[0], jax.tree_util.tree_map(jnp.zeros_like, z)


fixed_point_solve.defvjp(_fps_fwd, _fps_bwd)


def magnetization(params):
    """Mean-field magnetisation m_i = tanh(h_i + sum_j J_ij m_j)."""
    def update(p, m):
        return jnp.tanh(p["h"] + p["J"] @ m)
    return fixed_point_solve(update, params, jnp.zeros_like(params["h"]))


# --------------------------------------------------------------- equilibrium layer

def _cell(p, x, z):
    return jnp.tanh(z @ p["W"] + x @ p["U"] + p["b"])


def _iterate(p, x, n=120):
    z0 = jnp.zeros((x.shape[0], p["b"].shape[0]), x.dtype)
    return jax.lax.fori_loop(0, n, lambda _, z: _cell(p, x, z), z0)


@jax.custom_vjp
def equilibrium(params, x):
    """Deep-equilibrium state.

    Args:
      params: dict with ``W`` (h, h), ``U`` (d, h) and ``b`` (h,). ``W`` should have
        spectral norm below one.
      x: inputs (batch, d).

    Returns:
      z (batch, h) with z = tanh(z W + x U + b).
    """
    return _iterate(params, x)


def _eq_fwd(params, x):
    z = _iterate(params, x)
    return z, (params, x, z)


def _eq_bwd(res, g):
    p, x, z = res
    s = 1.0 - z**2
    u = jax.lax.fori_loop(0, 120, lambda _, u: g + (s * u) @ p["W"], g)
    a = s * u
    grads = {"W": z.T @ a, "U": x.T @ a, "b": a.sum(0)}
    return grads, a @ p["U"].T


equilibrium.defvjp(_eq_fwd, _eq_bwd)


# -------------------------------------------------------------- Runge-Kutta adjoint

def lotka_volterra(theta, y):
    prey, pred = y[0], y[1]
    a, b, c, d = theta
    return jnp.stack([a * prey - b * prey * pred, c * prey * pred - d * pred])


def _rk4(theta, y, h):
    k1 = lotka_volterra(theta, y)
    k2 = lotka_volterra(theta, y + 0.5 * h * k1)
    k3 = lotka_volterra(theta, y + 0.5 * h * k2)
    k4 = lotka_volterra(theta, y + h * k3)
    return y + h / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)


@jax.custom_vjp
def integrate(theta, y0, ts):
    """RK4 trajectory of the Lotka-Volterra system at the (increasing) times ``ts``.

    theta: (4,), y0: (2,), ts: (T,)  ->  (T, 2), first row is y0
    """
    def step(y, h):
        y = _rk4(theta, y, h)
        return y, y
    _, ys = jax.lax.scan(step, y0, jnp.diff(ts))
    return jnp.concatenate([y0[None], ys])


def _integrate_fwd(theta, y0, ts):
    ys = integrate(theta, y0, ts)
    return ys, (theta, ts, ys)


def _integrate_bwd(res, g):
    theta, ts, ys = res
    h = ts[1] - ts[0]

    def back(carry, row):
        lam, gtheta = carry
        y, g_y = row
        _, pull = jax.vjp(_rk4, theta, y, h)
        dth, dy, dh = pull(lam)
        return (dy + g_y, gtheta + dth), dh

    (lam, gtheta), gh = jax.lax.scan(
        back, (g[-1], jnp.zeros_like(theta)), (ys[:-1], g[:-1]), reverse=True)
    gts = jnp.zeros_like(ts).at[1:].add(gh).at[:-1].add(-gh)
    return gtheta, lam, gts


integrate.defvjp(_integrate_fwd, _integrate_bwd)


# ---------------------------------------------------------------- Crank-Nicolson

def _second_difference(n, bc, dtype):
    L = -2.0 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
    if bc == "neumann":
        L[0, 1] = 2.0
        L[-1, -2] = 2.0
    return jnp.asarray(L, dtype)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def crank_nicolson_step(u, r, bc="dirichlet"):
    n = u.shape[0]
    L = _second_difference(n, bc, u.dtype)
    I = jnp.eye(n, dtype=u.dtype)
    return jnp.linalg.solve(I - 0.5 * r * L, (I + 0.5 * r * L) @ u)


def _cn_fwd(u, r, bc):
    out = crank_nicolson_step(u, r, bc)
    return out, (u, r, out)


def _cn_bwd(bc, res, g):
    u, r, out = res
    n = u.shape[0]
    L = _second_difference(n, bc, u.dtype)
    I = jnp.eye(n, dtype=u.dtype)
    w = jnp.linalg.solve(I - 0.5 * r * L, g)
    gu = (I + 0.5 * r * L) @ w
    gr = 0.5 * jnp.vdot(w, L @ (u + out))
    return gu, gr


crank_nicolson_step.defvjp(_cn_fwd, _cn_bwd)


def diffuse(u0, kappa, dt, dx, n_steps, bc="dirichlet"):
    r = kappa * dt / dx**2
    return jax.lax.fori_loop(0, n_steps, lambda _, u: crank_nicolson_step(u, r, bc), u0)
