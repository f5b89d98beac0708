"""Ground-station link budget terms."""

from functools import partial

import jax
import jax.numpy as jnp

LIGHT_KM_S = 299792.458
EARTH_RATE = (0.0, 0.0, 7.2921159e-5)


def _match(grad, like):
    shape = jnp.shape(like)
    extra = grad.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(extra + i for i, n in enumerate(shape) if n == 1)
    return grad.sum(axis=axes, keepdims=True).reshape(shape)


def _fade_parts(rate, k, alpha, path_km):
    specific = k * rate**alpha
    cell = 35.0 * jnp.exp(-0.015 * rate)
    shrink = 1.0 / (1.0 + path_km / cell)
    return specific, cell, shrink


@jax.custom_vjp
def rain_loss_db(rate, k, alpha, path_km):
    """Rain attenuation [dB] of slant paths, `k * rate**alpha` times the effective length.

    rate     rain rate in mm/h, > 0 (dry samples are dropped upstream)
    k, alpha power-law coefficients of the band
    path_km  length below the rain height, >= 0

    The four arguments broadcast against each other, e.g. rate (times, 1) with k, alpha (bands,).
    """
    specific, _, shrink = _fade_parts(rate, k, alpha, path_km)
    return specific * path_km * shrink


def _rain_fwd(rate, k, alpha, path_km):
    return rain_loss_db(rate, k, alpha, path_km), (rate, k, alpha, path_km)


def _rain_bwd(res, g):
    rate, k, alpha, path_km = res
    specific, cell, shrink = _fade_parts(rate, k, alpha, path_km)
    loss = specific * path_km * shrink
    d_rate = loss * (alpha / rate - 0.015 * shrink * path_km / cell)
    d_k = rate**alpha * path_km * shrink
    d_alpha = loss * jnp.log(rate)
    d_path = specific * shrink**2
    return (
        _match(g * d_rate, rate),
        _match(g * d_k, k),
        _match(g * d_alpha, alpha),
        _match(g * d_path, path_km),
    )


rain_loss_db.defvjp(_rain_fwd, _rain_bwd)


def _element_phase(phase, positions, look, wavenumber):
    return phase + wavenumber * look @ positions.T


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def beam_gain(amp, phase, positions, look, wavenumber, normalize=False):
    """Power of the steered array in each look direction; normalize=True divides by (sum amp)**2."""
    arg = _element_phase(phase, positions, look, wavenumber)
    re, im = jnp.cos(arg) @ amp, jnp.sin(arg) @ amp
    power = re**2 + im**2
    return power / amp.sum() ** 2 if normalize else power


def _beam_fwd(amp, phase, positions, look, wavenumber, normalize):
    power = beam_gain(amp, phase, positions, look, wavenumber, normalize)
    return power, (amp, phase, positions, look)


def _beam_bwd(wavenumber, normalize, res, g):
    amp, phase, positions, look = res
    arg = _element_phase(phase, positions, look, wavenumber)
    c, s = jnp.cos(arg), jnp.sin(arg)
    re, im = (c @ amp)[:, None], (s @ amp)[:, None]
    g = 2.0 * g[:, None]
    if normalize:
        g = g / amp.sum() ** 2
    d_amp = (g * (re * c + im * s)).sum(0)
    d_arg = g * amp * (im * c - re * s)
    d_positions = wavenumber * d_arg.T @ look
    d_look = wavenumber * d_arg @ positions
    return d_amp, d_arg.sum(0), d_positions, d_look


beam_gain.defvjp(_beam_fwd, _beam_bwd)


def _site_motion(site):
    return jnp.cross(jnp.asarray(EARTH_RATE, site.dtype), site)


@jax.custom_jvp
def carrier_doppler(sat, site, carrier):
    # sat: (position, velocity), inertial km and km/s
    pos, vel = sat
    line = pos - site
    closing = vel - _site_motion(site)
    speed = (line * closing).sum(-1) / jnp.linalg.norm(line, axis=-1)
    return -carrier * speed / LIGHT_KM_S


@carrier_doppler.defjvp
def _carrier_doppler_jvp(primals, tangents):
    (pos, vel), site, carrier = primals
    (t_pos, t_vel), t_site, t_carrier = tangents
    line, closing = pos - site, vel - _site_motion(site)
    dist = jnp.linalg.norm(line, axis=-1, keepdims=True)
    unit = line / dist
    speed = (unit * closing).sum(-1)
    t_line = t_pos - t_site
    across = (closing - speed[..., None] * unit) / dist
    t_speed = (across * t_line).sum(-1) + (unit * (t_vel - _site_motion(t_site))).sum(-1)
    return (-carrier * speed / LIGHT_KM_S, -(t_carrier * speed + carrier * t_speed) / LIGHT_KM_S)
