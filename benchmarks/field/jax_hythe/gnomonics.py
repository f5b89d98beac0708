"""Sundial geometry with gradients, for recovering the layout of weathered wall dials.

Given photographs of the surviving hour lines and of a shadow at known times, the survey
scripts adjust the latitude the maker assumed, the declination of the wall, the position
of the nodus and the orbit constants until the dial is explained.  All angles are in
radians.  Azimuth-like angles are positive towards the west.

Axes of the local frame: x east, y north, z up.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp
import numpy as np

TROPICAL_YEAR = 365.2422
TWO_PI = 2.0 * np.pi
GRAZING = 0.02          # smallest sine of the incidence that is still drawn


class Orbit(NamedTuple):
    """Eccentricity, obliquity, longitude of perihelion and day of perihelion."""

    eccentricity: jax.Array
    obliquity: jax.Array
    perihelion_longitude: jax.Array
    perihelion_day: jax.Array


PRESENT_ORBIT = Orbit(0.01671, 0.40909, 4.9382, 3.0)


def hour_angle(clock_hours):
    """Hour angle of local apparent time, zero at noon."""
    return (clock_hours - 12.0) * (TWO_PI / 24.0)


# ----------------------------------------------------------------------------------------
# hour lines
# ----------------------------------------------------------------------------------------


def _line_components(hour, latitude, decline):
    rise = jnp.cos(latitude) * jnp.sin(hour)
    run = jnp.cos(decline) * jnp.cos(hour) + jnp.sin(decline) * jnp.sin(latitude) * jnp.sin(hour)
    return rise, run


@jax.custom_jvp
def hour_line(hour, latitude, decline):
    """Angle between the noon line and an hour line on a vertical declining wall.

    hour : hour angle, any shape
    latitude, decline : scalars or arrays that broadcast with ``hour``; ``decline`` is
        zero for a wall facing due south
    """
    rise, run = _line_components(hour, latitude, decline)
    return jnp.arctan2(rise, run)


@hour_line.defjvp
def _hour_line_jvp(primals, tangents):
    hour, latitude, decline = primals
    d_hour, d_latitude, d_decline = tangents
    sin_h, cos_h = jnp.sin(hour), jnp.cos(hour)
    sin_p, cos_p = jnp.sin(latitude), jnp.cos(latitude)
    sin_d, cos_d = jnp.sin(decline), jnp.cos(decline)

    rise, run = _line_components(hour, latitude, decline)
    d_rise = cos_p * cos_h * d_hour - sin_p * sin_h * d_latitude
    d_run = (
        (sin_d * sin_p * cos_h - cos_d * sin_h) * d_hour
        + sin_d * cos_p * sin_h * d_latitude
        + (cos_d * sin_p * sin_h - sin_d * cos_h) * d_decline
    )
    return jnp.arctan2(rise, run), (run * d_rise - rise * d_run) / (rise ** 2 + run ** 2)


# ----------------------------------------------------------------------------------------
# the sun
# ----------------------------------------------------------------------------------------


def sun_vector(hour, declination, latitude):
    """Unit vectors towards the sun, shape (..., 3)."""
    cos_h, sin_h = jnp.cos(hour), jnp.sin(hour)
    cos_d, sin_d = jnp.cos(declination), jnp.sin(declination)
    cos_p, sin_p = jnp.cos(latitude), jnp.sin(latitude)
    east = -cos_d * sin_h
    north = sin_d * cos_p - cos_d * sin_p * cos_h
    up = sin_d * sin_p + cos_d * cos_p * cos_h
    return jnp.stack([east, north, up], axis=-1)


@jax.custom_jvp
def equation_of_time(day, orbit):
    """Apparent minus mean solar time in radians of hour angle.

    Uses the equation of the centre to second order in the eccentricity; the result is
    wrapped to half a turn either side of zero.
    """
    return _equation_terms(day, orbit)[0]


def _equation_terms(day, orbit):
    anomaly = TWO_PI * (day - orbit.perihelion_day) / TROPICAL_YEAR
    ecc = orbit.eccentricity
    centre = 2.0 * ecc * jnp.sin(anomaly) + 1.25 * ecc ** 2 * jnp.sin(2.0 * anomaly)
    longitude = anomaly + orbit.perihelion_longitude + centre
    ascension = jnp.arctan2(jnp.cos(orbit.obliquity) * jnp.sin(longitude), jnp.cos(longitude))
    mean = anomaly + orbit.perihelion_longitude
    value = jnp.mod(mean - ascension + jnp.pi, TWO_PI) - jnp.pi
    return value, anomaly, longitude


@equation_of_time.defjvp
def _equation_of_time_jvp(primals, tangents):
    day, orbit = primals
    d_day, d_orbit = tangents
    value, anomaly, longitude = _equation_terms(day, orbit)
    ecc = orbit.eccentricity

    d_anomaly = TWO_PI * (d_day - d_orbit.perihelion_day) / TROPICAL_YEAR
    d_mean = d_anomaly + d_orbit.perihelion_longitude
    d_centre = (
        (2.0 * ecc * jnp.cos(anomaly) + 2.5 * ecc ** 2 * jnp.cos(2.0 * anomaly)) * d_anomaly
        + (2.0 * jnp.sin(anomaly) + 2.5 * ecc * jnp.sin(2.0 * anomaly)) * d_orbit.eccentricity
    )
    sin_l, cos_l = jnp.sin(longitude), jnp.cos(longitude)
    sin_e, cos_e = jnp.sin(orbit.obliquity), jnp.cos(orbit.obliquity)
    square = cos_l ** 2 + (cos_e * sin_l) ** 2
    d_ascension = (cos_e * (d_mean + d_centre) - sin_e * sin_l * cos_l * d_orbit.obliquity) / square
    return value, d_mean - d_ascension


def sun_declination(day, orbit):
    longitude = _equation_terms(day, orbit)[2]
    return jnp.arcsin(jnp.sin(orbit.obliquity) * jnp.sin(longitude))


# ----------------------------------------------------------------------------------------
# shadow of the nodus
# ----------------------------------------------------------------------------------------


class Wall(NamedTuple):
    """A plane through ``anchor`` with outward ``normal`` (of any length), both (3,)."""

    normal: jax.Array
    anchor: jax.Array


def make_wall(decline, recline=0.0, anchor: Optional[jax.Array] = None) -> Wall:
    """Wall from its declination and the angle by which it leans back."""
    normal = jnp.stack([
        -jnp.sin(decline) * jnp.cos(recline),
        -jnp.cos(decline) * jnp.cos(recline),
        jnp.sin(recline) + 0.0 * decline,
    ])
    return Wall(normal, jnp.zeros(3) if anchor is None else jnp.asarray(anchor))


def _cast(nodus, sun, wall):
    incidence = sun @ wall.normal
    lit = (incidence > GRAZING * jnp.linalg.norm(wall.normal)) & (sun[..., 2] > 0.0)
    safe = jnp.where(lit, incidence, 1.0)
    travel = ((nodus - wall.anchor) @ wall.normal) / safe
    return lit, safe, travel


@jax.custom_vjp
def shadow_tip(nodus, sun, wall):
    """Where the shadow of the nodus meets the wall.

    Parameters
    ----------
    nodus : (3,)
        Position of the ball, in metres.
    sun : (..., 3)
        Directions towards the sun, usually a (days, hours, 3) grid.
    wall : Wall
        ``anchor`` is any surveyed point of the wall, given in the frame of the nodus
        (it is the foot of the survey staff, in general not the origin).

    Returns
    -------
    (..., 3), zero wherever the sun is down or does not light the wall.
    """
    lit, _, travel = _cast(nodus, sun, wall)
    return jnp.where(lit[..., None], nodus - travel[..., None] * sun, 0.0)


def _shadow_fwd(nodus, sun, wall):
    return shadow_tip(nodus, sun, wall), (nodus, sun, wall)


def _shadow_bwd(res, g):
    nodus, sun, wall = res
    lit, incidence, travel = _cast(nodus, sun, wall)
    g = jnp.where(lit[..., None], g, 0.0)
    axes = tuple(range(sun.ndim - 1))

    g_travel = -jnp.sum(g * sun, axis=-1)
    along = g_travel / incidence
    lift = jnp.sum(along, axis=axes)

    g_nodus = jnp.sum(g, axis=axes) + lift * wall.normal
    g_sun = -travel[..., None] * (g + along[..., None] * wall.normal)
    g_normal = jnp.sum(along[..., None] * (nodus - travel[..., None] * sun), axis=axes)
    g_anchor = -lift * wall.normal
    return g_nodus, g_sun, Wall(g_normal, g_anchor)


shadow_tip.defvjp(_shadow_fwd, _shadow_bwd)


# ----------------------------------------------------------------------------------------
# survey
# ----------------------------------------------------------------------------------------


def predicted_tips(params, days, clock_hours):
    """Shadow tips on a (days, hours) grid of mean time."""
    orbit = params["orbit"]
    shift = equation_of_time(days, orbit)
    hours = hour_angle(clock_hours)[None, :] + shift[:, None]
    declination = sun_declination(days, orbit)[:, None]
    sun = sun_vector(hours, declination, params["latitude"])
    return shadow_tip(params["nodus"], sun, make_wall(params["decline"], 0.0, params["anchor"]))


@functools.partial(jax.jit, static_argnums=(5,))
def survey_loss(params, days, clock_hours, observed_tips, observed_lines, line_weight=10.0):
    tips = predicted_tips(params, days, clock_hours)
    lines = hour_line(hour_angle(clock_hours), params["latitude"], params["decline"])
    return jnp.mean((tips - observed_tips) ** 2) + line_weight * jnp.mean(
        (lines - observed_lines) ** 2
    )


def starting_point(latitude_degrees=48.0):
    return {
        "latitude": jnp.deg2rad(latitude_degrees),
        "decline": jnp.asarray(0.15),
        "nodus": jnp.array([0.02, -0.31, 0.4]),
        "anchor": jnp.array([0.3, 0.04, -0.6]),
        "orbit": Orbit(*(jnp.asarray(v, dtype=jnp.float32) for v in PRESENT_ORBIT)),
    }


if __name__ == "__main__":
    days = jnp.array([20.0, 95.0, 172.0, 260.0])
    clock = jnp.array([9.0, 10.5, 12.0, 13.5, 15.0])
    truth = starting_point()
    tips = predicted_tips(truth, days, clock)
    lines = hour_line(hour_angle(clock), truth["latitude"], truth["decline"])
    guess = dict(truth, decline=jnp.asarray(0.05), latitude=truth["latitude"] + 0.02)
    for step in range(3):
        value, grads = jax.value_and_grad(survey_loss)(guess, days, clock, tips, lines)
        guess = jax.tree_util.tree_map(lambda p, d: p - 0.01 * d, guess, grads)
        print(step, value)
