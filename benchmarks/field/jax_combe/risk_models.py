"""Likelihoods, valuations and covariance estimates for the credit desk."""
from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy


@jax.custom_vjp
def shrink_covariance(x, rho):
    r"""Linear shrinkage of the sample covariance towards a scaled identity.

    .. math:: \Sigma = (1 - \rho)\, S + \rho\, \frac{\mathrm{tr}\, S}{d}\, I,
              \qquad S = \frac1n (X - \bar X)^\top (X - \bar X)

    Parameters
    ----------
    x : array, shape (n, d)
        Observations in rows. They are centred here.
    rho : scalar
        Shrinkage intensity in [0, 1]. May be learned.

    Returns
    -------
    array, shape (d, d)

    Notes
    -----
    Single entries of the result may be used (pair covariances, betas against one column) as well
    as the whole matrix.
    """
    return _shrink_fwd(x, rho)[0]


def _shrink_fwd(x, rho):
    n, d = x.shape
    xc = x - x.mean(0)
    s = xc.T @ xc / n
    target = jnp.trace(s) / d * jnp.eye(d, dtype=x.dtype)
    return (1 - rho) * s + rho * target, (xc, rho, s, target)


def _shrink_bwd(res, g):
    xc, rho, s, target = res
    n, d = xc.shape
    gs = (1 - rho) * g + rho * jnp.trace(g) / d * jnp.eye(d, dtype=g.dtype)
    grho = jnp.sum(g * (target - s))
    gx = 2.0 / n * xc @ gs
    return gx - gx.mean(0), grho


shrink_covariance.defvjp(_shrink_fwd, _shrink_bwd)


def _frank_parts(u, v, theta):
    a = -jnp.expm1(-theta)
    au = -jnp.expm1(-theta * u)
    av = -jnp.expm1(-theta * v)
    return a, au, av, a - au * av


@jax.custom_jvp
def frank_copula_logpdf(u, v, theta):
    """Log density of the Frank copula, u and v in (0, 1), theta of either sign but not 0."""
    a, _, _, den = _frank_parts(u, v, theta)
    return jnp.log(theta * a) - theta * (u + v) - 2.0 * jnp.log(jnp.abs(den))


@frank_copula_logpdf.defjvp
def _frank_jvp(primals, tangents):
    u, v, theta = primals
    du, dv, dtheta = tangents
    a, au, av, den = _frank_parts(u, v, theta)
    eu, ev, et = jnp.exp(-theta * u), jnp.exp(-theta * v), jnp.exp(-theta)
    out = jnp.log(theta * a) - theta * (u + v) - 2.0 * jnp.log(jnp.abs(den))
    lu = theta * (2.0 * eu * av / den - 1.0)
    lv = theta * (2.0 * ev * au / den - 1.0)
    lt = 1.0 / theta + et / a - (u + v) - 2.0 * (et - u * eu * av - v * ev * au) / den
    return out, lu * du + lv * dv + lt * dtheta


def _make_pv(m):
    @jax.custom_gradient
    def pv(cf, times, zero, spread):
        base = 1.0 + (zero + spread[:, None]) / m
        df = base ** (-m * times)

        def back(g):
            gcf = g[:, None] * df
            w = gcf * cf
            per_rate = -w * times / base
            gtimes = -m * (w * jnp.log(base)).sum(0)
            return gcf, gtimes, per_rate.sum(0), per_rate.sum(1)

        return (cf * df).sum(1), back

    return pv


# semiannual; cf is bonds x dates
ladder_pv = _make_pv(2)


def fit_spreads(cf, times, zero, price, lr=1e-6, steps=200):
    loss = lambda s: 0.5 * jnp.sum((ladder_pv(cf, times, zero, s) - price) ** 2)
    s = jnp.zeros(cf.shape[0])
    for _ in range(steps):
        s = s - lr * jax.grad(loss)(s)
    return s


def _deviance_terms(y, mu):
    return 2.0 * (xlogy(y, y / mu) - (y - mu))


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def poisson_deviance(mu, y, w, reduction="mean"):
    """Poisson deviance of integer counts y at means mu > 0 with weights w, all (N,); reduction 'mean' (weighted), 'sum' or 'none'."""
    d = w * _deviance_terms(y, mu)
    if reduction == "none":
        return d
    total = d.sum()
    return total / w.sum() if reduction == "mean" else total


def _dev_fwd(mu, y, w, reduction):
    out = poisson_deviance(mu, y, w, reduction)
    return out, (mu, y, w, out)


def _dev_bwd(reduction, res, g):
    mu, y, w, out = res
    d = _deviance_terms(y, mu)
    if reduction == "mean":
        g = g / mu.size
        d = d - out
    return g * w * 2.0 * (1.0 - y / mu), None, g * d


poisson_deviance.defvjp(_dev_fwd, _dev_bwd)


def claim_loss(beta, x, y, exposure=None):
    mu = jnp.exp(x @ beta)
    w = jnp.ones_like(mu) if exposure is None else exposure
    return poisson_deviance(mu, y, w)
