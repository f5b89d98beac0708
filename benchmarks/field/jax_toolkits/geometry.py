"""Distances, angles, lenses and periodic cells."""

from functools import partial
from typing import NamedTuple, Union

import jax
import jax.numpy as jnp

Array = jax.Array

EARTH_RADIUS_KM = 6371.0088


def _haversine_terms(origin, target):
    lat1, lon1 = origin[..., 0], origin[..., 1]
    lat2, lon2 = target[..., 0], target[..., 1]
    sin_lat = jnp.sin(0.5 * (lat2 - lat1))
    sin_lon = jnp.sin(0.5 * (lon2 - lon1))
    return lat1, lon1, lat2, lon2, sin_lat, sin_lon


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def haversine_distance(origin: Array, target: Array, radius: float = EARTH_RADIUS_KM) -> Array:
    """Great-circle distance between points on a sphere.

    Args:
      origin: ``(..., 2)`` latitudes and longitudes in radians.
      target: like ``origin``, broadcasts against it.
      radius: radius of the sphere; its unit is the unit of the result.

    Returns:
      Distances, ``(...)``. At coincident and at antipodal points, where the
      distance has a kink, the derivative is taken to be zero.
    """
    lat1, _, lat2, _, sin_lat, sin_lon = _haversine_terms(origin, target)
    h = sin_lat**2 + jnp.cos(lat1) * jnp.cos(lat2) * sin_lon**2
    h = jnp.clip(h, 0.0, 1.0)
    return 2.0 * radius * jnp.arctan2(jnp.sqrt(h), jnp.sqrt(1.0 - h))


@haversine_distance.defjvp
def _haversine_distance_jvp(radius, primals, tangents):
    origin, target = primals
    d_origin, d_target = tangents
    lat1, lon1, lat2, lon2, sin_lat, sin_lon = _haversine_terms(origin, target)
    cos1, cos2 = jnp.cos(lat1), jnp.cos(lat2)
    h = sin_lat**2 + cos1 * cos2 * sin_lon**2
    d_lat = d_target[..., 0] - d_origin[..., 0]
    d_lon = d_target[..., 1] - d_origin[..., 1]
    dh = (
        0.5 * jnp.sin(lat2 - lat1) * d_lat
        + 0.5 * cos1 * cos2 * jnp.sin(lon2 - lon1) * d_lon
        - (jnp.sin(lat1) * cos2 * d_origin[..., 0] + cos1 * jnp.sin(lat2) * d_target[..., 0]) * sin_lon**2
    )
    var = h * (1.0 - h)
    regular = var > 0.0
    slope = jnp.where(regular, radius / jnp.sqrt(jnp.where(regular, var, 1.0)), 0.0)
    return haversine_distance(origin, target, radius), slope * dh


@jax.custom_jvp
def finite_acos(x):
    """Arc cosine for cosines that may leave [-1, 1] by rounding.

    The argument is clipped. The derivative is deliberately not that of the
    clipped function: it is ``-1 / sqrt(1 - c**2)`` with ``c`` the argument
    clipped to ``[-1 + 1e-6, 1 - 1e-6]``, so it stays finite at the ends and
    keeps pointing inwards beyond them.
    """
    return jnp.arccos(jnp.clip(x, -1.0, 1.0))


@finite_acos.defjvp
def _finite_acos_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    c = jnp.clip(x, -1.0 + 1e-6, 1.0 - 1e-6)
    return finite_acos(x), -dx / jnp.sqrt((1.0 - c) * (1.0 + c))


def bond_angle(a: Array, b: Array, c: Array) -> Array:
    """Angle at ``b`` of the triangle ``a b c``, points ``(..., 3)``."""
    u, w = a - b, c - b
    norm = jnp.linalg.norm(u, axis=-1) * jnp.linalg.norm(w, axis=-1)
    return finite_acos(jnp.sum(u * w, axis=-1) / norm)


class LensCoefficients(NamedTuple):
    k1: Union[Array, float] = 0.0
    k2: Union[Array, float] = 0.0
    p1: Union[Array, float] = 0.0
    p2: Union[Array, float] = 0.0


@jax.custom_jvp
def brown_distortion(points, lens):
    """Brown-Conrady lens model.

    Args:
      points: normalised image coordinates, ``"*batch 2"``.
      lens: a `LensCoefficients`: two radial (``k1``, ``k2``) and two
        tangential (``p1``, ``p2``) coefficients, scalars.

    Returns:
      The distorted coordinates, ``"*batch 2"``.
    """
    x, y = points[..., 0], points[..., 1]
    r2 = x * x + y * y
    radial = 1.0 + r2 * (lens.k1 + r2 * lens.k2)
    xd = x * radial + 2.0 * lens.p1 * x * y + lens.p2 * (r2 + 2.0 * x * x)
    yd = y * radial + lens.p1 * (r2 + 2.0 * y * y) + 2.0 * lens.p2 * x * y
    return jnp.stack([xd, yd], axis=-1)


@brown_distortion.defjvp
def _brown_distortion_jvp(primals, tangents):
    points, lens = primals
    dpoints, dlens = tangents
    x, y = points[..., 0], points[..., 1]
    dx, dy = dpoints[..., 0], dpoints[..., 1]
    r2 = x * x + y * y
    dr2 = 2.0 * (x * dx + y * dy)
    radial = 1.0 + r2 * (lens.k1 + r2 * lens.k2)
    dradial = dr2 * (lens.k1 + r2 * lens.k2) + r2 * (dlens.k1 + r2 * dlens.k2)
    dxy = dx * y + x * dy
    dxd = (
        dx * radial
        + x * dradial
        + 2.0 * (dlens.p1 * x * y + lens.p1 * dxy)
        + dlens.p2 * (r2 + 2.0 * x * x)
        + lens.p2 * (dr2 + 4.0 * x * dx)
    )
    dyd = (
        dy * radial
        + y * dradial
        + dlens.p1 * (r2 + 2.0 * y * y)
        + lens.p1 * (dr2 + 4.0 * y * dy)
        + 2.0 * (dlens.p2 * x * y + lens.p2 * dxy)
    )
    return brown_distortion(points, lens), jnp.stack([dxd, dyd], axis=-1)


def _lattice_shift(ra, rb, box):
    fractional = (ra - rb) @ jnp.linalg.inv(box)
    return jnp.round(fractional)


@jax.custom_jvp
def minimum_image(ra: Array, rb: Array, box: Array) -> Array:
    """Displacement ``ra - rb`` folded back into a periodic cell.

    Parameters
    ----------
    ra, rb
        Positions, ``(..., d)``.
    box
        Cell, ``(d, d)``, the lattice vectors in its rows. Triclinic cells are
        allowed. The result may be differentiated by the cell as well, which is
        what `virial_stress` does; lattice shifts are held fixed.
    """
    return ra - rb - _lattice_shift(ra, rb, box) @ box


@minimum_image.defjvp
def _minimum_image_jvp(primals, tangents):
    ra, rb, box = primals
    dra, drb, dbox = tangents
    shift = _lattice_shift(ra, rb, box)
    out = ra - rb - shift @ box
    return out, dra - drb - jnp.einsum("...i,ji->...j", shift, dbox)


def virial_stress(pair_energy, ra, rb, box):
    """Derivative of the summed pair energies by the cell."""

    def total(cell):
        d = minimum_image(ra, rb, cell)
        return jnp.sum(pair_energy(jnp.linalg.norm(d, axis=-1)))

    return jax.grad(total)(box)
