"""Forward models for aperture-free photometry.

Everything here is written for use inside a likelihood that is sampled with
HMC, so the pieces that are evaluated once per exposure carry their own
derivatives.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

__all__ = [
    "MoffatShape",
    "limb_darkened_intensity",
    "moffat_image",
    "fold_template",
    "render_field",
    "light_curve_residual",
]


class MoffatShape(NamedTuple):
    """Parameters of one circular Moffat source; every leaf is a scalar array."""

    flux: jax.Array
    x0: jax.Array
    y0: jax.Array
    width: jax.Array
    beta: jax.Array


# ---------------------------------------------------------------------------
# stellar disc


def _disc(r):
    inside = r < 1.0
    rr = jnp.where(inside, r, 0.0)
    return inside, rr, jnp.sqrt(1.0 - rr * rr)


def _law_terms(mu, law):
    """Second basis function of the law, its slope in mu, its disc average."""
    if law == "quadratic":
        return (1.0 - mu) ** 2, -2.0 * (1.0 - mu), 1.0 / 6.0
    if law == "sqrt":
        return 1.0 - jnp.sqrt(mu), -0.5 / jnp.sqrt(mu), 1.0 / 5.0
    raise ValueError(f"unknown limb darkening law: {law!r}")


@partial(jax.custom_jvp, nondiff_argnames=("law",))
def limb_darkened_intensity(r, coeffs, law="quadratic"):
    """Specific intensity of a stellar disc of unit radius and unit flux.

    Args:
      r: ``(N,)`` projected distances from the centre of the disc, ``r >= 0``.
      coeffs: ``(2,)`` limb darkening coefficients ``u1, u2``, each in [0, 0.6].
      law: ``"quadratic"`` or ``"sqrt"``.

    Returns:
      ``(N,)`` intensities; zero off the disc (and flat there).
    """
    inside, _, mu = _disc(r)
    basis, _, avg = _law_terms(mu, law)
    norm = jnp.pi * (1.0 - coeffs[0] / 3.0 - coeffs[1] * avg)
    raw = 1.0 - coeffs[0] * (1.0 - mu) - coeffs[1] * basis
    return jnp.where(inside, raw / norm, 0.0)


@limb_darkened_intensity.defjvp
def _limb_darkened_jvp(law, primals, tangents):
    r, coeffs = primals
    dr, dc = tangents
    inside, rr, mu = _disc(r)
    basis, slope, avg = _law_terms(mu, law)
    norm = jnp.pi * (1.0 - coeffs[0] / 3.0 - coeffs[1] * avg)
    raw = 1.0 - coeffs[0] * (1.0 - mu) - coeffs[1] * basis
    draw = (coeffs[0] - coeffs[1] * slope) * (-rr / mu) * dr
    draw = draw - (1.0 - mu) * dc[0] - basis * dc[1]
    dnorm = -jnp.pi * (dc[0] / 3.0 + avg * dc[1])
    out = raw / norm
    dout = (draw - out * dnorm) / norm
    return jnp.where(inside, out, 0.0), jnp.where(inside, dout, 0.0)


# ---------------------------------------------------------------------------
# point spread function


def _moffat_parts(shape, xx, yy):
    dx = xx - shape.x0
    dy = yy - shape.y0
    q = 1.0 + (dx * dx + dy * dy) / shape.width**2
    return dx, dy, q, q ** (-shape.beta)


def _moffat_norm(shape, unit_flux):
    if unit_flux:
        return (shape.beta - 1.0) / (jnp.pi * shape.width**2)
    return jnp.ones_like(shape.width)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def moffat_image(shape, xx, yy, unit_flux=False):
    """Image of a Moffat source on a pixel grid.

    Args:
      shape: a `MoffatShape`; ``width > 0`` and ``beta > 1``.
      xx, yy: ``(H, W)`` pixel centres.
      unit_flux: if True the profile integrates to one over the plane, so
        ``shape.flux`` is a total flux. If False it is the peak value.

    Returns:
      ``(H, W)`` image.
    """
    *_, prof = _moffat_parts(shape, xx, yy)
    return shape.flux * _moffat_norm(shape, unit_flux) * prof


def _moffat_fwd(shape, xx, yy, unit_flux):
    dx, dy, q, prof = _moffat_parts(shape, xx, yy)
    norm = _moffat_norm(shape, unit_flux)
    return shape.flux * norm * prof, (shape, norm, dx, dy, q, prof)


def _moffat_bwd(unit_flux, res, g):
    shape, norm, dx, dy, q, prof = res
    unit = g * norm * prof
    gi = shape.flux * unit
    core = 2.0 * shape.beta * gi / (q * shape.width**2)
    gx = core * dx
    gy = core * dy
    g_width = jnp.sum(core * (dx * dx + dy * dy)) / shape.width
    g_beta = -jnp.sum(gi * jnp.log(q))
    g_shape = MoffatShape(
        flux=jnp.sum(unit), x0=jnp.sum(gx), y0=jnp.sum(gy), width=g_width, beta=g_beta
    )
    return g_shape, -gx, -gy


moffat_image.defvjp(_moffat_fwd, _moffat_bwd)


def render_field(shapes, xx, yy, *, background=0.0, unit_flux=True):
    """Sum of sources (a `MoffatShape` of ``(S,)`` leaves) over a background."""
    one = lambda s: moffat_image(s, xx, yy, unit_flux)
    return background + jax.vmap(one)(shapes).sum(axis=0)


# ---------------------------------------------------------------------------
# periodic variables


def _phase_bins(n, times, period, epoch):
    cycles = (times - epoch) / period
    pos = (cycles - jnp.floor(cycles)) * n
    low = jnp.floor(pos)
    i0 = low.astype(jnp.int32) % n
    return i0, (i0 + 1) % n, pos - low, cycles


@jax.custom_vjp
def fold_template(template, times, period, epoch):
    """Evaluate a periodic template at given times, by linear interpolation.

    Args:
      template: ``(B,)`` magnitudes at phases ``0, 1/B, ..., (B-1)/B``; the last
        bin joins the first.
      times: ``(N,)`` observation times.
      period: ``()`` period, positive.
      epoch: ``()`` time of phase zero.

    Returns:
      ``(N,)`` magnitudes.
    """
    i0, i1, frac, _ = _phase_bins(template.shape[0], times, period, epoch)
    return (1.0 - frac) * template[i0] + frac * template[i1]


def _fold_fwd(template, times, period, epoch):
    i0, i1, frac, cycles = _phase_bins(template.shape[0], times, period, epoch)
    lo, hi = template[i0], template[i1]
    return (1.0 - frac) * lo + frac * hi, (template, i0, i1, frac, cycles, period)


def _fold_bwd(res, g):
    template, i0, i1, frac, cycles, period = res
    n = template.shape[0]
    g_template = jnp.zeros_like(template).at[i0].add(g * (1.0 - frac)).at[i1].add(g * frac)
    g_cycles = g * (template[i1] - template[i0]) * n
    g_times = g_cycles / period
    return g_template, g_times, -jnp.sum(g_cycles * cycles) / period, -jnp.sum(g_times)


fold_template.defvjp(_fold_fwd, _fold_bwd)


def light_curve_residual(params, times, mags, errs):
    """Whitened residual; `params` is a dict(template, period, epoch)."""
    model = fold_template(params["template"], times, params["period"], params["epoch"])
    return (mags - model) / errs
