"""Small differentiable renderer for sky domes and water surfaces."""
from functools import partial

import jax
import jax.numpy as jnp

KINDS = ("gnomonic", "stereographic", "equal-area", "orthographic")


def _scale(cos_c, kind):
    if kind == "gnomonic":
        return 1.0 / cos_c
    if kind == "stereographic":
        return 2.0 / (1.0 + cos_c)
    if kind == "equal-area":
        return jnp.sqrt(2.0 / (1.0 + cos_c))
    if kind == "orthographic":
        return jnp.ones_like(cos_c)
    raise ValueError(f"unknown projection {kind!r}, expected one of {KINDS}")


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def tangent_plane(lon, lat, lon0, lat0, kind="gnomonic"):
    """Azimuthal map projection of sky positions about a pointing centre.

    :param lon: longitudes in radians
    :param lat: latitudes in radians, same shape
    :param lon0: longitude of the centre, broadcast against ``lon``
    :param lat0: latitude of the centre, broadcast against ``lat``
    :param kind: one of ``gnomonic`` (within 90 degrees of the centre),
        ``stereographic``, ``equal-area``, ``orthographic``
    :return: pair ``(x, y)`` in radians, x to the east and y to the north
    """
    dl = lon - lon0
    cos_c = jnp.sin(lat0) * jnp.sin(lat) + jnp.cos(lat0) * jnp.cos(lat) * jnp.cos(dl)
    k = _scale(cos_c, kind)
    x = k * jnp.cos(lat) * jnp.sin(dl)
    y = k * (jnp.cos(lat0) * jnp.sin(lat) - jnp.sin(lat0) * jnp.cos(lat) * jnp.cos(dl))
    return x, y


@tangent_plane.defjvp
def _tangent_plane_jvp(kind, primals, tangents):
    lon, lat, lon0, lat0 = primals
    t_lon, t_lat, t_lon0, t_lat0 = tangents
    dl, t_dl = lon - lon0, t_lon - t_lon0
    s, c, s0, c0 = jnp.sin(lat), jnp.cos(lat), jnp.sin(lat0), jnp.cos(lat0)
    sd, cd = jnp.sin(dl), jnp.cos(dl)

    # unscaled direction cosines of the target in the frame of the centre
    east, north, axial = c * sd, c0 * s - s0 * c * cd, s0 * s + c0 * c * cd
    t_east = -s * sd * t_lat + c * cd * t_dl
    t_north = (c0 * c + s0 * s * cd) * t_lat + s0 * c * sd * t_dl - axial * t_lat0
    t_axial = (s0 * c - c0 * s * cd) * t_lat - c0 * c * sd * t_dl + north * t_lat0

    k = _scale(axial, kind)
    if kind == "gnomonic":
        t_k = -k * k * t_axial
    elif kind == "stereographic":
        t_k = -0.5 * k * k * t_axial
    elif kind == "equal-area":
        t_k = -0.5 * k * k * k * t_axial
    else:
        t_k = jnp.zeros_like(t_axial)
    out = k * east, k * north
    return out, (k * t_east + t_k * east, k * t_north + t_k * north)


@jax.custom_jvp
def dielectric_reflectance(cos_i, ior):
    """Unpolarised Fresnel reflectance of a smooth dielectric.

    ``cos_i`` is the cosine between the ray's reversed direction and the outward
    normal: positive for a ray that enters the medium, negative for one that
    leaves it.  ``ior`` is the index of the medium relative to outside, > 1.
    Beyond the critical angle the reflectance is one.
    """
    return _fresnel(cos_i, ior)[0]


def _fresnel(cos_i, ior):
    entering = cos_i > 0.0
    eta = jnp.where(entering, 1.0 / ior, ior)
    ci = jnp.abs(cos_i)
    k = 1.0 - eta**2 * (1.0 - ci**2)
    total = k <= 0.0
    ct = jnp.sqrt(jnp.where(total, 1.0, k))
    rs = (eta * ci - ct) / (eta * ci + ct)
    rp = (ci - eta * ct) / (ci + eta * ct)
    refl = jnp.where(total, 1.0, 0.5 * (rs**2 + rp**2))
    return refl, (entering, eta, ci, total, ct, rs, rp)


@dielectric_reflectance.defjvp
def _dielectric_jvp(primals, tangents):
    cos_i, ior = primals
    t_cos, t_ior = tangents
    refl, (entering, eta, ci, total, ct, rs, rp) = _fresnel(cos_i, ior)
    t_ci = jnp.where(entering, t_cos, -t_cos)
    t_eta = -t_ior / ior**2
    t_ct = (eta**2 * ci * t_ci - eta * (1.0 - ci**2) * t_eta) / ct
    a, t_a = eta * ci, eta * t_ci + ci * t_eta
    b, t_b = eta * ct, eta * t_ct + ct * t_eta
    t_rs = 2.0 * (ct * t_a - a * t_ct) / (a + ct) ** 2
    t_rp = 2.0 * (b * t_ci - ci * t_b) / (ci + b) ** 2
    return refl, jnp.where(total, 0.0, rs * t_rs + rp * t_rp)


@jax.custom_vjp
def surface_attribute(attributes, bary, faces, face_ids):
    """Interpolate vertex attributes at rasterised pixels.

    :param attributes: (V, C) vertex attributes
    :param bary: (N, 3) barycentric coordinates of the pixels
    :param faces: (F, 3) int vertex ids of the triangles
    :param face_ids: (N,) int triangle of each pixel, -1 for background
    :return: (N, C), zero on background pixels
    """
    corners = faces[jnp.maximum(face_ids, 0)]
    values = jnp.einsum("nk,nkc->nc", bary, attributes[corners])
    return jnp.where(face_ids[:, None] >= 0, values, 0.0)


def _surface_fwd(attributes, bary, faces, face_ids):
    out = surface_attribute(attributes, bary, faces, face_ids)
    return out, (attributes, bary, faces, face_ids)


def _surface_bwd(res, g):
    attributes, bary, faces, face_ids = res
    hit = face_ids >= 0
    corners = faces[jnp.maximum(face_ids, 0)]
    g = jnp.where(hit[:, None], g, 0.0)
    g_bary = jnp.einsum("nc,nkc->nk", g, attributes[corners])

    # background pixels are sent past the end of the table and dropped
    dest = jnp.where(hit[:, None], corners, attributes.shape[0])
    grad = jnp.zeros_like(attributes)
    for k in range(3):
        rows = dest[:, k]
        grad = grad.at[rows].set(
            grad.at[rows].get(mode="fill", fill_value=0.0) + bary[:, k, None] * g,
            mode="drop",
        )
    return grad, g_bary, None, None


surface_attribute.defvjp(_surface_fwd, _surface_bwd)


def _make_posterizer(levels: int):
    """Poster-like tones with a straight-through gradient.

    The forward pass clips to [0, 1] and rounds to ``levels`` equally spaced
    tones.  The derivative of that is zero almost everywhere, so on purpose the
    backward pass treats the rounding as the identity: cotangents pass unchanged
    for inputs in [0, 1] and are stopped outside.
    """

    @jax.custom_gradient
    def posterize(image):
        inside = (image >= 0.0) & (image <= 1.0)
        steps = levels - 1
        tones = jnp.round(jnp.clip(image, 0.0, 1.0) * steps) / steps

        def vjp(g):
            return jnp.where(inside, g, 0.0)

        return tones, vjp

    return posterize


poster_tones = _make_posterizer(6)


def shade_pixels(params, bary, faces, face_ids, cos_view):
    """Vertex colours under a thin water film, shown in poster tones."""
    base = surface_attribute(params["colour"], bary, faces, face_ids)
    r = dielectric_reflectance(cos_view, params["ior"])[:, None]
    return poster_tones((1.0 - r) * base + r * params["sky"])
