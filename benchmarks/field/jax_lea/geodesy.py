"""Positioning helpers: ellipsoidal coordinates, GNSS residuals, clock statistics.

Angles are radians, lengths metres, times seconds.  Double precision is
recommended for anything that touches ECEF coordinates.
"""

from functools import partial
from typing import NamedTuple, Tuple

import jax
import jax.numpy as jnp
from jax import Array

SPEED_OF_LIGHT = 299792458.0
EARTH_RATE = 7.2921151467e-5


class Ellipsoid(NamedTuple):
    """Semi-major axis and flattening."""

    a: float
    f: float

    @property
    def e2(self) -> float:
        return self.f * (2.0 - self.f)


WGS84 = Ellipsoid(6378137.0, 1.0 / 298.257223563)
SPHERE = Ellipsoid(6371000.0, 0.0)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def geodetic_to_ecef(lat: Array, lon: Array, height: Array, ellipsoid: Ellipsoid = WGS84) -> Array:
    """Geodetic latitude, longitude and height to earth-centred coordinates.

    The derivative is expressed with the two principal radii of curvature: a change
    of latitude moves the point north by (M + h), a change of longitude moves it
    east by (N + h) cos(lat), a change of height moves it up.

    Args:
        lat: geodetic latitude, any shape.
        lon: longitude, same shape.
        height: ellipsoidal height, same shape.
        ellipsoid: reference surface; static.

    Returns:
        Coordinates with a trailing axis of 3.
    """
    s, c = jnp.sin(lat), jnp.cos(lat)
    n = ellipsoid.a / jnp.sqrt(1.0 - ellipsoid.e2 * s**2)
    r = (n + height) * c
    z = (n * (1.0 - ellipsoid.e2) + height) * s
    return jnp.stack([r * jnp.cos(lon), r * jnp.sin(lon), z], axis=-1)


@geodetic_to_ecef.defjvp
def _geodetic_to_ecef_jvp(ellipsoid, primals, tangents):
    lat, lon, height = primals
    d_lat, d_lon, d_h = tangents
    s, c = jnp.sin(lat), jnp.cos(lat)
    sl, cl = jnp.sin(lon), jnp.cos(lon)
    w2 = 1.0 - ellipsoid.e2 * s**2
    n = ellipsoid.a / jnp.sqrt(w2)
    m = n * (1.0 - ellipsoid.e2) / w2
    north = (m + height) * d_lat
    east = (n + height) * c * d_lon
    tangent = jnp.stack(
        [
            -s * cl * north - sl * east + c * cl * d_h,
            -s * sl * north + cl * east + c * sl * d_h,
            c * north + s * d_h,
        ],
        axis=-1,
    )
    return geodetic_to_ecef(lat, lon, height, ellipsoid), tangent


def _tau(psi, ecc):
    # sin(lat) = tanh(psi + e atanh(e sin(lat))); contraction factor below e**2
    def body(_, arg):
        return psi + ecc * jnp.arctanh(ecc * jnp.tanh(arg))

    shape = jnp.broadcast_shapes(jnp.shape(psi), jnp.shape(ecc))
    return jax.lax.fori_loop(0, 25, body, jnp.broadcast_to(psi, shape))


@jax.custom_jvp
def latitude_from_isometric(psi: Array, ecc: Array) -> Array:
    """Geodetic latitude that belongs to an isometric latitude.

    Solves ``psi = atanh(sin(lat)) - e * atanh(e * sin(lat))`` by fixed-point
    iteration, which gains at least one digit a step for the eccentricities allowed
    here.  The iteration itself is not differentiated: the derivative follows from
    the equation at its solution.

    Args:
        psi: isometric latitude, any real value (the poles are at infinity).
        ecc: first eccentricity, 0 <= ecc <= 0.3; broadcasts against ``psi``.

    Returns:
        Latitude in (-pi/2, pi/2).
    """
    return jnp.arctan(jnp.sinh(_tau(psi, ecc)))


@latitude_from_isometric.defjvp
def _latitude_from_isometric_jvp(primals, tangents):
    psi, ecc = primals
    d_psi, d_ecc = tangents
    arg = _tau(psi, ecc)
    s, c = jnp.tanh(arg), 1.0 / jnp.cosh(arg)
    w2 = 1.0 - (ecc * s) ** 2
    d_lat_d_psi = c * w2 / (1.0 - ecc**2)
    d_psi_d_ecc = -jnp.arctanh(ecc * s) - ecc * s / w2
    return jnp.arctan(jnp.sinh(arg)), d_lat_d_psi * (d_psi - d_psi_d_ecc * d_ecc)


@jax.custom_vjp
def pseudorange_residuals(
    position: Array, clock_bias: Array, satellites: Array, observed: Array, visible: Array
) -> Array:
    """Observed minus computed pseudoranges, with the Sagnac correction.

    Epochs are padded to a fixed number of channels; the residual of a channel that
    tracks no satellite is exactly zero and does not depend on anything.

    Args:
        position: receiver position in ECEF, shape (3,).
        clock_bias: receiver clock bias in metres, scalar.
        satellites: satellite positions at transmission, shape (S, 3).  Padding rows
            may hold any finite values away from the receiver.
        observed: measured pseudoranges, shape (S,).
        visible: boolean, shape (S,), True for channels in use.

    Returns:
        Residuals, shape (S,).
    """
    los = satellites - position
    rng = jnp.sqrt(jnp.sum(los**2, axis=-1))
    sagnac = EARTH_RATE / SPEED_OF_LIGHT * (
        satellites[:, 0] * position[1] - satellites[:, 1] * position[0]
    )
    return jnp.where(visible, observed - (rng + sagnac + clock_bias), 0.0)


def _pseudorange_fwd(position, clock_bias, satellites, observed, visible):
    out = pseudorange_residuals(position, clock_bias, satellites, observed, visible)
    return out, (position, satellites, visible)


def _pseudorange_bwd(res, g):
    position, satellites, visible = res
    k = EARTH_RATE / SPEED_OF_LIGHT
    los = satellites - position
    unit = los / jnp.linalg.norm(los, axis=-1, keepdims=True)
    live = jnp.where(visible, g, 0.0)

    zero = jnp.zeros_like(satellites[:, 0])
    sag_pos = k * jnp.stack([-satellites[:, 1], satellites[:, 0], zero], axis=-1)
    sag_sat = k * jnp.stack([zero + position[1], zero - position[0], zero], axis=-1)

    d_position = live @ (unit - sag_pos)
    d_satellites = -live[:, None] * (unit + sag_sat)
    return d_position, -jnp.sum(g), d_satellites, live, None


pseudorange_residuals.defvjp(_pseudorange_fwd, _pseudorange_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def allan_statistics(phase: Array, tau0: Array, m: int = 1) -> Tuple[Array, Array]:
    """Overlapping Allan variance and mean fractional frequency of a clock.

    Both numbers enter the clock-steering loss: the variance penalises instability,
    the mean frequency penalises a rate offset.

    Args:
        phase: time error samples x, shape (N,), with N > 2 * m.
        tau0: sampling interval in seconds, scalar.
        m: averaging factor, so that tau = m * tau0; static.

    Returns:
        A pair (allan variance at tau, mean fractional frequency over the record).
    """
    d = _second_difference(phase, m)
    avar = jnp.sum(d**2) / (2.0 * (m * tau0) ** 2 * d.shape[0])
    freq = (phase[-1] - phase[0]) / ((phase.shape[0] - 1) * tau0)
    return avar, freq


def _second_difference(x, m):
    return x[2 * m :] - 2.0 * x[m:-m] + x[: -2 * m]


def _allan_fwd(phase, tau0, m):
    out = allan_statistics(phase, tau0, m)
    return out, (phase, tau0, out[0])


def _allan_bwd(m, res, g):
    phase, tau0, avar = res
    g_avar, _ = g
    d = _second_difference(phase, m)
    c = g_avar * d / ((m * tau0) ** 2 * d.shape[0])
    d_phase = jnp.zeros_like(phase)
    d_phase = d_phase.at[2 * m :].add(c).at[m:-m].add(-2.0 * c).at[: -2 * m].add(c)
    return d_phase, -2.0 * g_avar * avar / tau0


allan_statistics.defvjp(_allan_fwd, _allan_bwd)


def gauss_newton_fix(position, clock_bias, satellites, observed, visible, steps: int = 5):
    """A few Gauss-Newton steps of a single-epoch fix (for warm starts)."""

    def residual(theta):
        return pseudorange_residuals(theta[:3], theta[3], satellites, observed, visible)

    theta = jnp.concatenate([position, jnp.reshape(clock_bias, (1,))])
    for _ in range(steps):
        jac = jax.jacrev(residual)(theta)
        theta = theta - jnp.linalg.lstsq(jac, residual(theta))[0]
    return theta[:3], theta[3]
