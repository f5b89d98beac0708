"""Linear algebra for Gaussian-process and state-space models."""
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl


@jax.custom_vjp
def linear_solve(a, b):
    r"""Solve :math:`A x = b`.

    :param a: square matrices, ``(..., n, n)``
    :param b: right-hand sides, ``(..., n)``
    :returns: the solutions, ``(..., n)``
    """
    return jnp.linalg.solve(a, b[..., None])[..., 0]


def _linear_solve_fwd(a, b):
    x = linear_solve(a, b)
    return x, (a, x)


def _linear_solve_bwd(res, g):
    a, x = res
    lam = jnp.linalg.solve(a, g[..., None])[..., 0]
    return -lam[..., :, None] * x[..., None, :], lam


linear_solve.defvjp(_linear_solve_fwd, _linear_solve_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def triangular_solve(tri, b, lower=True, trans=False):
    """Solve ``T x = b`` (or ``T.T x = b`` if `trans`) for a triangular ``T``.

    Parameters
    ----------
    tri : (n, n) array
        Only the triangle selected by `lower` is referenced.
    b : (n,) or (n, m) array
    lower, trans : bool, static

    Returns
    -------
    x : array of the shape of `b`
    """
    return jsl.solve_triangular(tri, b, lower=lower, trans=1 if trans else 0)


def _tri_fwd(tri, b, lower, trans):
    x = triangular_solve(tri, b, lower, trans)
    return x, (tri, x)


def _tri_bwd(lower, trans, res, g):
    tri, x = res
    gb = triangular_solve(tri, g, lower, not trans)
    x2, gb2 = (x[:, None], gb[:, None]) if x.ndim == 1 else (x, gb)
    gt = -(x2 @ gb2.T) if trans else -(gb2 @ x2.T)
    return (jnp.tril(gt) if lower else jnp.triu(gt)), gb


triangular_solve.defvjp(_tri_fwd, _tri_bwd)


@jax.custom_jvp
def expm_multiply(a, v, t):
    """Action of the matrix exponential, ``expm(t * a) @ v``.

    a is (n, n), v is (n,), t a scalar.
    """
    return jsl.expm(t * a) @ v


@expm_multiply.defjvp
def _expm_multiply_jvp(primals, tangents):
    a, v, t = primals
    da, dv, dt = tangents
    prop = jsl.expm(t * a)
    out = prop @ v
    dout = prop @ dv + dt * (a @ out) + t * (prop @ (da @ v))
    return out, dout


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def sum_top_eigenvalues(a, k):
    # a: [..., n, n], symmetrised before the decomposition
    w = jnp.linalg.eigvalsh(a)
    return w[..., -k:].sum(-1)


def _ste_fwd(a, k):
    w, v = jnp.linalg.eigh(a)
    return w[..., -k:].sum(-1), v[..., :, -k:]


def _ste_bwd(k, vk, g):
    return (g[..., None, None] * (vk @ jnp.swapaxes(vk, -1, -2)),)


sum_top_eigenvalues.defvjp(_ste_fwd, _ste_bwd)


def _lowrank_apply(d, u, b):
    """(diag(d) + u u^T)^{-1} b through an r-by-r Cholesky factorisation."""
    ud = u / d[:, None]
    cap = jnp.eye(u.shape[1], dtype=u.dtype) + u.T @ ud
    return b / d - ud @ jsl.cho_solve(jsl.cho_factor(cap), ud.T @ b)


@jax.custom_vjp
def woodbury_solve(d, u, b):
    """Solve ``(diag(d) + u @ u.T) x = b`` with the Woodbury identity.

    Args:
        d: positive diagonal, shape [n].
        u: low-rank factor, shape [n, r].
        b: right-hand side, shape [n].

    Returns:
        x, shape [n].
    """
    return _lowrank_apply(d, u, b)


def _woodbury_fwd(d, u, b):
    x = _lowrank_apply(d, u, b)
    return x, (d, u, x)


def _woodbury_bwd(res, g):
    d, u, x = res
    lam = _lowrank_apply(d, u, g)
    gd = -lam * x
    gu = -2.0 * jnp.outer(lam, x @ u)
    return gd, gu, lam


woodbury_solve.defvjp(_woodbury_fwd, _woodbury_bwd)


def _thomas(dl, d, du, b):
    def forward(carry, row):
        c_prev, y_prev = carry
        lo, di, up, rhs = row
        den = di - lo * c_prev
        c, y = up / den, (rhs - lo * y_prev) / den
        return (c, y), (c, y)

    def backward(x_next, row):
        c, y = row
        x = y - c * x_next
        return x, x

    zero = jnp.zeros((), b.dtype)
    _, (c, y) = jax.lax.scan(forward, (zero, zero), (dl, d, du, b))
    _, x = jax.lax.scan(backward, zero, (c, y), reverse=True)
    return x


@jax.custom_vjp
def tridiagonal_solve(dl, d, du, b):
    """Thomas algorithm.

    Row ``i`` of the system reads ``dl[i] x[i-1] + d[i] x[i] + du[i] x[i+1] = b[i]``;
    ``dl[0]`` and ``du[-1]`` are ignored.

    :param dl: lower diagonal, ``(n,)``
    :param d: main diagonal, ``(n,)``
    :param du: upper diagonal, ``(n,)``
    :param b: right-hand side, ``(n,)``
    """
    return _thomas(dl, d, du, b)


def _tridiag_fwd(dl, d, du, b):
    x = _thomas(dl, d, du, b)
    return x, (dl, d, du, x)


def _tridiag_bwd(res, g):
    dl, d, du, x = res
    lam = _thomas(du, d, dl, g)
    gl = -lam * jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]])
    gu = -lam * jnp.concatenate([x[1:], jnp.zeros_like(x[:1])])
    return gl, -lam * x, gu, lam


tridiagonal_solve.defvjp(_tridiag_fwd, _tridiag_bwd)


@jax.custom_vjp
def rbf_kernel(x1, x2, log_lengthscale, log_variance):
    return _rbf_fwd(x1, x2, log_lengthscale, log_variance)[0]


def _rbf_fwd(x1, x2, log_lengthscale, log_variance):
    inv = jnp.exp(-log_lengthscale)
    diff = (x1[:, None, :] - x2[None, :, :]) * inv
    k = jnp.exp(log_variance - 0.5 * jnp.sum(diff * diff, axis=-1))
    return k, (diff, inv, k)


def _rbf_bwd(res, g):
    diff, inv, k = res
    gk = g * k
    pull = gk[..., None] * diff
    return (-pull.sum(1) * inv, pull.sum(0) * inv,
            (pull * diff).sum((0, 1)), gk.sum())


rbf_kernel.defvjp(_rbf_fwd, _rbf_bwd)


class ARDRegressor(eqx.Module):
    """Exact GP regression with an ARD squared-exponential kernel."""

    log_lengthscale: jax.Array
    log_variance: jax.Array
    log_noise: jax.Array

    def __init__(self, n_features):
        self.log_lengthscale = jnp.zeros(n_features)
        self.log_variance = jnp.zeros(())
        self.log_noise = jnp.log(0.1) * jnp.ones(())

    def __call__(self, x_train, y_train, x_test):
        k = rbf_kernel(x_train, x_train, self.log_lengthscale, self.log_variance)
        k = k + jnp.exp(2 * self.log_noise) * jnp.eye(x_train.shape[0])
        alpha = linear_solve(k, y_train)
        return rbf_kernel(x_test, x_train, self.log_lengthscale, self.log_variance) @ alpha


@jax.custom_vjp
def kalman_update(mean, cov, y, obs, noise):
    """Measurement update of a Kalman filter.

    Args:
        mean: prior mean, (n,)
        cov: prior covariance, (n, n)
        y: measurement, (m,)
        obs: observation matrix, (m, n)
        noise: measurement covariance, (m, m)

    Returns:
        (posterior mean, posterior covariance)
    """
    return _kalman_fwd(mean, cov, y, obs, noise)[0]


def _kalman_fwd(mean, cov, y, obs, noise):
    hp = obs @ cov
    s = hp @ obs.T + noise
    gain = jnp.linalg.solve(s.T, (cov @ obs.T).T).T
    innov = y - obs @ mean
    out = (mean + gain @ innov, cov - gain @ hp)
    return out, (mean, cov, obs, s, gain, innov)


def _kalman_bwd(res, cts):
    mean, cov, obs, s, gain, innov = res
    gm, gp = cts
    hp = obs @ cov
    g_gain = jnp.outer(gm, innov) - gp @ hp.T
    g_innov = gain.T @ gm
    g_hp = -gain.T @ gp
    g_pht = jnp.linalg.solve(s, g_gain.T).T
    g_s = -gain.T @ g_pht
    g_cov = gp + obs.T @ g_hp + g_pht @ obs + obs.T @ g_s @ obs
    g_obs = (g_hp @ cov.T + g_pht.T @ cov + g_s @ obs @ cov.T + g_s.T @ hp
             - jnp.outer(g_innov, mean))
    return gm - obs.T @ g_innov, g_cov, g_innov, g_obs, g_s


kalman_update.defvjp(_kalman_fwd, _kalman_bwd)


if __name__ == "__main__":
    model = ARDRegressor(2)
    xs = jax.random.normal(jax.random.PRNGKey(0), (20, 2))
    ys = jnp.sin(xs[:, 0])
    print(eqx.filter_grad(lambda m: jnp.mean((m(xs, ys, xs) - ys) ** 2))(model))
