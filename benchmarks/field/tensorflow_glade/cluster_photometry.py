"""Differentiable models of star clusters: surface density and star-field rendering.

The fits in this package run over thousands of fields at once, so both forward models
carry hand-written reverse passes that keep only what they need.
"""
from __future__ import annotations

import math
from typing import Callable

import tensorflow as tf

_SQRT2 = math.sqrt(2.0)
_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


def projected_radius(xy: tf.Tensor, centre: tf.Tensor) -> tf.Tensor:
    """Distance of every star from the centre of the cluster, in the unit of ``xy``."""
    return tf.norm(xy - centre[tf.newaxis, :], axis=-1)


@tf.custom_gradient
def king_surface_density(r, amplitude, core, tidal, background):
    """Empirical King profile of a star cluster on a flat background.

    ``amplitude * (1 / sqrt(1 + (r/core)**2) - 1 / sqrt(1 + (tidal/core)**2))**2 + background``
    for stars inside the tidal radius; beyond it only the background is left.

    Parameters
    ----------
    r : tf.Tensor, shape (N,)
        Non-negative projected radii, inside or outside ``tidal``.
    amplitude, core, tidal, background : tf.Tensor, scalar
        All positive.

    Returns
    -------
    tf.Tensor, shape (N,)
        Stars per unit area.
    """
    near = tf.math.rsqrt(1.0 + (r / core) ** 2)
    edge = tf.math.rsqrt(1.0 + (tidal / core) ** 2)
    contrast = near - edge
    shape = tf.where(r < tidal, contrast * contrast, tf.zeros_like(r))
    density = amplitude * shape + background

    def grad(upstream):
        d_amplitude = tf.reduce_sum(upstream * shape)
        d_contrast = 2.0 * amplitude * contrast * upstream
        # d rsqrt(1 + q^2) = -q rsqrt(1 + q^2)^3 dq
        near_q = -(r / core) * near**3
        edge_q = -(tidal / core) * edge**3
        dr = d_contrast * near_q / core
        d_tidal = -tf.reduce_sum(d_contrast) * edge_q / core
        d_core = tf.reduce_sum(d_contrast * (edge_q * tidal - near_q * r)) / core**2
        return dr, d_amplitude, d_core, d_tidal, tf.reduce_sum(upstream)

    return density, grad


def make_star_renderer(height: int, width: int, integrate: bool = True) -> Callable[..., tf.Tensor]:
    """Build a renderer of star fields with a circular Gaussian point spread function.

    Parameters
    ----------
    height, width : int
        Size of the image; pixel ``(i, j)`` is centred at ``y = i``, ``x = j``.
    integrate : bool
        Integrate the profile over each pixel (needed when ``sigma`` is below about one
        pixel). Otherwise sample it at the pixel centres.

    Returns
    -------
    callable
        ``render(xy, flux, sigma)`` with ``xy`` of shape (N, 2), ``flux`` of shape (N,) and a
        scalar ``sigma > 0``; gives an image of shape (height, width). Stars may lie outside.
    """

    def profile(centre, sigma, size):
        """Separable factor and its derivatives by centre and sigma, each (N, size)."""
        pixel = tf.range(size, dtype=centre.dtype)[tf.newaxis, :] - centre[:, tf.newaxis]
        if not integrate:
            t = pixel / sigma
            value = _INV_SQRT_2PI / sigma * tf.exp(-0.5 * t * t)
            return value, value * t / sigma, value * (t * t - 1.0) / sigma
        hi, lo = (pixel + 0.5) / sigma, (pixel - 0.5) / sigma
        value = 0.5 * (tf.math.erf(hi / _SQRT2) - tf.math.erf(lo / _SQRT2))
        pdf_hi = _INV_SQRT_2PI * tf.exp(-0.5 * hi * hi)
        pdf_lo = _INV_SQRT_2PI * tf.exp(-0.5 * lo * lo)
        return value, (pdf_lo - pdf_hi) / sigma, (lo * pdf_lo - hi * pdf_hi) / sigma

    @tf.custom_gradient
    def render(xy, flux, sigma):
        px, px_c, px_s = profile(xy[:, 0], sigma, width)
        py, py_c, py_s = profile(xy[:, 1], sigma, height)
        image = tf.einsum("n,ni,nj->ij", flux, py, px)

        def grad(upstream):
            rows = tf.einsum("ij,nj->ni", upstream, px)
            cols = tf.einsum("ij,ni->nj", upstream, py)
            d_flux = tf.reduce_sum(rows * py, axis=1)
            d_x = flux * tf.reduce_sum(cols * px_c, axis=1)
            d_y = flux * tf.reduce_sum(rows * py_c, axis=1)
            d_sigma = tf.reduce_sum(
                flux * (tf.reduce_sum(cols * px_s, axis=1) + tf.reduce_sum(rows * py_s, axis=1))
            )
            return tf.stack([d_x, d_y], axis=1), d_flux, d_sigma

        return image, grad

    return render


def field_chi2(image, inverse_variance, xy, flux, sigma, integrate=True):
    """Chi-squared of a rendered field against an image of the same shape."""
    render = make_star_renderer(image.shape[0], image.shape[1], integrate)
    residual = render(xy, flux, sigma) - image
    return tf.reduce_sum(inverse_variance * residual * residual)


def count_loss(xy, centre, amplitude, core, tidal, background, area):
    """Poisson log likelihood (negative, without constants) of stars over one field.

    The expected number is taken from the mean density of the observed positions, which is good
    enough for a first guess of the profile.
    """
    density = king_surface_density(projected_radius(xy, centre), amplitude, core, tidal, background)
    return tf.reduce_mean(density) * area - tf.reduce_sum(tf.math.log(density))
