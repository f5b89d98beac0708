"""Rates-options desk helpers: SABR smile, annuities, arbitrage guard."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

_SMALL_Z = 0.03


def _legendre(rho, order):
    p = [jnp.ones_like(rho), rho]
    for n in range(1, order):
        p.append(((2 * n + 1) * rho * p[n] - n * p[n - 1]) / (n + 1))
    return p


def _legendre_prime(rho, order, p):
    d = [jnp.zeros_like(rho), jnp.ones_like(rho)]
    for n in range(1, order):
        d.append(d[n - 1] + (2 * n + 1) * p[n])
    return d


def _z_over_x(z, rho):
    """z / x(z, rho) and its partials in z and rho.

    x(z) is the integral of 1/sqrt(1 - 2 rho v + v^2), the generating function
    of the Legendre polynomials, which gives the series around the money.
    """
    z, rho = jnp.broadcast_arrays(z, rho)
    small = jnp.abs(z) < _SMALL_Z
    zs = jnp.where(small, z, 0.0)
    p = _legendre(rho, 6)
    dp = _legendre_prime(rho, 6, p)
    q = sum(p[n] * zs**n / (n + 1) for n in range(7))
    q_z = sum(n * p[n] * zs ** (n - 1) / (n + 1) for n in range(1, 7))
    q_r = sum(dp[n] * zs**n / (n + 1) for n in range(7))
    near = (1.0 / q, -q_z / q**2, -q_r / q**2)

    zl = jnp.where(small, 1.0, z)
    sgn = jnp.where(zl < 0, -1.0, 1.0)  # x(-z, rho) = -x(z, -rho)
    za, r = jnp.abs(zl), sgn * rho
    s = jnp.sqrt(1.0 - 2.0 * r * za + za**2)
    x = jnp.log1p((za + za * (za - 2.0 * r) / (s + 1.0)) / (1.0 - r))
    x_r = za**2 * (s + (za - 2.0 * r) * (s + 1.0 - r) / (s + 1.0)) / (
        (s + 1.0) * (1.0 - r) * s * (s + za - r))
    far = (za / x, sgn * (x - za / s) / x**2, -sgn * za * x_r / x**2)
    return tuple(jnp.where(small, a, b) for a, b in zip(near, far))


@partial(jax.custom_jvp, nondiff_argnums=(6,))
def sabr_lognormal_vol(forward, strike, expiry, alpha, rho, nu, beta=0.5):
    """Hagan's lognormal SABR volatility.

    All but ``beta`` broadcast. Domain: forward, strike, alpha, nu > 0,
    expiry >= 0, |rho| < 1, 0 <= beta <= 1. Smooth through the money.
    """
    c = 1.0 - beta
    m = jnp.log(forward / strike)
    fk = (forward * strike) ** (0.5 * c)
    ratio, _, _ = _z_over_x(nu / alpha * fk * m, rho)
    den = 1.0 + c**2 / 24.0 * m**2 + c**4 / 1920.0 * m**4
    drift = (c**2 / 24.0 * alpha**2 / fk**2 + 0.25 * rho * beta * nu * alpha / fk
             + (2.0 - 3.0 * rho**2) / 24.0 * nu**2)
    return alpha / (fk * den) * ratio * (1.0 + drift * expiry)


@sabr_lognormal_vol.defjvp
def _sabr_jvp(beta, primals, tangents):
    f, k, t, alpha, rho, nu = primals
    df, dk, dt, dalpha, drho, dnu = tangents
    c = 1.0 - beta
    m = jnp.log(f / k)
    fk = (f * k) ** (0.5 * c)
    dm = df / f - dk / k
    dlfk = 0.5 * c * (df / f + dk / k)

    z = nu / alpha * fk * m
    dz = nu / alpha * fk * dm + z * (dnu / nu - dalpha / alpha + dlfk)
    ratio, r_z, r_rho = _z_over_x(z, rho)
    dratio = r_z * dz + r_rho * drho

    den = 1.0 + c**2 / 24.0 * m**2 + c**4 / 1920.0 * m**4
    dden = (c**2 / 12.0 * m + c**4 / 480.0 * m**3) * dm

    t1 = c**2 / 24.0 * alpha**2 / fk**2
    t2 = 0.25 * beta * nu * alpha / fk
    t3 = (2.0 - 3.0 * rho**2) / 24.0 * nu**2
    drift = t1 + rho * t2 + t3
    ddrift = (2.0 * t1 * (dalpha / alpha - dlfk)
              + rho * t2 * (dnu / nu + dalpha / alpha - dlfk) + t2 * drho
              + 2.0 * t3 * dnu / nu - 0.25 * rho * nu**2 * drho)
    growth = 1.0 + drift * t

    lead = alpha / (fk * den)
    vol = lead * ratio * growth
    dvol = (vol * (dalpha / alpha - dlfk - dden / den)
            + lead * dratio * growth
            + lead * ratio * (ddrift * t + drift * dt))
    return vol, dvol


class Annuity(NamedTuple):
    pv: jax.Array
    duration: jax.Array


@jax.custom_vjp
def annuity_and_duration(zeros, times, accruals, alive):
    """PV01 of the fixed leg and its Macaulay duration.

    zeros (..., n) continuously compounded, times (n,), accruals (n,),
    alive (..., n) 0./1. for coupons not yet paid.
    """
    w = alive * accruals * jnp.exp(-zeros * times)
    pv = w.sum(-1)
    return Annuity(pv, (w * times).sum(-1) / pv)


def _annuity_fwd(zeros, times, accruals, alive):
    disc = jnp.exp(-zeros * times)
    w = alive * accruals * disc
    pv = w.sum(-1)
    out = Annuity(pv, (w * times).sum(-1) / pv)
    return out, (zeros, times, accruals, alive, disc)


def _annuity_bwd(res, ct):
    zeros, times, accruals, alive, disc = res
    g = ct.pv[..., None]
    w = alive * accruals * disc
    lead = tuple(range(zeros.ndim - 1))
    d_zeros = -g * times * w
    d_times = (-g * zeros * w).sum(lead)
    d_accruals = (g * alive * disc).sum(lead)
    d_alive = g * accruals * disc
    return d_zeros, d_times, d_accruals, d_alive


annuity_and_duration.defvjp(_annuity_fwd, _annuity_bwd)


def make_smile_guard(strikes, weight=1.0):
    h = jnp.diff(jnp.asarray(strikes))
    left, right = h[:-1], h[1:]

    @jax.custom_vjp
    def butterfly(calls):
        """Squared convexity violations of call prices (..., K) on the strike grid."""
        return fwd(calls)[0]

    def fwd(calls):
        steps = jnp.diff(calls, axis=-1)
        convexity = steps[..., 1:] / right - steps[..., :-1] / left
        short = jnp.maximum(-convexity, 0.0)
        return weight * jnp.sum(short**2, axis=-1), short

    def bwd(short, g):
        d = -2.0 * weight * g[..., None] * short
        up = jnp.pad(d / left, [(0, 0)] * (d.ndim - 1) + [(2, 0)])
        down = jnp.pad(d / right, [(0, 0)] * (d.ndim - 1) + [(0, 2)])
        mid = jnp.pad(d * (1.0 / left + 1.0 / right), [(0, 0)] * (d.ndim - 1) + [(1, 1)])
        return (up + down - mid,)

    butterfly.defvjp(fwd, bwd)
    return butterfly
