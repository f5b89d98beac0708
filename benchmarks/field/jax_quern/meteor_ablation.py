"""Single-body meteoroid ablation and the observables that constrain it.

The optical network and the forward-scatter radar are fitted together, with
the meteoroid's mass, speed and bulk properties as unknowns.  All state is SI
(kg, m/s, m) unless a name says otherwise.

References
----------
Ceplecha et al. (1998), Space Sci. Rev. 84, 327.
Jones (1995), MNRAS 275, 773 (initial radius and diffusion).
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

AIR_SEA_LEVEL = 1.29          # kg / m^3
SCALE_HEIGHT = 7160.0         # m
MASS_FLOOR = 1e-9             # kg; below this the particle counts as dust
SPEED_FLOOR = 2500.0          # m/s; no light and no ablation to speak of below
FAINT_LIMIT = 9.0             # magnitude reported for frames without light
LN10 = math.log(10.0)

# speeds (km/s) at which the luminous efficiency is tabulated
EFFICIENCY_SPEEDS = (11.0, 16.0, 22.0, 31.0, 45.0, 72.0)


class Meteoroid(NamedTuple):
    mass: jax.Array     # (N,)
    speed: jax.Array    # (N,)
    height: jax.Array   # (N,)


def air_density(height):
    return AIR_SEA_LEVEL * jnp.exp(-height / SCALE_HEIGHT)


def ordinary_chondrite(dtype=jnp.float32):
    values = dict(ablation=1.4e-8, drag=1.0, shape=1.21, density=3500.0)
    return {k: jnp.asarray(v, dtype) for k, v in values.items()}


# --------------------------------------------------------------------------
# dynamics
# --------------------------------------------------------------------------


def _drag_force(body, state):
    section = body["shape"] * (state.mass / body["density"]) ** (2.0 / 3.0)
    return body["drag"] * section * air_density(state.height) * state.speed**2


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def ablation_step(body, state, cos_zenith, dt):
    """Advance meteoroids by one explicit step of ``dt`` seconds.

    Parameters
    ----------
    body : dict
        Scalars ``ablation`` (s^2/m^2), ``drag``, ``shape`` and ``density``.
    state : Meteoroid
        Arrays of shape (N,).
    cos_zenith : (N,)
        Cosine of the radiant's zenith distance.
    dt : float
        Static.

    Returns
    -------
    Meteoroid
        With the mass held at ``MASS_FLOOR`` once burnt out and the speed at
        ``SPEED_FLOOR`` once stopped.
    """
    force = _drag_force(body, state)
    return Meteoroid(
        mass=jnp.maximum(state.mass - dt * body["ablation"] * force * state.speed, MASS_FLOOR),
        speed=jnp.maximum(state.speed - dt * force / state.mass, SPEED_FLOOR),
        height=state.height - dt * state.speed * cos_zenith,
    )


def _step_fwd(body, state, cos_zenith, dt):
    return ablation_step(body, state, cos_zenith, dt), (body, state, cos_zenith)


def _step_bwd(dt, res, g):
    body, state, cos_zenith = res
    mass, speed, height = state
    force = _drag_force(body, state)
    burning = mass - dt * body["ablation"] * force * speed > MASS_FLOOR
    moving = speed - dt * force / mass > SPEED_FLOOR
    g_mass = jnp.where(burning, g.mass, 0.0)
    g_speed = jnp.where(moving, g.speed, 0.0)

    g_force = -dt * (g_speed / mass + g_mass * body["ablation"] * speed)
    work = g_force * force
    total = jnp.sum(work)
    g_body = dict(
        ablation=-dt * jnp.sum(g_mass * force * speed),
        drag=total / body["drag"],
        shape=total / body["shape"],
        density=-(2.0 / 3.0) * total / body["density"],
    )
    g_state = Meteoroid(
        mass=g_mass + (2.0 / 3.0) * work / mass + dt * g_speed * force / mass**2,
        speed=g_speed
        + 2.0 * work / speed
        - dt * g_mass * body["ablation"] * force
        - dt * g.height * cos_zenith,
        height=g.height - work / SCALE_HEIGHT,
    )
    return g_body, g_state, -dt * g.height * speed


ablation_step.defvjp(_step_fwd, _step_bwd)


def fly(body, entry, cos_zenith, steps, dt=0.02):
    """Trajectory of ``steps`` steps; leaves are (steps, N)."""

    def body_fn(state, _):
        new = ablation_step(body, state, cos_zenith, dt)
        return new, new

    return lax.scan(body_fn, entry, None, length=steps)[1]


# --------------------------------------------------------------------------
# light
# --------------------------------------------------------------------------


def _segment(log_speed, log_knots):
    i = jnp.clip(jnp.searchsorted(log_knots, log_speed, side="right") - 1, 0, log_knots.shape[0] - 2)
    width = log_knots[i + 1] - log_knots[i]
    frac = (log_speed - log_knots[i]) / width
    return i, frac, width


@jax.custom_vjp
def luminous_efficiency(table, speed_kms):
    """Luminous efficiency (per cent) at the given speeds.

    ``table`` holds the natural log of the efficiency at ``EFFICIENCY_SPEEDS``;
    in between it is linear in log speed, and it keeps its end values outside.
    ``speed_kms`` may have any shape.
    """
    out, _ = _efficiency_fwd(table, speed_kms)
    return out


def _efficiency_fwd(table, speed_kms):
    log_knots = jnp.log(jnp.asarray(EFFICIENCY_SPEEDS, table.dtype))
    i, frac, width = _segment(jnp.log(speed_kms), log_knots)
    held = jnp.clip(frac, 0.0, 1.0)
    tau = jnp.exp((1.0 - held) * table[i] + held * table[i + 1])
    return tau, (table, speed_kms, i, held, width, tau)


def _efficiency_bwd(res, g):
    table, speed_kms, i, held, width, tau = res
    pull = g * tau
    g_table = jnp.zeros_like(table).at[i].add(pull * (1.0 - held)).at[i + 1].add(pull * held)
    g_speed = pull * (table[i + 1] - table[i]) / (width * speed_kms)
    return g_table, g_speed


luminous_efficiency.defvjp(_efficiency_fwd, _efficiency_bwd)


def light_curve(table, path, dt=0.02):
    """Radiated power in W; path leaves (T, N), result (T - 1, N)."""
    burn = (path.mass[:-1] - path.mass[1:]) / dt
    speed = 0.5 * (path.speed[:-1] + path.speed[1:])
    tau = 0.01 * luminous_efficiency(table, speed / 1000.0)
    return tau * 0.5 * speed**2 * burn


# --------------------------------------------------------------------------
# photometry of fragmenting meteors
# --------------------------------------------------------------------------


class NetworkPhotometry:
    """Total magnitude of the fragments seen by one station.

    Example::

        phot = NetworkPhotometry(zero_point=0.0)
        total = phot.total(fragment_mag, present, airmass, extinction)
    """

    def __init__(self, zero_point=0.0):
        self.zero_point = float(zero_point)
        self.total = self._build()

    def _build(self):
        zero_point = self.zero_point

        def weigh(mag, present):
            floor = jnp.min(jnp.where(present, mag, jnp.inf), axis=-1, keepdims=True)
            floor = jnp.where(jnp.isfinite(floor), floor, 0.0)
            light = jnp.where(present, jnp.exp(-0.4 * LN10 * (mag - floor)), 0.0)
            return floor[..., 0], light

        @jax.custom_vjp
        def fragments_total(mag, present, airmass, extinction):
            """Apparent magnitude of the summed light of the fragments.

            mag, present: (B, F); airmass: (B,); extinction: scalar, magnitudes
            per airmass.  Frames without any fragment give ``FAINT_LIMIT``.
            """
            floor, light = weigh(mag, present)
            total = jnp.sum(light, axis=-1)
            lit = total > 0
            summed = floor - 2.5 / LN10 * jnp.log(jnp.where(lit, total, 1.0))
            return jnp.where(lit, summed + extinction * airmass + zero_point, FAINT_LIMIT)

        def forward(mag, present, airmass, extinction):
            return fragments_total(mag, present, airmass, extinction), (mag, present, airmass, extinction)

        def backward(res, g):
            mag, present, airmass, extinction = res
            _, light = weigh(mag, present)
            total = jnp.sum(light, axis=-1, keepdims=True)
            share = light / jnp.where(total > 0, total, 1.0)
            g_airmass = jnp.where(total[..., 0] > 0, g * extinction, 0.0)
            return g[..., None] * share, None, g_airmass, jnp.sum(g * airmass)

        fragments_total.defvjp(forward, backward)
        return fragments_total


# --------------------------------------------------------------------------
# radar
# --------------------------------------------------------------------------


@jax.custom_gradient
def underdense_echo(line_density, height_km, elapsed, wavelength):
    """Amplitude of underdense trails on several radar frequencies.

    Args:
        line_density: electrons per metre over 1e12, one per echo (E,).
        height_km: (E,) height of the specular point.
        elapsed: (E,) seconds since the trail formed.
        wavelength: (K,) in metres.

    Returns:
        (E, K) relative amplitudes.
    """
    wave = wavelength[None, :]
    radius = 10.0 ** (0.019 * height_km - 1.92)[:, None]
    diffusion = 10.0 ** (0.067 * height_km - 5.6)[:, None]
    spread = (2.0 * math.pi * radius / wave) ** 2
    rate = 16.0 * math.pi**2 * diffusion / wave**2
    fade = rate * elapsed[:, None]
    unit = wave**1.5 * jnp.exp(-spread - fade)
    amplitude = line_density[:, None] * unit

    def grad(g):
        pull = g * amplitude
        by_height = -LN10 * (2.0 * 0.019 * spread + 0.067 * fade)
        by_wave = (1.5 + 2.0 * spread + 2.0 * fade) / wave
        return (
            jnp.sum(g * unit, axis=1),
            jnp.sum(pull * by_height, axis=1),
            -jnp.sum(pull * rate, axis=1),
            jnp.sum(pull * by_wave, axis=0),
        )

    return amplitude, grad


def radar_misfit(line_density, height_km, elapsed, wavelength, observed):
    predicted = underdense_echo(line_density, height_km, elapsed, wavelength)
    return jnp.mean((jnp.log(predicted) - jnp.log(observed)) ** 2)


def optical_misfit(params, entry, cos_zenith, observed, steps):
    """Squared misfit of log radiated power; the whole flight, slow end included."""
    path = fly(params["body"], entry, cos_zenith, steps)
    power = light_curve(params["table"], path)
    return jnp.mean((jnp.log(power + 1.0) - jnp.log(observed + 1.0)) ** 2)


if __name__ == "__main__":
    start = Meteoroid(
        mass=jnp.array([0.05, 2.0, 0.3]),
        speed=jnp.array([24000.0, 13500.0, 41000.0]),
        height=jnp.array([98e3, 92e3, 105e3]),
    )
    cosz = jnp.array([0.8, 0.6, 0.9])
    parameters = dict(
        body=ordinary_chondrite(),
        table=jnp.log(jnp.array([0.35, 0.5, 0.8, 1.0, 1.2, 1.1])),
    )
    seen = jnp.zeros((199, 3))
    print(jax.grad(optical_misfit)(parameters, start, cosz, seen, 200))

    photometry = NetworkPhotometry()
    mags = jnp.array([[1.0, 2.0, 3.5], [0.5, 4.0, 1.0]])
    here = jnp.array([[True, True, False], [True, True, True]])
    print(photometry.total(mags, here, jnp.array([1.2, 1.6]), 0.25))
