"""Site statistics for directional and intensity palaeomagnetic data.

Everything here is differentiable, since the tilt corrections and the
flattening factor of a study are fitted by gradient descent in ``fit_study``.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

DEG = jnp.pi / 180.0


class Specimens(NamedTuple):
    """One row for each specimen."""

    dec: jax.Array       # declination, degrees
    inc: jax.Array       # inclination, degrees, down is positive
    weight: jax.Array    # positive weight, e.g. 1 / MAD**2
    site: jax.Array      # integer id of the site, 0 .. n_sites - 1


def to_cartesian(dec, inc):
    """Unit vectors (north, east, down) of directions in degrees."""
    d, i = dec * DEG, inc * DEG
    return jnp.stack([jnp.cos(i) * jnp.cos(d), jnp.cos(i) * jnp.sin(d), jnp.sin(i)], axis=-1)


def to_directions(v):
    dec = jnp.arctan2(v[..., 1], v[..., 0]) / DEG
    inc = jnp.arctan2(v[..., 2], jnp.hypot(v[..., 0], v[..., 1])) / DEG
    return dec % 360.0, inc


@jax.custom_jvp
def paleolatitude(inc, flattening):
    """Latitude of a geocentric axial dipole field, unflattened.

    Parameters
    ----------
    inc : array
        Inclination in degrees, between -90 and 90.
    flattening : array
        Sediment flattening factor in (0, 1], broadcast against `inc`.

    Returns
    -------
    array
        Latitude in degrees.
    """
    i = inc * DEG
    return jnp.arctan2(jnp.sin(i), 2.0 * flattening * jnp.cos(i)) / DEG


@paleolatitude.defjvp
def _paleolatitude_jvp(primals, tangents):
    inc, f = primals
    dinc, df = tangents
    s, c = jnp.sin(inc * DEG), jnp.cos(inc * DEG)
    den = s * s + 4.0 * f * f * c * c
    out = paleolatitude(inc, f)
    return out, (2.0 * f * dinc - 2.0 * s * c * df / DEG) / den


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def site_mean_direction(xyz, weight, site, n_sites):
    """Fisher mean direction of every site.

    Parameters
    ----------
    xyz : array, shape (n, 3)
        Specimen directions.
    weight : array, shape (n,)
    site : int array, shape (n,)
        Site of every specimen. Every site has at least one specimen.
    n_sites : int

    Returns
    -------
    array, shape (n_sites, 3)
        Unit vectors.
    """
    total = jax.ops.segment_sum(weight[:, None] * xyz, site, n_sites)
    return total / jnp.linalg.norm(total, axis=-1, keepdims=True)


def _site_mean_fwd(xyz, weight, site, n_sites):
    total = jax.ops.segment_sum(weight[:, None] * xyz, site, n_sites)
    length = jnp.linalg.norm(total, axis=-1, keepdims=True)
    mean = total / length
    return mean, (xyz, weight, site, mean, length)


def _site_mean_bwd(n_sites, res, ct):
    xyz, weight, site, mean, length = res
    along = jnp.sum(ct * mean, axis=-1, keepdims=True)
    pulled = ((ct - along * mean) / length)[site]
    return weight[:, None] * pulled, jnp.sum(xyz * pulled, axis=-1), None


site_mean_direction.defvjp(_site_mean_fwd, _site_mean_bwd)


@jax.custom_jvp
def fisher_log_density(kappa, cos_angle):
    """Log density of the Fisher distribution on the sphere.

    Parameters
    ----------
    kappa : array
        Concentration, any positive number.
    cos_angle : array
        Cosine of the angle to the mean direction, same shape as `kappa` or
        broadcast against it.
    """
    log_norm = jnp.log(kappa) - jnp.log(2.0 * jnp.pi) - kappa - jnp.log1p(-jnp.exp(-2.0 * kappa))
    return log_norm + kappa * cos_angle


@fisher_log_density.defjvp
def _fisher_jvp(primals, tangents):
    kappa, cos_angle = primals
    dkappa, dcos = tangents
    out = fisher_log_density(kappa, cos_angle)
    return out, (1.0 / kappa - 1.0 + cos_angle) * dkappa + kappa * dcos


@jax.custom_vjp
def arai_slope(ptrm, nrm, used):
    """Reduced-major-axis slope of Arai plots.

    Parameters
    ----------
    ptrm, nrm : array, shape (specimens, steps)
        Thermoremanence gained and natural remanence left after each step.
    used : bool array, shape (specimens, steps)
        The heating steps inside the chosen temperature window.

    Returns
    -------
    array, shape (specimens,)
        The slope, a negative number.
    """
    return _arai_fwd(ptrm, nrm, used)[0]


def _arai_fwd(ptrm, nrm, used):
    m = used.astype(nrm.dtype)
    n = jnp.sum(m, axis=-1, keepdims=True)
    dx = ptrm - jnp.sum(m * ptrm, axis=-1, keepdims=True) / n
    dy = nrm - jnp.sum(m * nrm, axis=-1, keepdims=True) / n
    sxx = jnp.sum(m * dx * dx, axis=-1)
    syy = jnp.sum(m * dy * dy, axis=-1)
    slope = -jnp.sqrt(syy / sxx)
    return slope, (dx, dy, sxx, syy, slope)


def _arai_bwd(res, ct):
    dx, dy, sxx, syy, slope = res
    g = ct * slope
    return -(g / sxx)[:, None] * dx, (g / syy)[:, None] * dy, None


arai_slope.defvjp(_arai_fwd, _arai_bwd)


def banc_intensity(ptrm, nrm, used, lab_field=40.0):
    """Ancient field in microtesla."""
    return -lab_field * arai_slope(ptrm, nrm, used)


def study_loss(params, spec: Specimens, n_sites, latitude):
    xyz = to_cartesian(spec.dec + params["dec_shift"], spec.inc)
    mean = site_mean_direction(xyz, spec.weight, spec.site, n_sites)
    cos = jnp.sum(xyz * mean[spec.site], axis=-1)
    _, inc = to_directions(mean)
    lat = paleolatitude(inc, params["flattening"])
    scatter = -jnp.mean(fisher_log_density(jnp.exp(params["log_kappa"])[spec.site], cos))
    return scatter + jnp.mean((lat - latitude) ** 2) / 100.0


def fit_study(params, spec, n_sites, latitude, steps=200, lr=1e-2):
    step = jax.jit(jax.grad(study_loss), static_argnums=2)
    for _ in range(steps):
        g = step(params, spec, n_sites, latitude)
        params = jax.tree.map(lambda p, d: p - lr * d, params, g)
    return params
