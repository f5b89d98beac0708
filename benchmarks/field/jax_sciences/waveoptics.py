"""Imaging and astronomy helpers.

Shape comments follow the convention  Float[Array, "h w"].
"""
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

C_KM_S = 299792.458


def _transfer(shape, z, wavelength, dx):
    fy = np.fft.fftfreq(shape[0], dx)[:, None]
    fx = np.fft.fftfreq(shape[1], dx)[None, :]
    arg = 1.0 / wavelength ** 2 - fx ** 2 - fy ** 2
    kz = jnp.asarray(2 * np.pi * np.sqrt(np.maximum(arg, 0.0)))
    band = jnp.asarray(arg > 0)
    return jnp.where(band, jnp.exp(1j * kz * z), 0.0), kz


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def angular_spectrum(re, im, z, wavelength, dx):
    """Propagate a scalar field over the distance z (evanescent waves are removed).

    re, im: Float[Array, "h w"]   real and imaginary part of the field
    z: Float[Array, ""]           distance, same unit as wavelength and dx
    returns (re, im) of the propagated field
    """
    H, _ = _transfer(re.shape, z, wavelength, dx)
    u = jnp.fft.ifft2(H * jnp.fft.fft2(re + 1j * im))
    return u.real, u.imag


def _as_fwd(re, im, z, wavelength, dx):
    H, kz = _transfer(re.shape, z, wavelength, dx)
    spec = H * jnp.fft.fft2(re + 1j * im)
    u = jnp.fft.ifft2(spec)
    return (u.real, u.imag), (H, kz, spec, z)


def _as_bwd(wavelength, dx, res, ct):
    H, kz, spec, z = res
    g = ct[0] + 1j * ct[1]
    back = jnp.fft.ifft2(jnp.conj(H) * jnp.fft.fft2(g))
    du_dz = jnp.fft.ifft2(1j * kz * spec)
    dz = jnp.sum(jnp.real(jnp.conj(g) * du_dz))
    return back.real, back.imag, dz.astype(jnp.result_type(z))


angular_spectrum.defvjp(_as_fwd, _as_bwd)


def hologram_loss(phase, z, target, wavelength=0.5, dx=1.0):
    """Intensity mismatch of a phase-only hologram."""
    re, im = angular_spectrum(jnp.cos(phase), jnp.sin(phase), z, wavelength, dx)
    return jnp.mean((re ** 2 + im ** 2 - target) ** 2)


# -- deconvolution -----------------------------------------------------------------

def _otf(psf, shape):
    kh, kw = psf.shape
    full = jnp.zeros(shape, psf.dtype).at[:kh, :kw].set(psf)
    full = jnp.roll(full, (-(kh // 2), -(kw // 2)), (0, 1))
    return jnp.fft.rfft2(full)


@jax.custom_vjp
def blur(image, psf):
    """Circular convolution of an image with a (usually small) point spread function.

    image: Float[Array, "h w"]
    psf: Float[Array, "kh kw"], kh <= h, kw <= w, centre at (kh // 2, kw // 2)
    """
    return jnp.fft.irfft2(jnp.fft.rfft2(image) * _otf(psf, image.shape), image.shape)


def _blur_fwd(image, psf):
    spec = jnp.fft.rfft2(image)
    otf = _otf(psf, image.shape)
    return jnp.fft.irfft2(spec * otf, image.shape), (spec, otf, psf)


def _blur_bwd(res, g):
    spec, otf, psf = res
    kh, kw = psf.shape
    gs = jnp.fft.rfft2(g)
    d_image = jnp.fft.irfft2(gs * otf, g.shape)
    full = jnp.fft.irfft2(gs * jnp.conj(spec), g.shape)
    d_psf = jnp.roll(full, (kh // 2, kw // 2), (0, 1))[:kh, :kw]
    return d_image, d_psf


blur.defvjp(_blur_fwd, _blur_bwd)


def richardson_step(estimate, data, psf):
    return jax.grad(lambda x: 0.5 * jnp.sum((blur(x, psf) - data) ** 2))(estimate)


# -- sampling ----------------------------------------------------------------------

def _corners(image, coords):
    h, w = image.shape
    y = jnp.clip(coords[:, 0], 0, h - 1)
    x = jnp.clip(coords[:, 1], 0, w - 1)
    iy = jnp.clip(jnp.floor(y).astype(jnp.int32), 0, h - 2)
    ix = jnp.clip(jnp.floor(x).astype(jnp.int32), 0, w - 2)
    return iy, ix, y - iy, x - ix


@jax.custom_vjp
def bilinear_sample(image, coords):
    """Sample an image at fractional pixel coordinates (row, col).

    image: Float[Array, "h w"], at least 2 x 2
    coords: Float[Array, "n 2"]; positions off the image take the value at the nearest border point
    returns Float[Array, "n"]
    """
    iy, ix, a, b = _corners(image, coords)
    top = (1 - b) * image[iy, ix] + b * image[iy, ix + 1]
    bot = (1 - b) * image[iy + 1, ix] + b * image[iy + 1, ix + 1]
    return (1 - a) * top + a * bot


def _bs_fwd(image, coords):
    return bilinear_sample(image, coords), (image, coords)


def _bs_bwd(res, g):
    image, coords = res
    iy, ix, a, b = _corners(image, coords)
    d_image = (jnp.zeros_like(image)
               .at[iy, ix].add(g * (1 - a) * (1 - b))
               .at[iy, ix + 1].add(g * (1 - a) * b)
               .at[iy + 1, ix].add(g * a * (1 - b))
               .at[iy + 1, ix + 1].add(g * a * b))
    p00, p01 = image[iy, ix], image[iy, ix + 1]
    p10, p11 = image[iy + 1, ix], image[iy + 1, ix + 1]
    d_y = (1 - b) * (p10 - p00) + b * (p11 - p01)
    d_x = (1 - a) * (p01 - p00) + a * (p11 - p10)
    return d_image, jnp.stack([g * d_y, g * d_x], -1)


bilinear_sample.defvjp(_bs_fwd, _bs_bwd)


@jax.custom_vjp
def ray_sums(image, weights, pixels, lengths):
    """Discrete line integrals of a flattened image (Siddon-like tables).

    image: Float[Array, "p"]
    weights: Float[Array, "r s"]    intersection lengths
    pixels: Int[Array, "r s"]       pixel of each intersection, a ray may meet a pixel twice
    lengths: Int[Array, "r"]        how many of the s slots of a ray are in use
    returns Float[Array, "r"]
    """
    used = jnp.arange(pixels.shape[1]) < lengths[:, None]
    return jnp.sum(jnp.where(used, weights * image[pixels], 0.0), 1)


def _rs_fwd(image, weights, pixels, lengths):
    return ray_sums(image, weights, pixels, lengths), (image, weights, pixels, lengths)


def _rs_bwd(res, g):
    image, weights, pixels, lengths = res
    used = jnp.arange(pixels.shape[1]) < lengths[:, None]
    gu = jnp.where(used, g[:, None], 0.0)
    return jnp.zeros_like(image).at[pixels].add(gu * weights), gu * image[pixels], None, None


ray_sums.defvjp(_rs_fwd, _rs_bwd)


# -- pupil functions ---------------------------------------------------------------

def _radial_terms(n, m):
    for k in range((n - m) // 2 + 1):
        c = (-1) ** k * math.factorial(n - k) / (
            math.factorial(k) * math.factorial((n + m) // 2 - k) * math.factorial((n - m) // 2 - k))
        yield c, n - 2 * k


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def zernike_radial(n, m, rho):
    """Radial Zernike polynomial R_n^m(rho), n >= m >= 0, n - m even; 0 <= rho <= 1."""
    return sum(c * rho ** p for c, p in _radial_terms(n, m))


@zernike_radial.defjvp
def _zr_jvp(n, m, primals, tangents):
    (rho,), (drho,) = primals, tangents
    slope = jnp.zeros_like(rho)
    for c, p in _radial_terms(n, m):
        if p > 1:
            slope = slope + c * p * rho ** (p - 1)
    return zernike_radial(n, m, rho), slope * drho


# -- orbits and distances ----------------------------------------------------------

@jax.custom_jvp
def kepler_E(M, e):
    """Eccentric anomaly from the mean anomaly M (any real) and the eccentricity 0 <= e < 0.95."""
    E = M + e * jnp.sin(M) / jnp.sqrt(1 - 2 * e * jnp.cos(M) + e * e)
    for _ in range(12):
        s, c = jnp.sin(E), jnp.cos(E)
        f = E - e * s - M
        d1 = 1 - e * c
        E = E - f * d1 / (d1 * d1 - 0.5 * f * e * s)
    return E


@kepler_E.defjvp
def _kepler_jvp(primals, tangents):
    M, e = primals
    dM, de = tangents
    E = kepler_E(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


def radial_velocity(t, period, t_peri, e, omega, K):
    E = kepler_E(2 * jnp.pi * (t - t_peri) / period, e)
    nu = 2 * jnp.arctan2(jnp.sqrt(1 + e) * jnp.sin(E / 2), jnp.sqrt(1 - e) * jnp.cos(E / 2))
    return K * (jnp.cos(nu + omega) + e * jnp.cos(omega))


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


def _hubble(zz, om):
    return jnp.sqrt(om * (1 + zz) ** 3 + 1 - om)


def _quad(f, z):
    x = 0.5 * z[..., None] * (jnp.asarray(_NODES, z.dtype) + 1)
    return 0.5 * z * jnp.sum(jnp.asarray(_WEIGHTS, z.dtype) * f(x), -1)


@jax.custom_vjp
def luminosity_distance(z, h0, om):
    """Flat LCDM luminosity distance in Mpc.

    z: Float[Array, "n"] redshifts, 0 < z < 5
    h0, om: scalars
    """
    return (1 + z) * C_KM_S / h0 * _quad(lambda x: 1 / _hubble(x, om), z)


def _ld_fwd(z, h0, om):
    return luminosity_distance(z, h0, om), (z, h0, om)


def _ld_bwd(res, g):
    z, h0, om = res
    scale = (1 + z) * C_KM_S / h0
    comoving = _quad(lambda x: 1 / _hubble(x, om), z)
    slope_om = _quad(lambda x: -0.5 * ((1 + x) ** 3 - 1) / _hubble(x, om) ** 3, z)
    d_z = g * scale / _hubble(z, om)
    d_h0 = -jnp.sum(g * scale * comoving) / h0
    d_om = jnp.sum(g * scale * slope_om)
    return d_z, d_h0, d_om


luminosity_distance.defvjp(_ld_fwd, _ld_bwd)


def distance_modulus(z, h0, om):
    return 5 * jnp.log10(luminosity_distance(z, h0, om)) + 25
