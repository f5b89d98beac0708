"""Solvers, determinants and projections used by the inference code."""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve
from jax.scipy.special import log_ndtr

_LOG_SQRT_2PI = 0.9189385332046727


def _symmetric(a):
    return 0.5 * (a + jnp.swapaxes(a, -1, -2))


@jax.custom_jvp
def logdet_psd(a):
    chol = jnp.linalg.cholesky(_symmetric(a))
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(chol, axis1=-2, axis2=-1)), axis=-1)


@logdet_psd.defjvp
def _logdet_psd_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    chol = jnp.linalg.cholesky(_symmetric(a))
    value = 2.0 * jnp.sum(jnp.log(jnp.diagonal(chol, axis1=-2, axis2=-1)), axis=-1)
    eye = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    inverse = cho_solve((chol, True), eye)
    return value, jnp.sum(inverse * _symmetric(da), axis=(-2, -1))


# ---- tridiagonal systems


def _thomas(lower, diag, upper, rhs):
    def forward(carry, row):
        c_prev, d_prev = carry
        l, d, u, r = row
        pivot = d - l * c_prev
        c = u / pivot
        y = (r - l * d_prev) / pivot
        return (c, y), (c, y)

    lower = lower.at[0].set(0)
    zero = jnp.zeros((), diag.dtype)
    init = (zero, jnp.zeros(rhs.shape[1:], rhs.dtype))
    _, (c, y) = lax.scan(forward, init, (lower, diag, upper, rhs))

    def backward(x_next, row):
        ci, yi = row
        x = yi - ci * x_next
        return x, x

    c = c.at[-1].set(0)
    return lax.scan(backward, jnp.zeros(rhs.shape[1:], rhs.dtype), (c, y), reverse=True)[1]


@jax.custom_vjp
def tridiagonal_solve(lower, diag, upper, rhs):
    """Solve a diagonally dominant tridiagonal system.

    Row ``i`` reads ``lower[i] x[i-1] + diag[i] x[i] + upper[i] x[i+1] = rhs[i]``;
    ``lower[0]`` and ``upper[-1]`` are not used.

    Args:
      lower, diag, upper: bands, each ``[n]``.
      rhs: ``[n]`` or ``[n, k]``.
    """
    return _thomas(lower, diag, upper, rhs)


def _tridiagonal_fwd(lower, diag, upper, rhs):
    x = _thomas(lower, diag, upper, rhs)
    return x, (lower, diag, upper, x)


def _tridiagonal_bwd(res, g):
    lower, diag, upper, x = res
    # bands of the transposed matrix
    t_lower = jnp.roll(upper, 1)
    t_upper = jnp.roll(lower, -1)
    w = _thomas(t_lower, diag, t_upper, g)
    zero = jnp.zeros_like(x[:1])
    x_prev = jnp.concatenate([zero, x[:-1]])
    x_next = jnp.concatenate([x[1:], zero])
    cols = tuple(range(1, x.ndim))
    band = lambda shifted: -jnp.sum(w * shifted, axis=cols)
    return band(x_prev), band(x), band(x_next), w


tridiagonal_solve.defvjp(_tridiagonal_fwd, _tridiagonal_bwd)


# ---- stiff ODE steps


def make_implicit_euler(rhs, *, newton_iters=12):
    """Build a backward-Euler step for ``dy/dt = rhs(y, params)``.

    Args:
      rhs: vector field, ``(y[n], params) -> [n]``; ``params`` may be any pytree
        of float arrays.
      newton_iters: full Newton iterations per step.

    Returns:
      ``step(y, h, params) -> z`` where ``z = y + h * rhs(z, params)``. The step
      is differentiable in all arguments by the implicit function theorem.
    """

    def jacobian(z, h, params):
        return jnp.eye(z.shape[0], dtype=z.dtype) - h * jax.jacfwd(rhs)(z, params)

    @jax.custom_vjp
    def step(y, h, params):
        def body(_, z):
            residual = z - y - h * rhs(z, params)
            return z - jnp.linalg.solve(jacobian(z, h, params), residual)

        return lax.fori_loop(0, newton_iters, body, y)

    def fwd(y, h, params):
        z = step(y, h, params)
        return z, (z, h, params)

    def bwd(res, g):
        z, h, params = res
        w = jnp.linalg.solve(jacobian(z, h, params), g)
        f, pull = jax.vjp(lambda p: rhs(z, p), params)
        (dparams,) = pull(h * w)
        return w, jnp.vdot(w, f), dparams

    step.defvjp(fwd, bwd)
    return step


def integrate(step, y0, h, params, num_steps):
    def body(y, _):
        y = step(y, h, params)
        return y, y

    return lax.scan(body, y0, None, length=num_steps)[1]


# ---- truncated normal mass


@jax.custom_jvp
def log_diff_ndtr(lo, hi):
    mirrored = lo > 0
    a = jnp.where(mirrored, -hi, lo)
    b = jnp.where(mirrored, -lo, hi)
    log_b = log_ndtr(b)
    return log_b + jnp.log1p(-jnp.exp(log_ndtr(a) - log_b))


@log_diff_ndtr.defjvp
def _log_diff_ndtr_jvp(primals, tangents):
    lo, hi = primals
    dlo, dhi = tangents
    out = log_diff_ndtr(lo, hi)
    mirrored = lo > 0
    a, da = jnp.where(mirrored, -hi, lo), jnp.where(mirrored, dhi, dlo)
    b, db = jnp.where(mirrored, -lo, hi), jnp.where(mirrored, dlo, dhi)
    wa = jnp.exp(-0.5 * a * a - _LOG_SQRT_2PI - out)
    wb = jnp.exp(-0.5 * b * b - _LOG_SQRT_2PI - out)
    return out, wb * db - wa * da


# ---- projections


@jax.custom_jvp
def project_simplex(v, radius=1.0):
    """Euclidean projection of the last axis onto ``{w >= 0, sum(w) = radius}``.

    Parameters
    ----------
    v : (..., n) array
    radius : positive float or scalar array
    """
    n = v.shape[-1]
    u = jnp.flip(jnp.sort(v, axis=-1), axis=-1)
    excess = jnp.cumsum(u, axis=-1) - radius
    ranks = jnp.arange(1, n + 1)
    rho = jnp.sum(u * ranks > excess, axis=-1, keepdims=True)
    tau = jnp.take_along_axis(excess, rho - 1, axis=-1) / rho
    return jnp.maximum(v - tau, 0)


@project_simplex.defjvp
def _project_simplex_jvp(primals, tangents):
    v, radius = primals
    dv, dradius = tangents
    w = project_simplex(v, radius)
    on = (w > 0).astype(w.dtype)
    size = jnp.sum(on, axis=-1, keepdims=True)
    drop = (jnp.sum(on * dv, axis=-1, keepdims=True) - dradius) / size
    return w, on * (dv - drop)
