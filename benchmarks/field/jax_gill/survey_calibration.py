# Estimation from complex surveys: raking, calibration, replicate variances.
#
# The estimators are differentiated with respect to weights and data, for
# linearised variances and for the design optimiser.
import functools

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl


def _scale(target, total):
    """target / total, and 0 for classes that hold nothing."""
    filled = total > 0
    return jnp.where(filled, target / jnp.where(filled, total, 1.0), 0.0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def rake_two_margins(table, rows, cols, sweeps=10):
    """Iterative proportional fitting of a weighted two-way table.

    Parameters
    ----------
    table : (R, C) array
        Weighted counts, not negative.  A class without any case stays empty.
    rows : (R,) array
        Known row totals.
    cols : (C,) array
        Known column totals; matched last in each sweep.
    sweeps : int
        Number of sweeps (static).

    Returns
    -------
    (R, C) array
        The raked table after `sweeps` sweeps.
    """
    return _rake_fwd(table, rows, cols, sweeps)[0]


def _rake_fwd(table, rows, cols, sweeps):
    def sweep(t, _):
        half = _scale(rows, t.sum(1))[:, None] * t
        full = _scale(cols, half.sum(0))[None, :] * half
        return full, (t, half)

    out, history = jax.lax.scan(sweep, table, None, length=sweeps)
    return out, (rows, cols, history)


def _unscale(grad, before, target, axis):
    """Pull back `before * target / before.sum(axis)` (the sum over the other classes)."""
    total = before.sum(axis)
    factor = _scale(target, total)
    inner = (grad * before).sum(axis)
    d_target = _scale(inner, total)
    d_total = -factor * d_target
    spread = jnp.expand_dims(d_total, axis)
    return grad * jnp.expand_dims(factor, axis) + spread, d_target


def _rake_bwd(sweeps, res, g):
    rows, cols, history = res

    def back(carry, step):
        grad, d_rows, d_cols = carry
        start, half = step
        grad, dc = _unscale(grad, half, cols, 0)
        grad, dr = _unscale(grad, start, rows, 1)
        return (grad, d_rows + dr, d_cols + dc), None

    init = (g, jnp.zeros_like(rows), jnp.zeros_like(cols))
    (grad, d_rows, d_cols), _ = jax.lax.scan(back, init, history, reverse=True)
    return grad, d_rows, d_cols


rake_two_margins.defvjp(_rake_fwd, _rake_bwd)


def _normal_matrix(x, d, ridge):
    return (x * d[:, None]).T @ x + ridge * jnp.eye(x.shape[1], dtype=x.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def regression_total(y, x, d, totals, ridge=0.0):
    """Totals of the survey variables after linear calibration (the GREG estimator).

    Parameters
    ----------
    y : (n, m) array
        Survey variables.
    x : (n, p) array
        Auxiliary variables of the sample.
    d : (n,) array
        Design weights.
    totals : (p,) array
        Population totals of the auxiliaries.
    ridge : float
        Penalty of the calibration (static); 0 meets the totals exactly.

    Returns
    -------
    (m,) array
        ``y' d + B' (totals - x' d)`` with ``B = (x' D x + ridge I)^-1 x' D y``.
    """
    return _greg_fwd(y, x, d, totals, ridge)[0]


def _greg_fwd(y, x, d, totals, ridge):
    factor = jsl.cho_factor(_normal_matrix(x, d, ridge))
    slope = jsl.cho_solve(factor, (x * d[:, None]).T @ y)
    lam = jsl.cho_solve(factor, totals - x.T @ d)
    return y.T @ d + slope.T @ (totals - x.T @ d), (y, x, d, slope, lam)


def _greg_bwd(ridge, res, g):
    y, x, d, slope, lam = res
    yg, bg = y @ g, slope @ g
    adjust = 1.0 + x @ lam  # g-weights
    d_y = (d * adjust)[:, None] * g
    d_d = adjust * (yg - x @ bg)
    # normal matrix: totals enter through lam, the outcomes through bg
    g_matrix = -jnp.outer(lam, bg)
    d_x = yg[:, None] * lam - bg + 2.0 * x @ g_matrix
    return d_y, d[:, None] * d_x, d_d, bg


regression_total.defvjp(_greg_fwd, _greg_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def replicate_covariance(estimates, full, scale, mse=False):
    """Covariance of survey estimates from replicate weights.

    Parameters
    ----------
    estimates : (R, m) array
        Estimates under the replicate weights.
    full : (m,) array
        Estimate under the full-sample weights.
    scale : (R,) array
        Factor of each replicate, e.g. ``(1 - f_h) (n_h - 1) / n_h`` of the stratum of the deleted unit.
    mse : bool
        Centre at the full-sample estimate rather than at the mean of the replicates (static).

    Returns
    -------
    (m, m) array
    """
    dev = estimates - _centre(estimates, full, mse)
    return (dev * scale[:, None]).T @ dev


def _centre(estimates, full, mse):
    return full if mse else jnp.mean(estimates, axis=0)


def _replicate_fwd(estimates, full, scale, mse):
    return replicate_covariance(estimates, full, scale, mse), (estimates, full, scale)


def _replicate_bwd(mse, res, g):
    estimates, full, scale = res
    dev = estimates - _centre(estimates, full, mse)
    pull = dev @ (g + g.T)
    d_scale = 0.5 * jnp.sum(pull * dev, axis=1)
    d_estimates = scale[:, None] * pull
    d_full = -jnp.sum(d_estimates, axis=0) if mse else jnp.zeros_like(full)
    return d_estimates, d_full, d_scale


replicate_covariance.defvjp(_replicate_fwd, _replicate_bwd)


def standard_errors(estimates, full, scale, mse=False):
    """Root of the diagonal of :func:`replicate_covariance`."""
    return jnp.sqrt(jnp.diagonal(replicate_covariance(estimates, full, scale, mse)))
