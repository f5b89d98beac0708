"""Capacitance, thermal rating and tension of overhead line conductors.  SI units, temperatures in degrees Celsius."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

STEFAN_BOLTZMANN = 5.670374e-8
KELVIN = 273.15


@dataclass(frozen=True)
class Conductor:
    """Data of one stranded conductor."""

    diameter: float = 0.028  # m
    resistance: float = 7.3e-5  # ohm / m at 20 C
    temp_coeff: float = 0.0039  # 1 / K
    emissivity: float = 0.7
    absorptivity: float = 0.8
    stiffness: float = 3.2e7  # E A, N
    expansion: float = 1.9e-5  # 1 / K


# -------------------------------------------------------------------------------------------------- capacitance


@jax.custom_vjp
def line_capacitance(x, height, radius):
    """Capacitance matrix of parallel wires over flat ground, by the method of images, without the factor 2 pi eps0.

    Args:
        x: (..., n) horizontal positions, m.
        height: (..., n) heights above ground, m.
        radius: (n,) or (..., n) wire radii, m; small against all distances.

    Returns:
        (..., n, n) matrix, charge of one wire for the potential of another.
    """
    return jnp.linalg.inv(_potential_terms(x, height, radius)[0])


def _potential_terms(x, height, radius):
    dx = x[..., :, None] - x[..., None, :]
    down = height[..., :, None] - height[..., None, :]
    up = height[..., :, None] + height[..., None, :]
    own = jnp.eye(x.shape[-1], dtype=bool)
    near2 = jnp.where(own, radius[..., :, None] ** 2, dx**2 + down**2)
    image2 = dx**2 + up**2
    return 0.5 * jnp.log(image2 / near2), dx, down, up, near2, image2, own


def _sum_leading(g, like):
    return g.sum(axis=tuple(range(g.ndim - like.ndim)))


def _capacitance_fwd(x, height, radius):
    potential, dx, down, up, near2, image2, own = _potential_terms(x, height, radius)
    cap = jnp.linalg.inv(potential)
    return cap, (x, height, radius, cap, dx, down, up, near2, image2, own)


def _capacitance_bwd(res, g):
    x, height, radius, cap, dx, down, up, near2, image2, own = res
    cap_t = jnp.swapaxes(cap, -1, -2)
    g_pot = -cap_t @ g @ cap_t
    g_near = jnp.where(own, 0.0, g_pot / near2)
    g_image = g_pot / image2
    g_dx = (g_image - g_near) * dx
    g_down = -g_near * down
    g_up = g_image * up
    g_x = g_dx.sum(-1) - g_dx.sum(-2)
    g_height = g_down.sum(-1) - g_down.sum(-2) + g_up.sum(-1) + g_up.sum(-2)
    g_radius = -jnp.diagonal(g_pot, axis1=-2, axis2=-1) / radius
    return g_x, g_height, _sum_leading(g_radius, radius)


line_capacitance.defvjp(_capacitance_fwd, _capacitance_bwd)


# ------------------------------------------------------------------------------------------------------ thermal


def thermal_model(wire: Conductor, iterations: int = 25):
    """Return a function that gives the steady temperature of ``wire``."""
    area = jnp.pi * wire.diameter

    def cooling(wind):
        """Convective loss per metre and kelvin."""
        return 1.7 * (wind + 0.1) ** 0.6

    def radiated(t):
        return wire.emissivity * STEFAN_BOLTZMANN * area * (t + KELVIN) ** 4

    def radiated_slope(t):
        return 4 * wire.emissivity * STEFAN_BOLTZMANN * area * (t + KELVIN) ** 3

    def ohmic(current, t):
        return current**2 * wire.resistance * (1 + wire.temp_coeff * (t - 20))

    def solve(current, ambient, wind, sun):
        h = cooling(wind)

        def step(_, t):
            gain = ohmic(current, t) + wire.absorptivity * wire.diameter * sun
            loss = h * (t - ambient) + radiated(t) - radiated(ambient)
            slope = h + radiated_slope(t) - current**2 * wire.resistance * wire.temp_coeff
            return t + (gain - loss) / slope

        return jax.lax.fori_loop(0, iterations, step, ambient + 20.0)

    @jax.custom_vjp
    def steady_temperature(current, ambient, wind, sun):
        """Temperature (n,) of the loaded wire, for current in A (a few hundred to 1500), ambient in C, wind in
        m/s across the line and sun in W/m2, each (n,)."""
        return solve(current, ambient, wind, sun)

    def forward(current, ambient, wind, sun):
        t = solve(current, ambient, wind, sun)
        return t, (current, ambient, wind, t)

    def backward(res, g):
        current, ambient, wind, t = res
        lam = g / (cooling(wind) + radiated_slope(t))
        g_current = lam * 2 * ohmic(current, t) / current
        g_ambient = lam * (cooling(wind) + radiated_slope(ambient))
        g_wind = -lam * (t - ambient) * 0.6 * cooling(wind) / (wind + 0.1)
        g_sun = lam * wire.absorptivity * wire.diameter
        return g_current, g_ambient, g_wind, g_sun

    steady_temperature.defvjp(forward, backward)
    return steady_temperature


# ------------------------------------------------------------------------------------------------------ tension


def tension_model(wire: Conductor, num_sections: int):
    """Return the change-of-state equation for line sections between anchor towers."""
    ea = wire.stiffness

    def ruling(spans, section):
        cubes = jax.ops.segment_sum(spans**3, section, num_sections)
        total = jax.ops.segment_sum(spans, section, num_sections)
        return cubes, jnp.where(total > 0, total, 1.0)

    def coefficients(span2, h0, w0, w1, warming):
        a = ea * w0**2 * span2 / (24 * h0**2) - h0 + ea * wire.expansion * warming
        b = ea * w1**2 * span2 / 24
        return a, b

    def solve(a, b):
        """Positive root of h**3 + a h**2 - b."""

        def step(_, h):
            return h - (h**3 + a * h**2 - b) / (3 * h**2 + 2 * a * h)

        return jax.lax.fori_loop(0, 60, step, jnp.maximum(-a, 0.0) + jnp.cbrt(b) + 1.0)

    @jax.custom_vjp
    def sagging_tension(spans, h0, w0, w1, warming, section):
        """Horizontal tension (num_sections,) in N after a change of load and temperature.

        spans (n,) in m with their section numbers (n,); h0 tension, w0 and w1 weight per metre before and after, warming
        in K, each (num_sections,).
        """
        cubes, total = ruling(spans, section)
        return solve(*coefficients(cubes / total, h0, w0, w1, warming))

    def forward(spans, h0, w0, w1, warming, section):
        cubes, total = ruling(spans, section)
        a, b = coefficients(cubes / total, h0, w0, w1, warming)
        h = solve(a, b)
        return h, (spans, h0, w0, w1, section, cubes, total, a, h)

    def backward(res, g):
        spans, h0, w0, w1, section, cubes, total, a, h = res
        span2 = cubes / total
        lam = g / (3 * h**2 + 2 * a * h)
        g_a, g_b = -lam * h**2, lam
        stretch = ea / 24
        g_span2 = stretch * (g_a * (w0 / h0) ** 2 + g_b * w1**2)
        g_h0 = -g_a * (2 * stretch * w0**2 * span2 / h0**3 + 1)
        g_w0 = g_a * 2 * stretch * w0 * span2 / h0**2
        g_w1 = g_b * 2 * stretch * w1 * span2
        g_spans = (g_span2 / total)[section] * (3 * spans**2 - span2[section])
        return g_spans, g_h0, g_w0, g_w1, g_a * ea * wire.expansion, None

    sagging_tension.defvjp(forward, backward)
    return sagging_tension
