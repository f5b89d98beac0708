"""Performance formulas for launchers and aeroplanes (SI units throughout)."""
import functools

import jax
import jax.numpy as jnp

G0 = 9.80665
R_AIR = 287.05287
# geopotential base (m), base temperature (K), base pressure (Pa), lapse (K/m)
_LAYERS = (
    (0.0, 288.15, 101325.0, -0.0065),
    (11000.0, 216.65, 22632.06, 0.0),
    (20000.0, 216.65, 5474.889, 0.001),
)


def _fit(grad, like):
    """Sums `grad` down to the shape of `like`."""
    shape = jnp.shape(like)
    grad = jnp.sum(grad, axis=tuple(range(grad.ndim - len(shape))))
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return jnp.sum(grad, axis=ones, keepdims=True) if ones else grad


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def stack_delta_v(dry, propellant, isp, payload, fairing, jettison=None):
    """Ideal velocity gain of a serial launcher.

    The stages are listed from the bottom up along the last axis and burn in that order; a spent stage is dropped
    before the next one lights.

    Args:
      dry, propellant: (..., stages) masses in kg.
      isp: (..., stages) vacuum specific impulse in s.
      payload: (...) mass in kg.
      fairing: (...) mass of the nose fairing in kg.
      jettison: index of the first stage that burns without the fairing; None when the fairing is carried throughout.

    Returns:
      (...) velocity gain in m/s.
    """
    start, end = _burn_masses(dry, propellant, payload, fairing, jettison)
    return jnp.sum(G0 * isp * jnp.log(start / end), axis=-1)


def _burn_masses(dry, propellant, payload, fairing, jettison):
    stages = dry.shape[-1]
    stacked = jnp.flip(jnp.cumsum(jnp.flip(dry + propellant, -1), axis=-1), -1)
    carried = jnp.arange(stages) < (stages if jettison is None else jettison)
    start = stacked + payload[..., None] + fairing[..., None] * carried
    return start, start - propellant


def _stack_fwd(dry, propellant, isp, payload, fairing, jettison):
    start, end = _burn_masses(dry, propellant, payload, fairing, jettison)
    ratio = jnp.log(start / end)
    return jnp.sum(G0 * isp * ratio, axis=-1), (start, end, ratio, isp)


def _stack_bwd(jettison, res, g):
    start, end, ratio, isp = res
    g = g[..., None]
    stages = isp.shape[-1]
    g_mass = g * G0 * isp * (1.0 / start - 1.0 / end)
    g_dry = jnp.cumsum(g_mass, axis=-1)
    g_propellant = g_dry + g * G0 * isp / end
    last = stages if jettison is None else jettison
    with_fairing = jnp.arange(stages) <= last
    g_fairing = jnp.sum(g_mass * with_fairing, axis=-1)
    return g_dry, g_propellant, g * G0 * ratio, jnp.sum(g_mass, axis=-1), g_fairing


stack_delta_v.defvjp(_stack_fwd, _stack_bwd)


@jax.custom_vjp
def level_cruise_range(start, end, speed, consumption, density, wing):
    """Range at constant speed and height from weight `start` to `end` (N); wing holds "area", "cd0" and "k"."""
    return _cruise(start, end, speed, consumption, density, wing)[0]


def _cruise(start, end, speed, consumption, density, wing):
    qs = 0.5 * density * speed**2 * wing["area"]
    a = qs * wing["cd0"]
    b = wing["k"] / qs
    r = jnp.sqrt(b / a)
    lead = speed / (consumption * jnp.sqrt(a * b))
    angle = jnp.arctan2(r * (start - end), 1.0 + r**2 * start * end)
    return lead * angle, (qs, a, b, r, lead)


def _cruise_fwd(start, end, speed, consumption, density, wing):
    out, mid = _cruise(start, end, speed, consumption, density, wing)
    return out, (out, mid, start, end, speed, consumption, density, wing)


def _cruise_bwd(res, g):
    out, (qs, a, b, r, lead), start, end, speed, consumption, density, wing = res
    g_start = g * speed / (consumption * (a + b * start**2))
    g_end = -g * speed / (consumption * (a + b * end**2))
    by_r = g * lead * (start / (1.0 + (r * start) ** 2) - end / (1.0 + (r * end) ** 2)) * r
    level = g * out
    g_a = -0.5 * (level + by_r) / a
    g_b = 0.5 * (by_r - level) / b
    g_qs = g_a * wing["cd0"] - g_b * b / qs
    g_speed = level / speed + 2.0 * g_qs * qs / speed
    g_wing = {
        "area": _fit(g_qs * qs / wing["area"], wing["area"]),
        "cd0": _fit(g_a * qs, wing["cd0"]),
        "k": _fit(g_b / qs, wing["k"]),
    }
    return (
        _fit(g_start, start),
        _fit(g_end, end),
        _fit(g_speed, speed),
        _fit(-level / consumption, consumption),
        _fit(g_qs * qs / density, density),
        g_wing,
    )


level_cruise_range.defvjp(_cruise_fwd, _cruise_bwd)


def _standard(height):
    """Temperature, pressure and lapse of the standard day below 32 km."""
    temp = press = lapse = None
    for base, t0, p0, rate in _LAYERS:
        dh = height - base
        t = t0 + rate * dh
        if rate == 0.0:
            p = p0 * jnp.exp(-G0 * dh / (R_AIR * t0))
        else:
            p = p0 * jnp.maximum(t / t0, 1e-3) ** (-G0 / (R_AIR * rate))
        if temp is None:
            temp, press, lapse = t, p, jnp.full_like(t, rate)
        else:
            above = height >= base
            temp, press, lapse = jnp.where(above, t, temp), jnp.where(above, p, press), jnp.where(above, rate, lapse)
    return temp, press, lapse


@jax.custom_jvp
def isa_density(height, offset):
    """Air density at a pressure height (m) on a day `offset` kelvin off the standard one."""
    temp, press, _ = _standard(height)
    return press / (R_AIR * (temp + offset))


@isa_density.defjvp
def _isa_density_jvp(primals, tangents):
    height, offset = primals
    d_height, d_offset = tangents
    temp, press, lapse = _standard(height)
    actual = temp + offset
    rho = press / (R_AIR * actual)
    d_log_p = -G0 / (R_AIR * actual) * d_height
    d_temp = lapse * d_height + d_offset
    return rho, rho * (d_log_p - d_temp / actual)


def true_airspeed(calibrated, height, offset=0.0):
    """Low-speed conversion from calibrated airspeed."""
    rho = isa_density(height, jnp.broadcast_to(jnp.asarray(offset, height.dtype), height.shape))
    return calibrated * jnp.sqrt(1.225 / rho)
