"""Volatility smile and serial-correlation helpers for the desk's calibration code."""
from functools import partial

import jax
import jax.numpy as jnp

_ATM = 1e-2


# z / x(z) of Hagan et al. (2002). Removable singularity at the money.


@jax.custom_jvp
def hagan_ratio(z, rho):
    """``z / x(z)`` with ``x(z) = log((sqrt(1 - 2 rho z + z^2) + z - rho) / (1 - rho))``.

    Fourth order expansion for ``|z| < 0.01``. ``-1 < rho < 1``; the arguments broadcast.
    """
    near = jnp.abs(z) < _ATM
    zs = jnp.where(near, 1.0, z)
    x = jnp.log((_root(zs, rho) + zs - rho) / (1.0 - rho))
    c1, c2, c3, c4 = _series(rho)
    return jnp.where(near, 1.0 + z * (c1 + z * (c2 + z * (c3 + z * c4))), zs / x)


def _series(rho):
    r2 = rho**2
    return -rho / 2.0, 1.0 / 6.0 - r2 / 4.0, rho * (5.0 / 24.0 - r2 / 4.0), -17.0 / 360.0 + r2 * (1.0 / 3.0 - 0.3125 * r2)


def _root(z, rho):
    return jnp.sqrt(1.0 - 2.0 * rho * z + z * z)


def _dz(t, ans, z, rho):
    near = jnp.abs(z) < _ATM
    zs = jnp.where(near, 1.0, z)
    far = ans / zs * (1.0 - ans / _root(zs, rho))
    c1, c2, c3, c4 = _series(rho)
    return t * jnp.where(near, c1 + z * (2.0 * c2 + z * (3.0 * c3 + z * 4.0 * c4)), far)


def _drho(t, ans, z, rho):
    near = jnp.abs(z) < _ATM
    zs = jnp.where(near, 1.0, z)
    s = _root(zs, rho)
    x_rho = 1.0 / (1.0 - rho) - (1.0 + zs / s) / (s + zs - rho)
    far = -(ans**2) / zs * x_rho
    d3, d4 = 5.0 / 24.0 - 0.75 * rho**2, rho * (2.0 / 3.0 - 1.25 * rho**2)
    return t * jnp.where(near, z * (-0.5 + z * (-rho / 2.0 + z * (d3 + z * d4))), far)


hagan_ratio.defjvps(_dz, _drho)


def sabr_normal_vol(forward, strike, expiry, alpha, rho, nu):
    """Normal (Bachelier) SABR volatility for beta = 0."""
    z = nu / alpha * (forward - strike)
    return alpha * hagan_ratio(z, rho) * (1.0 + (2.0 - 3.0 * rho**2) / 24.0 * nu**2 * expiry)


# --- long-run variance -------------------------------------------------------


def _bartlett(lags):
    return [1.0 - k / (lags + 1.0) for k in range(1, lags + 1)]


@partial(jax.custom_vjp, nondiff_argnames=("lags",))
def newey_west_variance(x, lags=0):
    """Newey-West long-run variance along the last axis.

    Args:
        x: ``(..., T)`` returns; they are demeaned here.
        lags: number of autocovariances with Bartlett weights (0 gives the sample variance), less than ``T``.

    Returns:
        ``(...)`` variances.
    """
    n = x.shape[-1]
    e = x - x.mean(-1, keepdims=True)
    out = jnp.sum(e * e, -1)
    for k, w in enumerate(_bartlett(lags), start=1):
        out = out + 2.0 * w * jnp.sum(e[..., k:] * e[..., :-k], -1)
    return out / n


def _nw_fwd(x, lags):
    return newey_west_variance(x, lags), x - x.mean(-1, keepdims=True)


def _nw_bwd(lags, e, g):
    n = e.shape[-1]
    d = e
    for k, w in enumerate(_bartlett(lags), start=1):
        d = d.at[..., k:].add(w * e[..., :-k])
        d = d.at[..., :-k].add(w * e[..., k:])
    return (2.0 / n * g[..., None] * d,)


newey_west_variance.defvjp(_nw_fwd, _nw_bwd)


def hac_sharpe_loss(weights, returns, lags=4):
    """Negative Sharpe ratio with a HAC standard deviation. ``returns``: (T, assets)."""
    pnl = returns @ weights
    return -pnl.mean() / jnp.sqrt(newey_west_variance(pnl, lags))
