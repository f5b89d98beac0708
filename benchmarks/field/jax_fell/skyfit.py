"""Forward operators for fitting lenses and calibrating interferometers."""
from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

_NEAR = 1e-4  # half-width of the window around r = r_s that uses the expansion


def _nfw_h(x: Array) -> tuple[Array, Array]:
    """NFW angle function ``h(x)`` and its derivative.

    ``arccosh(1/x) / sqrt(1 - x^2)`` inside the scale radius,
    ``arccos(1/x) / sqrt(x^2 - 1)`` outside of it.
    """
    e = x - 1.0
    inside = e < -_NEAR
    outside = e > _NEAR

    xi = jnp.where(inside, x, 0.5)
    si = 1.0 - xi**2
    hi = jnp.arccosh(1.0 / xi) / jnp.sqrt(si)
    dhi = (xi**2 * hi - 1.0) / (xi * si)

    xo = jnp.where(outside, x, 2.0)
    so = xo**2 - 1.0
    ho = jnp.arccos(1.0 / xo) / jnp.sqrt(so)
    dho = (xo**2 * ho - 1.0) / (xo * so)

    hc = 1.0 - 2.0 * e / 3.0 + 7.0 * e**2 / 15.0
    dhc = -2.0 / 3.0 + 14.0 * e / 15.0
    h = jnp.where(inside, hi, jnp.where(outside, ho, hc))
    dh = jnp.where(inside, dhi, jnp.where(outside, dho, dhc))
    return h, dh


@jax.custom_jvp
def nfw_deflection(r: Array, kappa_s: Array, r_s: Array) -> Array:
    """Radial deflection angle of an NFW halo.

    Args:
        r: projected radius, ``r > 0``.
        kappa_s: characteristic convergence ``rho_s r_s / Sigma_crit``.
        r_s: scale radius, positive, same units as ``r``.

    The arguments broadcast. Units of the result are those of ``r``.
    """
    x = r / r_s
    h, _ = _nfw_h(x)
    return 4.0 * kappa_s * r_s * (jnp.log(0.5 * x) + h) / x


@nfw_deflection.defjvp
def _nfw_deflection_jvp(primals, tangents):
    r, kappa_s, r_s = primals
    dr, dkappa, drs = tangents
    x = r / r_s
    h, dh = _nfw_h(x)
    m = jnp.log(0.5 * x) + h
    alpha = 4.0 * kappa_s * r_s * m / x
    dm = 1.0 / x + dh
    slope = 4.0 * kappa_s * (dm - m / x) / x  # d alpha / d r
    tangent = slope * dr + (alpha / r_s - slope * x) * drs + 4.0 * r_s * m / x * dkappa
    return alpha, tangent


def deflect(grid: Array, halos: dict[str, Array]) -> Array:
    """Total deflection ``(P, 2)`` at ``grid`` ``(P, 2)`` by several halos."""
    d = grid[:, None, :] - halos["position"][None]
    r = jnp.sqrt(jnp.sum(d**2, axis=-1) + 1e-12)
    a = nfw_deflection(r, halos["kappa_s"], halos["r_s"])
    return jnp.sum(a[..., None] * d / r[..., None], axis=1)


# -- closure phases ----------------------------------------------------------


def _legs(re, im, triangles):
    return [(re[..., triangles[:, k]], im[..., triangles[:, k]]) for k in range(3)]


def _usable(flags, triangles):
    return ~jnp.any(flags[..., triangles], axis=-1)


@jax.custom_vjp
def closure_phases(re: Array, im: Array, triangles: Array, flags: Array) -> Array:
    """Closure phases of antenna triangles, in radians on (-pi, pi].

    Args:
        re, im: real and imaginary part of the visibilities, ``(..., B)``.
            Unflagged visibilities are non-zero.
        triangles: ``(K, 3)`` integer baseline numbers ``(ij, jk, ik)``. The
            third leg is conjugated. A baseline can occur in any number of
            triangles.
        flags: ``(..., B)`` bool, True for data that must not be used.
            Triangles with a flagged leg return 0.
    """
    (a, b), (c, d), (e, f) = _legs(re, im, triangles)
    xr, xi = a * c - b * d, a * d + b * c
    br, bi = xr * e + xi * f, xi * e - xr * f
    ok = _usable(flags, triangles)
    return jnp.where(ok, jnp.arctan2(jnp.where(ok, bi, 0.0), jnp.where(ok, br, 1.0)), 0.0)


def _closure_fwd(re, im, triangles, flags):
    return closure_phases(re, im, triangles, flags), (re, im, triangles, flags)


def _closure_bwd(res, g):
    re, im, triangles, flags = res
    ok = _usable(flags, triangles)
    g = jnp.where(ok, g, 0.0)
    g_re = jnp.zeros_like(re)
    g_im = jnp.zeros_like(im)
    for k, ((u, v), sign) in enumerate(zip(_legs(re, im, triangles), (1.0, 1.0, -1.0))):
        power = jnp.where(ok, u**2 + v**2, 1.0)
        g_re = g_re.at[..., triangles[:, k]].add(-sign * g * v / power)
        g_im = g_im.at[..., triangles[:, k]].add(sign * g * u / power)
    return g_re, g_im, None, None


closure_phases.defvjp(_closure_fwd, _closure_bwd)


def closure_chi2(re, im, triangles, flags, observed, sigma):
    """Chi-square on the circle, 2 (1 - cos) / sigma^2, of usable triangles."""
    model = closure_phases(re, im, triangles, flags)
    ok = _usable(flags, triangles)
    return jnp.sum(jnp.where(ok, 2.0 * (1.0 - jnp.cos(observed - model)) / sigma**2, 0.0))
