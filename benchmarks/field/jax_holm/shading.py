"""Image formation terms for the inverse-rendering experiments.

All images are channels-last, linear light.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def lambert_shade(normals: Array, lights: Array, albedo: Array, leak: float = 0.1) -> Array:
    r"""Diffuse intensities of a set of facets under several distant lights.

    .. math:: I_{pk} = \rho_p \max(n_p \cdot l_k, 0)

    Parameters
    ----------
    normals : Array, shape (P, 3)
        Facet normals. They need not have unit length.
    lights : Array, shape (K, 3)
        Light directions scaled by the light's power.
    albedo : Array, shape (P,)
        Diffuse reflectance.
    leak : float
        Slope used in the backward pass for facets in attached shadow.

    Returns
    -------
    Array, shape (P, K)

    Notes
    -----
    The backward pass is deliberately not the derivative of the forward pass. A facet turned away from a
    light receives no gradient from it and would never turn back, so where ``n . l < 0`` the slope of
    ``max(., 0)`` is replaced by ``leak`` (as in a leaky ReLU) for `normals` and `lights`. The forward value
    is not leaky, and the gradient for `albedo` is exact. ``leak=0`` gives the true derivative.
    """
    return albedo[:, None] * jnp.maximum(normals @ lights.T, 0.0)


def _lambert_fwd(normals, lights, albedo, leak):
    cosine = normals @ lights.T
    return albedo[:, None] * jnp.maximum(cosine, 0.0), (normals, lights, albedo, cosine)


def _lambert_bwd(leak, res, g):
    normals, lights, albedo, cosine = res
    slope = jnp.where(cosine > 0, 1.0, leak).astype(cosine.dtype)
    d_cos = g * albedo[:, None] * slope
    d_albedo = jnp.sum(g * jnp.maximum(cosine, 0.0), axis=1)
    return d_cos @ lights, d_cos.T @ normals, d_albedo


lambert_shade.defvjp(_lambert_fwd, _lambert_bwd)


@jax.custom_vjp
def over_premultiplied(fg: Array, bg: Array) -> Array:
    """Porter-Duff *over* of two premultiplied RGBA layers.

    Parameters
    ----------
    fg, bg : Array, shape (..., 4)
        Foreground and background, with colour already multiplied by alpha. Alpha is the last channel. Both
        must have the same shape. Either may be translucent, so that layers can be composited in a chain.

    Returns
    -------
    Array, shape (..., 4)
        ``fg + (1 - fg_alpha) * bg``, again premultiplied.
    """
    return fg + (1.0 - fg[..., 3:]) * bg


def _over_fwd(fg, bg):
    return over_premultiplied(fg, bg), (fg[..., 3:], bg)


def _over_bwd(res, g):
    alpha, bg = res
    # alpha of the foreground occludes the background colour
    occluded = jnp.sum(g[..., :3] * bg[..., :3], axis=-1, keepdims=True)
    d_fg = jnp.concatenate([g[..., :3], g[..., 3:] - occluded], axis=-1)
    return d_fg, (1.0 - alpha) * g


over_premultiplied.defvjp(_over_fwd, _over_bwd)


def _offsets(height, width, center, dtype):
    # pixel centres in units of the half diagonal
    half = 0.5 * jnp.sqrt(jnp.asarray(height**2 + width**2, dtype))
    y = (jnp.arange(height, dtype=dtype) + 0.5 - 0.5 * height) / half - center[0]
    x = (jnp.arange(width, dtype=dtype) + 0.5 - 0.5 * width) / half - center[1]
    return y[:, None], x[None, :]


@jax.custom_vjp
def vignette(image: Array, strength: Array, center: Array) -> Array:
    """Darken an image towards its corners.

    Each pixel is multiplied by ``1 / (1 + strength * r**2)**2`` where ``r`` is the distance from the optical
    centre in units of the half diagonal (the cosine-fourth law for ``strength = tan(half_fov)**2``).

    Parameters
    ----------
    image : Array, shape (H, W, C)
    strength : Array, scalar
        Non-negative.
    center : Array, shape (2,)
        Displacement (dy, dx) of the optical centre from the image centre, in half diagonals.

    Returns
    -------
    Array, shape (H, W, C)
    """
    return _vignette_fwd(image, strength, center)[0]


def _vignette_fwd(image, strength, center):
    dy, dx = _offsets(*image.shape[:2], center, image.dtype)
    base = 1.0 / (1.0 + strength * (dy**2 + dx**2))
    return image * (base**2)[..., None], (image, strength, center)


def _vignette_bwd(res, g):
    # the gain map is cheap, recompute it
    image, strength, center = res
    dy, dx = _offsets(*image.shape[:2], center, image.dtype)
    r2 = dy**2 + dx**2
    base = 1.0 / (1.0 + strength * r2)
    d_gain = jnp.sum(g * image, axis=-1)
    d_arg = -2.0 * base**3 * d_gain  # w.r.t. strength * r2
    d_strength = jnp.sum(d_arg * r2)
    d_center = -2.0 * strength * jnp.stack([jnp.sum(d_arg * dy), jnp.sum(d_arg * dx)])
    return g * (base**2)[..., None], d_strength, d_center


vignette.defvjp(_vignette_fwd, _vignette_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def schlick_fresnel(cos_theta: Array, f0: Array, f90: Array, power: float = 5.0) -> Array:
    """Schlick's approximation of the Fresnel reflectance.

    Parameters
    ----------
    cos_theta : Array
        Cosine between the view direction and the half vector. Values outside [0, 1] are clamped and get no
        gradient.
    f0, f90 : Array
        Reflectance at normal and at grazing incidence; same shape as `cos_theta`.
    power : float, default 5.0
        Exponent of the falloff, at least 1. Schlick's is 5; artists sometimes ask for a softer one.

    Returns
    -------
    Array
        ``f0 + (f90 - f0) * (1 - cos_theta)**power``
    """
    miss = 1.0 - jnp.clip(cos_theta, 0.0, 1.0)
    return f0 + (f90 - f0) * miss**power


@schlick_fresnel.defjvp
def _schlick_jvp(power, primals, tangents):
    cos_theta, f0, f90 = primals
    d_cos, d_f0, d_f90 = tangents
    miss = 1.0 - jnp.clip(cos_theta, 0.0, 1.0)
    w = miss**power
    inside = (cos_theta > 0.0) & (cos_theta < 1.0)
    m2 = miss * miss
    slope = jnp.where(inside, -power * m2 * m2, 0.0)
    out = f0 + (f90 - f0) * w
    return out, (f90 - f0) * slope * d_cos + (1.0 - w) * d_f0 + w * d_f90


def relight_loss(params, lights, target):
    """Mean squared residual of a photometric-stereo capture."""
    pred = lambert_shade(params["normals"], lights, params["albedo"])
    return jnp.mean((pred - target) ** 2)
