"""Time stepping, implicit solves and transport.

The right-hand sides follow the convention ``f(t, y, params)``.
"""
import functools

import jax
import jax.numpy as jnp

_tree_add = functools.partial(jax.tree_util.tree_map, jnp.add)


# ---- model right-hand sides ----------------------------------------------
def lotka_volterra(t, y, params):
    prey, pred = y[0], y[1]
    return jnp.stack([
        params["alpha"] * prey - params["beta"] * prey * pred,
        params["delta"] * prey * pred - params["gamma"] * pred,
    ])


def driven_van_der_pol(t, y, params):
    x, v = y[0], y[1]
    drive = params["amp"] * jnp.cos(params["omega"] * t)
    return jnp.stack([v, params["mu"] * (1.0 - x * x) * v - x + drive])


def kepler_residual(ecc_anomaly, theta):
    """Kepler's equation, theta = {'e': (), 'M': (n,)}."""
    return ecc_anomaly - theta["e"] * jnp.sin(ecc_anomaly) - theta["M"]


# ---- explicit -------------------------------------------------------------
@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def rk4_step(f, t, y, dt, params):
    """One classical Runge-Kutta step of ``y' = f(t, y, params)``.

    Args:
        f: right-hand side (static).
        t: scalar time.
        y: state, any shape that ``f`` takes.
        dt: scalar step.
        params: pytree of parameters.
    """
    k1 = f(t, y, params)
    k2 = f(t + 0.5 * dt, y + 0.5 * dt * k1, params)
    k3 = f(t + 0.5 * dt, y + 0.5 * dt * k2, params)
    k4 = f(t + dt, y + dt * k3, params)
    return y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def _rk4_fwd(f, t, y, dt, params):
    return rk4_step(f, t, y, dt, params), (t, y, dt, params)


def _rk4_bwd(f, res, g):
    t, y, dt, params = res
    k1, vjp1 = jax.vjp(f, t, y, params)
    k2, vjp2 = jax.vjp(f, t + 0.5 * dt, y + 0.5 * dt * k1, params)
    k3, vjp3 = jax.vjp(f, t + 0.5 * dt, y + 0.5 * dt * k2, params)
    k4, vjp4 = jax.vjp(f, t + dt, y + dt * k3, params)

    t4, y4, p4 = vjp4(dt / 6.0 * g)
    t3, y3, p3 = vjp3(dt / 3.0 * g + dt * y4)
    t2, y2, p2 = vjp2(dt / 3.0 * g + 0.5 * dt * y3)
    t1, y1, p1 = vjp1(dt / 6.0 * g + 0.5 * dt * y2)

    g_dt = (jnp.sum(g * (k1 + 2.0 * k2 + 2.0 * k3 + k4)) / 6.0
            + jnp.sum(y4 * k3) + 0.5 * jnp.sum(y3 * k2) + 0.5 * jnp.sum(y2 * k1)
            + t4 + 0.5 * (t3 + t2))
    g_params = _tree_add(_tree_add(p1, p2), _tree_add(p3, p4))
    return t1 + t2 + t3 + t4, g + y1 + y2 + y3 + y4, g_dt, g_params


rk4_step.defvjp(_rk4_fwd, _rk4_bwd)


# ---- implicit -------------------------------------------------------------
@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def backward_euler_step(f, t, y, dt, params):
    """Implicit Euler step; solves ``z = y + dt f(t + dt, z, params)`` by Newton.

    Args:
        f: right-hand side (static).
        t: scalar time at the start of the step.
        y: state vector, shape (n,).
        dt: scalar step size.
        params: pytree of parameters of ``f``.

    Returns:
        The state at ``t + dt``, shape (n,).
    """
    eye = jnp.eye(y.shape[0], dtype=y.dtype)

    def newton(_, z):
        jac = eye - dt * jax.jacfwd(f, argnums=1)(t + dt, z, params)
        return z - jnp.linalg.solve(jac, z - y - dt * f(t + dt, z, params))

    return jax.lax.fori_loop(0, 10, newton, y)


def _be_fwd(f, t, y, dt, params):
    z = backward_euler_step(f, t, y, dt, params)
    return z, (t, z, dt, params)


def _be_bwd(f, res, g):
    t, z, dt, params = res
    jac = jnp.eye(z.shape[0], dtype=z.dtype) - dt * jax.jacfwd(f, argnums=1)(t + dt, z, params)
    lam = jnp.linalg.solve(jac.T, g)
    rhs, pull = jax.vjp(lambda s, p: f(s, z, p), t + dt, params)
    g_t, g_params = pull(dt * lam)
    g_dt = jnp.vdot(lam, rhs)
    return g_t, lam, g_dt, g_params


backward_euler_step.defvjp(_be_fwd, _be_bwd)


# ---- symplectic -----------------------------------------------------------
def make_leapfrog(grad_potential, n_steps):
    """Build a kick-drift-kick integrator with a reversible adjoint.

    The backward pass runs the trajectory backwards in time, so that its memory
    does not grow with ``n_steps``.
    """

    @jax.custom_vjp
    def integrate(q, p, dt, params):
        def body(_, qp):
            q, p = qp
            p = p - 0.5 * dt * grad_potential(q, params)
            q = q + dt * p
            return q, p - 0.5 * dt * grad_potential(q, params)

        return jax.lax.fori_loop(0, n_steps, body, (q, p))

    def fwd(q, p, dt, params):
        out = integrate(q, p, dt, params)
        return out, (*out, dt, params)

    def bwd(res, cts):
        q, p, dt, params = res
        zeros = jax.tree_util.tree_map(jnp.zeros_like, params)

        def body(_, state):
            q, p, gq, gp, gdt, gparams = state
            # undo the second kick
            force, pull = jax.vjp(grad_potential, q, params)
            p = p + 0.5 * dt * force
            dq, dpar = pull(-0.5 * dt * gp)
            gq, gparams, gdt = gq + dq, _tree_add(gparams, dpar), gdt - 0.5 * jnp.sum(gp * force)
            # undo the drift
            q = q - dt * p
            gdt = gdt + jnp.sum(gq * p)
            gp = gp + dt * gq
            # undo the first kick
            force, pull = jax.vjp(grad_potential, q, params)
            p = p + 0.5 * dt * force
            dq, dpar = pull(-0.5 * dt * gp)
            return (q, p, gq + dq, gp, gdt - 0.5 * jnp.sum(gp * force), _tree_add(gparams, dpar))

        state = (q, p, *cts, jnp.zeros_like(dt), zeros)
        return jax.lax.fori_loop(0, n_steps, body, state)[2:]

    integrate.defvjp(fwd, bwd)
    return integrate


def duffing_force(q, params):
    """Gradient of the Duffing potential k q^2 / 2 + b q^4 / 4, particle by particle."""
    return params["k"] * q + params["b"] * q ** 3


leapfrog_duffing = make_leapfrog(duffing_force, n_steps=8)


# ---- roots ----------------------------------------------------------------
@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def bisect_root(f, lo, hi, theta):
    """Root of ``f(., theta)`` in the bracket, by bisection.

    :param f: elementwise residual, increasing over the bracket (static)
    :param lo: left ends, ``(n,)``
    :param hi: right ends, ``(n,)``
    :param theta: pytree of parameters of ``f``
    :return: roots, ``(n,)``; differentiable in ``theta``, while the bracket has no effect
    """
    def body(_, ends):
        lo, hi = ends
        mid = 0.5 * (lo + hi)
        left = f(mid, theta) < 0
        return jnp.where(left, mid, lo), jnp.where(left, hi, mid)

    lo, hi = jax.lax.fori_loop(0, 60, body, (lo, hi))
    return 0.5 * (lo + hi)


def _bisect_fwd(f, lo, hi, theta):
    x = bisect_root(f, lo, hi, theta)
    return x, (x, theta)


def _bisect_bwd(f, res, g):
    x, theta = res
    _, slope = jax.jvp(lambda z: f(z, theta), (x,), (jnp.ones_like(x),))
    _, pull = jax.vjp(lambda th: f(x, th), theta)
    (g_theta,) = pull(-g / slope)
    return jnp.zeros_like(x), jnp.zeros_like(x), g_theta


bisect_root.defvjp(_bisect_fwd, _bisect_bwd)


def eccentric_anomaly(mean_anomaly, e):
    lo = jnp.zeros_like(mean_anomaly) - 1.0
    hi = jnp.zeros_like(mean_anomaly) + 2.0 * jnp.pi + 1.0
    return bisect_root(kepler_residual, lo, hi, {"e": e, "M": mean_anomaly})


# ---- optimal transport ----------------------------------------------------
def _sinkhorn_plan(cost, eps, n_iters):
    n, m = cost.shape
    log_a, log_b = -jnp.log(n), -jnp.log(m)
    f = jnp.zeros(n, cost.dtype)
    g = jnp.zeros(m, cost.dtype)
    for _ in range(n_iters):
        f = eps * (log_a - jax.nn.logsumexp((g[None, :] - cost) / eps, axis=1))
        g = eps * (log_b - jax.nn.logsumexp((f[:, None] - cost) / eps, axis=0))
    return jnp.exp((f[:, None] + g[None, :] - cost) / eps)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def sinkhorn_cost(cost, eps=0.05, n_iters=50):
    """Transport cost ``<P, C>`` of the entropic plan between uniform marginals.

    Parameters
    ----------
    cost : (n, m) array
    eps : float
        Regularisation.
    n_iters : int
        Number of Sinkhorn sweeps.
    """
    return jnp.sum(_sinkhorn_plan(cost, eps, n_iters) * cost)


def _sinkhorn_fwd(cost, eps, n_iters):
    plan = _sinkhorn_plan(cost, eps, n_iters)
    return jnp.sum(plan * cost), plan


def _sinkhorn_bwd(eps, n_iters, plan, g):
    return (g * plan,)


sinkhorn_cost.defvjp(_sinkhorn_fwd, _sinkhorn_bwd)
