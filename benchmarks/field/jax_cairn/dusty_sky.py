"""Forward model pieces for far-infrared imaging of dusty galaxies.

The pipeline renders a spectral energy distribution, pushes it through the
instrument bands, removes the sky level and moves catalogue directions to the
frame of the moving observatory.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

# h * 1 GHz / k_B in kelvin
_H_OVER_K = 0.04799243073
_LN10 = 2.302585092994046


class DustParams(NamedTuple):
    """State of the dust fit."""

    temperature: jax.Array
    beta: jax.Array
    log_mass: jax.Array


# --------------------------------------------------------------------------
# emission
# --------------------------------------------------------------------------
@partial(jax.custom_jvp, nondiff_argnums=(4,))
def modified_blackbody(nu, temperature, beta, log_mass, nu0=857.0):
    r"""Optically thin grey-body emission.

    .. math:: S = 10^{m} (\nu/\nu_0)^{\beta} \nu^3 / (e^{h\nu/kT} - 1)

    Parameters
    ----------
    nu : array_like
        Frequency in GHz, positive.
    temperature : array_like
        Dust temperature in K, positive.
    beta : array_like
        Emissivity index.
    log_mass : array_like
        Base-10 logarithm of the amplitude.
    nu0 : float, optional
        Pivot frequency in GHz.

    Returns
    -------
    ndarray
        Flux density in arbitrary units, of the broadcast shape of the first
        four arguments.

    Notes
    -----
    Written with ``exp(-x)`` so that the Wien tail underflows quietly.
    """
    x = _H_OVER_K * nu / temperature
    planck = nu**3 * jnp.exp(-x) / -jnp.expm1(-x)
    return jnp.exp(_LN10 * log_mass + beta * jnp.log(nu / nu0)) * planck


@modified_blackbody.defjvp
def _modified_blackbody_jvp(nu0, primals, tangents):
    nu, temperature, beta, log_mass = primals
    d_nu, d_temperature, d_beta, d_log_mass = tangents
    flux = modified_blackbody(nu, temperature, beta, log_mass, nu0)
    x = _H_OVER_K * nu / temperature
    stretch = x / -jnp.expm1(-x)
    log_slope = (
        (3.0 + beta - stretch) * d_nu / nu
        + stretch * d_temperature / temperature
        + jnp.log(nu / nu0) * d_beta
        + _LN10 * d_log_mass
    )
    return flux, flux * log_slope


# --------------------------------------------------------------------------
# bands
# --------------------------------------------------------------------------
def _trapezoid(n, step, dtype):
    w = jnp.full((n,), step, dtype)
    return w.at[0].mul(0.5).at[-1].mul(0.5)


def _wavelengths(n, start, step, dtype):
    return start + step * jnp.arange(n, dtype=dtype)


def _band_basis(n, start, step, photon_counting, dtype):
    basis = _trapezoid(n, step, dtype)
    if photon_counting:
        basis = basis * _wavelengths(n, start, step, dtype)
    return basis


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def synthetic_photometry(sed, throughput, start=1.0, step=1.0, photon_counting=True):
    """Average of spectra over a set of filters.

    Parameters
    ----------
    sed : ndarray, shape (..., W)
        Flux per unit wavelength on a uniform grid.
    throughput : ndarray, shape (K, W)
        Response curves of the K filters.
    start, step : float
        First wavelength of the grid and its spacing.
    photon_counting : bool
        True for detectors that count photons (CCD), which weigh the response
        by the wavelength.  False for bolometers, which measure energy.

    Returns
    -------
    ndarray, shape (..., K)
        Mean flux density in every filter.
    """
    return _photometry_fwd(sed, throughput, start, step, photon_counting)[0]


def _photometry_fwd(sed, throughput, start, step, photon_counting):
    n = sed.shape[-1]
    kernel = throughput * _band_basis(n, start, step, photon_counting, sed.dtype)
    norm = kernel.sum(-1)
    flux = jnp.einsum("...w,kw->...k", sed, kernel) / norm
    return flux, (sed, kernel, norm, flux)


def _photometry_bwd(start, step, photon_counting, res, g):
    sed, kernel, norm, flux = res
    n = sed.shape[-1]
    scaled = g / norm
    sed_bar = jnp.einsum("...k,kw->...w", scaled, kernel)
    lam = _wavelengths(n, start, step, sed.dtype)
    basis = lam * _trapezoid(n, step, sed.dtype)
    sed2 = sed.reshape(-1, n)
    scaled2 = scaled.reshape(-1, norm.shape[0])
    flux2 = flux.reshape(-1, norm.shape[0])
    throughput_bar = (scaled2.T @ sed2 - (scaled2 * flux2).sum(0)[:, None]) * basis
    return sed_bar, throughput_bar


synthetic_photometry.defvjp(_photometry_fwd, _photometry_bwd)


# --------------------------------------------------------------------------
# sky level
# --------------------------------------------------------------------------
def _clip_pixels(pixels, valid, nsigma, iterations):
    keep = valid
    for _ in range(iterations):
        count = jnp.maximum(keep.sum(-1, keepdims=True), 1)
        mean = jnp.where(keep, pixels, 0).sum(-1, keepdims=True) / count
        var = jnp.where(keep, (pixels - mean) ** 2, 0).sum(-1, keepdims=True) / count
        keep = valid & (jnp.abs(pixels - mean) <= nsigma * jnp.sqrt(var))
    return keep


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def clipped_background(pixels, valid, nsigma=3.0, iterations=3):
    """Sigma-clipped mean of each frame.

    Pixels further than `nsigma` standard deviations from the running mean are
    rejected `iterations` times, then the survivors are averaged.  The set of
    survivors is locally constant.

    Parameters
    ----------
    pixels : ndarray, shape (..., P)
        Flattened frames.
    valid : ndarray of bool, shape (..., P)
        False for dead pixels, which never count.
    nsigma : float
        Rejection threshold.
    iterations : int
        Number of rejection rounds; 0 gives the plain mean of valid pixels.

    Returns
    -------
    ndarray, shape (...)
        Sky level per frame, zero for a frame without valid pixels.
    """
    keep = _clip_pixels(pixels, valid, nsigma, iterations)
    return jnp.where(keep, pixels, 0).sum(-1) / jnp.maximum(keep.sum(-1), 1)


def _background_fwd(pixels, valid, nsigma, iterations):
    keep = _clip_pixels(pixels, valid, nsigma, iterations)
    level = jnp.where(keep, pixels, 0).sum(-1) / jnp.maximum(keep.sum(-1), 1)
    return level, (keep, jnp.maximum(valid.sum(-1), 1))


def _background_bwd(nsigma, iterations, res, g):
    keep, count = res
    share = (g / count)[..., None]
    return jnp.where(keep, share, 0), None


clipped_background.defvjp(_background_fwd, _background_bwd)


# --------------------------------------------------------------------------
# astrometry
# --------------------------------------------------------------------------
@jax.custom_vjp
def aberrate(directions, velocity):
    """Apparent directions of stars for a moving observer.

    Parameters
    ----------
    directions : ndarray, shape (N, 3)
        Unit vectors towards the stars in the rest frame.
    velocity : ndarray, shape (3,)
        Observer velocity in units of the speed of light, shorter than one.

    Returns
    -------
    ndarray, shape (N, 3)
        Unit vectors in the frame of the observer (full special relativity).
    """
    return _aberrate_fwd(directions, velocity)[0]


def _aberrate_fwd(directions, velocity):
    gamma = 1.0 / jnp.sqrt(1.0 - velocity @ velocity)
    s = directions @ velocity
    ratio = gamma / (gamma + 1.0)
    numerator = directions / gamma + (1.0 + ratio * s)[:, None] * velocity
    out = numerator / (1.0 + s)[:, None]
    return out, (directions, velocity, gamma, s, out)


def _aberrate_bwd(res, g):
    u, v, gamma, s, out = res
    ratio = gamma / (gamma + 1.0)
    doppler = 1.0 + s
    num_bar = g / doppler[:, None]
    along = num_bar @ v
    s_bar = ratio * along - (g * out).sum(-1) / doppler
    u_bar = num_bar / gamma + s_bar[:, None] * v
    # gamma itself moves with the velocity: d gamma = gamma**3 v . dv
    radial = gamma**3 / (gamma + 1.0) ** 2 * (along @ s) - gamma * jnp.sum(num_bar * u)
    v_bar = s_bar @ u + (1.0 + ratio * s) @ num_bar + radial * v
    return u_bar, v_bar


aberrate.defvjp(_aberrate_fwd, _aberrate_bwd)


def fit_dust(params, nu, flux, sigma, steps=50, lr=1e-3):
    """Plain gradient descent on the chi-square of one SED."""

    def chi2(p):
        model = modified_blackbody(nu, p.temperature, p.beta, p.log_mass)
        return jnp.mean(((model - flux) / sigma) ** 2)

    for _ in range(steps):
        grads = jax.grad(chi2)(params)
        params = jax.tree_util.tree_map(lambda a, b: a - lr * b, params, grads)
    return params
