"""Interpolation, polynomial bases and a few special functions."""
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def _second_derivative_matrix(knots):
    n = len(knots)
    h = np.diff(knots)
    lhs = np.eye(n)
    rhs = np.zeros((n, n))
    for i in range(1, n - 1):
        lhs[i, i - 1:i + 2] = h[i - 1] / 6, (h[i - 1] + h[i]) / 3, h[i] / 6
        rhs[i, i - 1:i + 2] = 1 / h[i - 1], -1 / h[i - 1] - 1 / h[i], 1 / h[i]
    return np.linalg.solve(lhs, rhs)


def make_natural_spline(knots):
    """Natural cubic spline through fixed knots.

    Args:
        knots: increasing sequence of n >= 3 floats.

    Returns:
        ``spline(y, x)`` where ``y`` has shape ``[n]`` and ``x`` any shape; outside the knots
        the end polynomials are continued.
    """
    knots = np.asarray(knots, dtype=np.float64)
    M2 = _second_derivative_matrix(knots)
    gaps = np.diff(knots)

    def locate(x):
        kn = jnp.asarray(knots, x.dtype)
        i = jnp.clip(jnp.searchsorted(kn, x, side="right") - 1, 0, len(knots) - 2)
        h = jnp.asarray(gaps, x.dtype)[i]
        b = (x - kn[i]) / h
        return i, h, 1 - b, b

    @jax.custom_vjp
    def spline(y, x):
        i, h, a, b = locate(x)
        m = jnp.asarray(M2, y.dtype) @ y
        return (a * y[i] + b * y[i + 1]
                + ((a ** 3 - a) * m[i] + (b ** 3 - b) * m[i + 1]) * h ** 2 / 6)

    def fwd(y, x):
        return spline(y, x), (y, x)

    def bwd(res, g):
        y, x = res
        i, h, a, b = locate(x)
        mat = jnp.asarray(M2, y.dtype)
        m = mat @ y
        slope = ((y[i + 1] - y[i]) / h
                 + ((3 * b ** 2 - 1) * m[i + 1] - (3 * a ** 2 - 1) * m[i]) * h / 6)
        zero = jnp.zeros_like(y)
        direct = zero.at[i].add(g * a).at[i + 1].add(g * b)
        curv = (zero.at[i].add(g * (a ** 3 - a) * h ** 2 / 6)
                .at[i + 1].add(g * (b ** 3 - b) * h ** 2 / 6))
        return direct + mat.T @ curv, g * slope

    spline.defvjp(fwd, bwd)
    return spline


# default yield-curve tenors, in years
zero_curve = make_natural_spline([0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0])


def discount(rates, t):
    return jnp.exp(-zero_curve(rates, t) * t)


def _bracket(x, xp):
    i = jnp.clip(jnp.searchsorted(xp, x, side="right") - 1, 0, xp.shape[0] - 2)
    inside = (x >= xp[0]) & (x <= xp[-1])
    w = jnp.clip((x - xp[i]) / (xp[i + 1] - xp[i]), 0.0, 1.0)
    return i, w, inside


@jax.custom_vjp
def interp_linear(x, xp, fp):
    """Piecewise linear interpolation, constant beyond the ends.

    Args:
        x: [m] query points.
        xp: [n] increasing nodes.
        fp: [n] node values.
    """
    i, w, _ = _bracket(x, xp)
    return (1 - w) * fp[i] + w * fp[i + 1]


def _il_fwd(x, xp, fp):
    return interp_linear(x, xp, fp), (x, xp, fp)


def _il_bwd(res, g):
    x, xp, fp = res
    i, w, inside = _bracket(x, xp)
    slope = jnp.where(inside, (fp[i + 1] - fp[i]) / (xp[i + 1] - xp[i]), 0.0)
    gs = g * slope
    d_xp = jnp.zeros_like(xp).at[i].add(-gs * w).at[i + 1].add(-gs * (1 - w))
    d_fp = jnp.zeros_like(fp).at[i].add(g * (1 - w)).at[i + 1].add(g * w)
    return gs, d_xp, d_fp


interp_linear.defvjp(_il_fwd, _il_bwd)


def warp_time(signal, knots_src, knots_dst):
    """Resample a unit-rate signal through a piecewise linear time warp."""
    t = jnp.linspace(0.0, 1.0, signal.shape[0])
    return interp_linear(interp_linear(t, knots_src, knots_dst), t, signal)


def _cheb_T(s, n):
    cols = [jnp.ones_like(s), s]
    while len(cols) < n:
        cols.append(2 * s * cols[-1] - cols[-2])
    return jnp.stack(cols[:n], -1)


def _cheb_U(s, n):
    cols = [jnp.ones_like(s), 2 * s]
    while len(cols) < n:
        cols.append(2 * s * cols[-1] - cols[-2])
    return jnp.stack(cols[:n], -1)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def chebval(coef, x, domain=(-1.0, 1.0)):
    """Chebyshev series sum_k coef[k] T_k(s), with s the image of x under domain -> [-1, 1].

    coef: [n], n >= 2;  x: [m] inside the domain.
    """
    lo, hi = domain
    s = (2 * x - lo - hi) / (hi - lo)
    return _cheb_T(s, coef.shape[0]) @ coef


def _cheb_fwd(coef, x, domain):
    return chebval(coef, x, domain), (coef, x)


def _cheb_bwd(domain, res, g):
    coef, x = res
    lo, hi = domain
    n = coef.shape[0]
    s = (2 * x - lo - hi) / (hi - lo)
    d_coef = g @ _cheb_T(s, n)
    slope = _cheb_U(s, n - 1) @ (jnp.arange(1, n) * coef[1:])
    return d_coef, g * slope


chebval.defvjp(_cheb_fwd, _cheb_bwd)


@jax.custom_jvp
def lambertw(z):
    """Principal branch of the Lambert W function, z > -1/e."""
    z = jnp.asarray(z)
    w = jnp.where(z < 0, jnp.sqrt(jnp.maximum(2 * (1 + math.e * z), 0)) - 1,
                  jnp.log1p(jnp.maximum(z, 0)))
    for _ in range(16):
        ew = jnp.exp(w)
        f = w * ew - z
        w = w - f / (ew * (w + 1) - (w + 2) * f / (2 * w + 2))
    return w


@lambertw.defjvp
def _lambertw_jvp(primals, tangents):
    z, = primals
    dz, = tangents
    w = lambertw(z)
    return w, dz * jnp.exp(-w) / (1 + w)


def diode_current(v, i_s, n_vt, r_s):
    """Explicit solution of the diode equation with series resistance."""
    arg = i_s * r_s / n_vt * jnp.exp((v + i_s * r_s) / n_vt)
    return n_vt / r_s * lambertw(arg) - i_s
