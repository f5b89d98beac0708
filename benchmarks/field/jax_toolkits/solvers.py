"""Solvers of linear, matrix and differential equations."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular


def _kron_solve(left, right, rhs):
    # left @ x + x @ right.T = rhs
    n, m = rhs.shape
    op = jnp.kron(left, jnp.eye(m, dtype=rhs.dtype)) + jnp.kron(jnp.eye(n, dtype=rhs.dtype), right)
    return jnp.linalg.solve(op, rhs.reshape(-1)).reshape(n, m)


@jax.custom_vjp
def lyapunov_solve(a, q):
    """Solve ``a @ x + x @ a.T = q``.

    Parameters
    ----------
    a : (n, n) array
        No two eigenvalues may add up to zero.
    q : (n, n) array
        Right-hand side, any square matrix.

    Returns
    -------
    (n, n) array
    """
    return _kron_solve(a, a, q)


def _lyapunov_fwd(a, q):
    x = _kron_solve(a, a, q)
    return x, (a, x)


def _lyapunov_bwd(res, g):
    a, x = res
    s = _kron_solve(a.T, a.T, g)
    return -2.0 * s @ x, s


lyapunov_solve.defvjp(_lyapunov_fwd, _lyapunov_bwd)


@jax.custom_jvp
def matrix_sqrt_psd(a: jax.Array) -> jax.Array:
    w, v = jnp.linalg.eigh(a)
    root = jnp.sqrt(jnp.maximum(w, 0.0))
    return (v * root[..., None, :]) @ jnp.swapaxes(v, -1, -2)


@matrix_sqrt_psd.defjvp
def _matrix_sqrt_psd_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    w, v = jnp.linalg.eigh(a)
    vt = jnp.swapaxes(v, -1, -2)
    root = jnp.sqrt(jnp.maximum(w, 0.0))
    sums = root[..., :, None] + root[..., None, :]
    da = 0.5 * (da + jnp.swapaxes(da, -1, -2))
    inner = (vt @ da @ v) / jnp.where(sums > 0.0, sums, jnp.inf)
    return (v * root[..., None, :]) @ vt, v @ inner @ vt


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def tri_solve(a, b, lower=True, trans=False, unit_diagonal=False):
    return solve_triangular(a, b, lower=lower, trans=int(trans), unit_diagonal=unit_diagonal)


def _tri_solve_fwd(a, b, lower, trans, unit_diagonal):
    x = tri_solve(a, b, lower, trans, unit_diagonal)
    return x, (a, x)


def _tri_solve_bwd(lower, trans, unit_diagonal, res, g):
    a, x = res
    gb = solve_triangular(a, g, lower=lower, trans=int(not trans), unit_diagonal=unit_diagonal)
    x2 = x[:, None] if x.ndim == 1 else x
    gb2 = gb[:, None] if gb.ndim == 1 else gb
    ga = -(x2 @ gb2.T) if trans else -(gb2 @ x2.T)
    return (jnp.tril(ga) if lower else jnp.triu(ga)), gb


tri_solve.defvjp(_tri_solve_fwd, _tri_solve_bwd)


def _sum_to(ct, like):
    shape = jnp.shape(like)
    ct = jnp.sum(ct, axis=tuple(range(jnp.ndim(ct) - len(shape))))
    ones = tuple(i for i, n in enumerate(shape) if n == 1)
    return jnp.sum(ct, axis=ones, keepdims=True).astype(jnp.result_type(like))


def _eccentric(mean_anomaly, ecc):
    turns = jnp.round(mean_anomaly / (2.0 * jnp.pi)) * (2.0 * jnp.pi)
    m = mean_anomaly - turns
    e0 = m + 0.85 * ecc * jnp.sign(jnp.sin(m))

    def newton(_, e):
        s, c = ecc * jnp.sin(e), ecc * jnp.cos(e)
        f, f1 = e - s - m, 1.0 - c
        step = f * f1 / (f1 * f1 - 0.5 * f * s)
        return e - step

    return jax.lax.fori_loop(0, 12, newton, e0) + turns


@jax.custom_gradient
def kepler_anomaly(mean_anomaly: "Float[Array, '...']", ecc: "Float[Array, '...']"):
    """Eccentric anomaly ``E`` with ``E - ecc * sin(E) = mean_anomaly``, for ``0 <= ecc < 1``."""
    e = _eccentric(mean_anomaly, ecc)

    def pullback(ct):
        lam = ct / (1.0 - ecc * jnp.cos(e))
        return _sum_to(lam, mean_anomaly), _sum_to(lam * jnp.sin(e), ecc)

    return e, pullback


def make_rk4_solver(vector_field, num_steps=16):
    """Make a classical Runge-Kutta solver with equal steps.

    Args:
      vector_field: ``f(t, y, params)``, the time derivative of ``y``.
      num_steps: how many steps there are between ``t0`` and ``t1``.

    Returns:
      ``solve(y0, t0, t1, params)``, the state at ``t1``. It may be
      differentiated by all four; gradients are those of the discrete scheme.
      Only the states at the grid are kept for the backward pass.
    """

    def step(t, h, y, params):
        k1 = vector_field(t, y, params)
        k2 = vector_field(t + 0.5 * h, y + 0.5 * h * k1, params)
        k3 = vector_field(t + 0.5 * h, y + 0.5 * h * k2, params)
        k4 = vector_field(t + h, y + h * k3, params)
        return y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    def integrate(y0, t0, t1, params):
        h = (t1 - t0) / num_steps

        def body(y, i):
            return step(t0 + i * h, h, y, params), y

        return jax.lax.scan(body, y0, jnp.arange(num_steps))

    @jax.custom_vjp
    def solve(y0, t0, t1, params):
        return integrate(y0, t0, t1, params)[0]

    def fwd(y0, t0, t1, params):
        y1, path = integrate(y0, t0, t1, params)
        return y1, (path, t0, t1, params)

    def bwd(res, g):
        path, t0, t1, params = res
        h = (t1 - t0) / num_steps

        def body(carry, inputs):
            gy, gh, gp = carry
            i, y = inputs
            _, pull = jax.vjp(lambda h_, y_, p_: step(t0 + i * h, h_, y_, p_), h, y, params)
            dh, dy, dp = pull(gy)
            return (dy, gh + dh, jax.tree_util.tree_map(jnp.add, gp, dp)), None

        zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
        init = (g, jnp.zeros_like(h), zeros)
        (gy, gh, gp), _ = jax.lax.scan(body, init, (jnp.arange(num_steps), path), reverse=True)
        gt = gh / num_steps
        return gy, -gt, gt, gp

    solve.defvjp(fwd, bwd)
    return solve
