"""Likelihoods and present values used in the reserving models."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.special import gammaln

LOG_2PI = 1.8378770664093453


# ------------------------------------------------------------------ present values


def _exprel(y):
    near = jnp.abs(y) < 1e-5
    safe = jnp.where(near, 1.0, y)
    return jnp.where(near, 1.0 + y / 2 + y * y / 6, jnp.expm1(safe) / safe)


def _log_exprel_slope(y):
    """d/dy log((e^y - 1) / y), that is 1/(1 - e^-y) - 1/y, by Bernoulli numbers close to zero."""
    near = jnp.abs(y) < 0.5
    a = jnp.where(near, y, 0.0)
    b = jnp.where(near, 1.0, y)
    a2 = a * a
    poly = 1 / 12 + a2 * (-1 / 720 + a2 * (1 / 30240 + a2 * (-1 / 1209600 + a2 / 47900160)))
    return jnp.where(near, 0.5 + a * poly, -1.0 / jnp.expm1(-b) - 1.0 / b)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def growing_annuity(rate, growth, periods, due=False):
    """Present value of a unit annuity whose payments grow.

    ::

        PV = (1 - ((1 + growth) / (1 + rate)) ** periods) / (rate - growth)

    including the limit at ``rate == growth``.

    Parameters
    ----------
    rate, growth : float array
        Interest and growth per period, above -1 and of the usual size.
    periods : float array
        Number of periods, positive; fractions are allowed.
    due : bool
        Payments at the beginning of the periods.
    """
    s = jnp.log1p(growth) - jnp.log1p(rate)
    total = periods * _exprel(periods * s) / _exprel(s)
    return total if due else total / (1.0 + rate)


@growing_annuity.defjvp
def _growing_annuity_jvp(due, primals, tangents):
    rate, growth, periods = primals
    d_rate, d_growth, d_periods = tangents
    value = growing_annuity(rate, growth, periods, due)
    s = jnp.log1p(growth) - jnp.log1p(rate)
    slope = periods * _log_exprel_slope(periods * s) - _log_exprel_slope(s)
    ds = d_growth / (1.0 + growth) - d_rate / (1.0 + rate)
    lead = 1.0 if due else 1.0 / (1.0 + rate)
    tangent = value * slope * ds + lead * jnp.exp(periods * s) / _exprel(s) * d_periods
    if not due:
        tangent = tangent - value * d_rate / (1.0 + rate)
    return value, tangent


# ------------------------------------------------------------------ claim counts


def _sum_to(x, shape):
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=axes, keepdims=True)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def zero_truncated_poisson_nll(log_rate, log_exposure, counts, mask, reduction="mean"):
    """Negative log-likelihood of claim counts that are only recorded when positive.

    ``log_exposure`` broadcasts to ``log_rate`` (for instance ``[policy, 1]`` against ``[policy, year]``, or a
    scalar array). ``counts`` are integers >= 1 and ``mask`` is boolean, both of the shape of ``log_rate``. The
    mean is over the unmasked cells; an empty mask gives zero. ``reduction`` is ``"mean"``, ``"sum"`` or
    ``"none"`` (masked cells are zero).
    """
    return _ztp_fwd(log_rate, log_exposure, counts, mask, reduction)[0]


def _ztp_fwd(log_rate, log_exposure, counts, mask, reduction):
    eta = log_rate + log_exposure
    lam = jnp.exp(eta)
    y = counts.astype(eta.dtype)
    # log(1 - exp(-lam)) = eta + log exprel(-lam), fine for tiny rates
    cell = lam - y * eta + gammaln(y + 1.0) + eta + jnp.log(_exprel(-lam))
    cell = jnp.where(mask, cell, 0.0)
    n = jnp.maximum(mask.sum(), 1).astype(eta.dtype)
    out = {"none": lambda: cell, "sum": cell.sum, "mean": lambda: cell.sum() / n}[reduction]()
    return out, (lam, y, mask, n, log_exposure)


def _ztp_bwd(reduction, res, ct):
    lam, y, mask, n, log_exposure = res
    # the truncated mean lam / (1 - exp(-lam)) is 1 / exprel(-lam)
    d_eta = jnp.where(mask, (1.0 / _exprel(-lam) - y) * ct, 0.0)
    if reduction == "mean":
        d_eta = d_eta / n
    return d_eta, _sum_to(d_eta, jnp.shape(log_exposure)), None, None


zero_truncated_poisson_nll.defvjp(_ztp_fwd, _ztp_bwd)


# ------------------------------------------------------------------ run-off triangles


@jax.custom_vjp
def matrix_normal_logpdf(x, mean, row_cov, col_cov):
    """Log density of the matrix normal distribution MN(mean, row_cov, col_cov).

    Parameters
    ----------
    x, mean : (n, p) array
        Observed and expected development factors, origin years by lags.
    row_cov : (n, n) array
        Covariance between origin years, symmetric positive definite.
    col_cov : (p, p) array
        Covariance between lags, symmetric positive definite.

    Returns
    -------
    scalar array
    """
    return _mn_fwd(x, mean, row_cov, col_cov)[0]


def _mn_fwd(x, mean, row_cov, col_cov):
    n, p = x.shape
    diff = x - mean
    lu = jnp.linalg.cholesky(row_cov)
    lv = jnp.linalg.cholesky(col_cov)
    white = solve_triangular(lv, solve_triangular(lu, diff, lower=True).T, lower=True)
    logdet_u = 2.0 * jnp.log(jnp.diag(lu)).sum()
    logdet_v = 2.0 * jnp.log(jnp.diag(lv)).sum()
    logp = -0.5 * (jnp.sum(white**2) + n * p * LOG_2PI + p * logdet_u + n * logdet_v)
    return logp, (diff, lu, lv)


def _mn_bwd(res, g):
    diff, lu, lv = res
    n, p = diff.shape
    u_inv_d = cho_solve((lu, True), diff)  # U^-1 D
    core = cho_solve((lv, True), u_inv_d.T).T  # U^-1 D V^-1
    u_inv = cho_solve((lu, True), jnp.eye(n, dtype=diff.dtype))
    v_inv = cho_solve((lv, True), jnp.eye(p, dtype=diff.dtype))
    d_row = 0.5 * g * (core @ u_inv_d.T - n * u_inv)
    d_col = 0.5 * g * (u_inv_d.T @ diff)
    d_col = v_inv @ d_col @ v_inv - 0.5 * g * p * v_inv
    return -g * core, g * core, d_row, d_col


matrix_normal_logpdf.defvjp(_mn_fwd, _mn_bwd)


def fit_lag_means(triangles, row_cov, col_cov, steps=200, lr=0.05):
    """Common mean per lag, by gradient ascent over a stack of triangles ``[k, n, p]``."""
    n = triangles.shape[1]

    def objective(mu):
        mean = jnp.broadcast_to(mu, (n, mu.size))
        return jax.vmap(lambda t: matrix_normal_logpdf(t, mean, row_cov, col_cov))(triangles).mean()

    mu = triangles.mean((0, 1))
    step = jax.jit(lambda m: m + lr * jax.grad(objective)(m) / n)
    for _ in range(steps):
        mu = step(mu)
    return mu
