import math
from functools import partial

import jax
import jax.numpy as jnp


def free_space(d):
    return jnp.array([[1.0, d], [0.0, 1.0]])


def thin_lens(f):
    return jnp.array([[1.0, 0.0], [-1.0 / f, 1.0]])


def chain(*elements):
    """Ray matrix of elements met from left to right."""
    out = jnp.eye(2)
    for m in elements:
        out = m @ out
    return out


@jax.custom_vjp
def amplifier_pass(fluence_in, log_gain, saturation):
    """Frantz-Nodvik pass: (fluence out, log gain left for the next pass)."""
    x = fluence_in / saturation
    y = jnp.log1p(jnp.exp(log_gain) * jnp.expm1(x))
    fluence_out = saturation * y
    left = log_gain - (fluence_out - fluence_in) / saturation
    return fluence_out, left


def _amplifier_fwd(fluence_in, log_gain, saturation):
    out = amplifier_pass(fluence_in, log_gain, saturation)
    return out, (fluence_in, log_gain, saturation, out[0])


def _amplifier_bwd(res, cts):
    fluence_in, log_gain, saturation, fluence_out = res
    g_out, g_left = cts
    x = fluence_in / saturation
    gain = jnp.exp(log_gain)
    denom = 1.0 + gain * jnp.expm1(x)
    dy_dx = gain * jnp.exp(x) / denom
    dy_dg = gain * jnp.expm1(x) / denom
    g_total = g_out - g_left / saturation
    g_in = g_total * dy_dx + g_left / saturation
    g_gain = g_total * saturation * dy_dg + g_left
    g_sat = g_total * (fluence_out / saturation - x * dy_dx)
    return g_in, g_gain, g_sat


amplifier_pass.defvjp(_amplifier_fwd, _amplifier_bwd)


def multipass(fluence, log_gain, saturation, passes=4, loss=0.05):
    for _ in range(passes):
        fluence, log_gain = amplifier_pass(fluence, log_gain, saturation)
        fluence = fluence * (1.0 - loss)
    return fluence


def _beam_terms(waist, distance, abcd, wavelength, m2):
    a, b, c, d = abcd[..., 0, 0], abcd[..., 0, 1], abcd[..., 1, 0], abcd[..., 1, 1]
    rayleigh = math.pi * waist**2 / (m2 * wavelength)
    det = a * d - b * c
    reach = a * distance + b
    spread = reach**2 + (a * rayleigh) ** 2
    return (a, b, c, d), rayleigh, det, reach, spread


@partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def beam_radius(waist, distance, abcd, wavelength=1.064e-3, m2=1.0):
    """Radius of a Gaussian beam behind a paraxial system.

    Args:
      waist: 1/e^2 radius at the input waist, mm, positive.
      distance: from the waist to the entrance of the system, mm.
      abcd: (..., 2, 2) real ray matrices with positive determinant.
      wavelength: in mm.
      m2: beam quality factor.

    ``waist``, ``distance`` and the leading axes of ``abcd`` broadcast.
    """
    _, rayleigh, det, _, spread = _beam_terms(waist, distance, abcd, wavelength, m2)
    return jnp.sqrt(m2 * wavelength / math.pi * spread / (rayleigh * det))


@beam_radius.defjvp
def _beam_radius_jvp(wavelength, m2, primals, tangents):
    waist, distance, abcd = primals
    t_waist, t_distance, t_abcd = tangents
    (a, b, c, d), rayleigh, det, reach, spread = _beam_terms(
        waist, distance, abcd, wavelength, m2)
    ta, tb, tc, td = (t_abcd[..., i, j] for i in (0, 1) for j in (0, 1))
    t_rayleigh = 2.0 * rayleigh * t_waist / waist
    t_det = ta * d + a * td - tb * c - b * tc
    t_reach = ta * distance + a * t_distance + tb
    t_spread = 2.0 * (reach * t_reach + a * rayleigh * (ta * rayleigh + a * t_rayleigh))
    out = beam_radius(waist, distance, abcd, wavelength, m2)
    return out, 0.5 * out * (t_spread / spread - t_rayleigh / rayleigh - t_det / det)


def _step_table(steps, ndim, axis):
    shape = [1] * ndim
    shape[axis] = len(steps)
    steps = jnp.asarray(steps).reshape(shape)
    return jnp.cos(steps), jnp.sin(steps)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def stepped_phase(frames, good, steps, axis=0):
    return _stepped_phase_fwd(frames, good, steps, axis)[0]


def _stepped_phase_fwd(frames, good, steps, axis):
    # saturated samples (good == False) are left out of the sums
    cos, sin = _step_table(steps, frames.ndim, axis)
    kept = jnp.where(good, frames, 0.0)
    s = (kept * sin).sum(axis, keepdims=True)
    c = (kept * cos).sum(axis, keepdims=True)
    count = good.sum(axis, keepdims=True)
    phase = jnp.arctan2(-s, c)
    modulation = 2.0 * jnp.hypot(s, c) / count
    out = (jnp.squeeze(phase, axis), jnp.squeeze(modulation, axis))
    return out, (s, c, count)


def _stepped_phase_bwd(steps, axis, res, cts):
    s, c, count = res
    g_phase, g_mod = (jnp.expand_dims(t, axis) for t in cts)
    cos, sin = _step_table(steps, s.ndim, axis)
    r2 = s**2 + c**2
    g_s = -g_phase * c / r2 + 2.0 * g_mod * s / (count * jnp.sqrt(r2))
    g_c = g_phase * s / r2 + 2.0 * g_mod * c / (count * jnp.sqrt(r2))
    return g_s * sin + g_c * cos, None


stepped_phase.defvjp(_stepped_phase_fwd, _stepped_phase_bwd)
