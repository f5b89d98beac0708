"""Choreography of pyromusical displays.

A show is a list of cues.  Each cue fires a shell from a mortar; the shell climbs,
loses speed to drag, and bursts into stars whose light rises and fades.  We tune
cues, charges and star compositions against a loudness curve of the music and a
colour script, both sampled on a common time grid.

Contents
--------
shell_apex      burst height and climb time of a shell
cue_frames      firing times on the grid of the controller
star_light      luminous intensity of all stars over time
ShowModel       the whole chain with its parameters
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp

GRAVITY = 9.81
AIR_DENSITY = 1.204
SHELL_DRAG = 0.47  # sphere
CONTROLLER_FRAME = 0.04  # s, 25 frames per second
BURN_SHAPE = 1.0
LUMA = jnp.array([0.2126, 0.7152, 0.0722])

# calibre in mm -> (mass kg, muzzle speed m/s)
CALIBRES = {
    75: (0.21, 55.0),
    100: (0.45, 66.0),
    125: (0.95, 75.0),
    150: (1.55, 84.0),
    200: (3.60, 98.0),
}


class Stars(NamedTuple):
    """Stars of the show, one entry per burst."""

    colour: jax.Array  # (bursts, 3) candela per channel at the peak
    duration: jax.Array  # (bursts,) s until the peak


class Cues(NamedTuple):
    time: jax.Array  # (bursts,)
    speed: jax.Array  # (bursts,)


# ------------------------------------------------------------------------ climb


def terminal_speed(mass, diameter):
    area = 0.25 * jnp.pi * diameter**2
    return jnp.sqrt(2.0 * mass * GRAVITY / (AIR_DENSITY * SHELL_DRAG * area))


@jax.custom_gradient
def shell_apex(speed, mass, diameter):
    """Apex height (m) and time to the apex (s) with quadratic drag.

    All three arguments are arrays of one shape, one entry per shell.
    """
    limit = terminal_speed(mass, diameter)
    ratio = speed / limit
    brake = 1.0 + ratio**2
    height = limit**2 / (2.0 * GRAVITY) * jnp.log(brake)
    climb = limit / GRAVITY * jnp.arctan(ratio)

    def pull(cotangent):
        height_bar, climb_bar = cotangent
        speed_bar = (height_bar * speed + climb_bar) / (GRAVITY * brake)
        limit_bar = (
            height_bar * limit * (jnp.log(brake) - ratio**2 / brake)
            + climb_bar * (jnp.arctan(ratio) - ratio / brake)
        ) / GRAVITY
        mass_bar = 0.5 * limit_bar * limit / mass
        diameter_bar = -limit_bar * limit / diameter
        return speed_bar, mass_bar, diameter_bar

    return (height, climb), pull


# ------------------------------------------------------------------------ cues


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def cue_frames(time, frame, span):
    """Snap firing times to the frames of the controller.

    The time is clipped to the programme [0, span] and rounded to a multiple of
    ``frame``.  For optimisation the rounding is treated as the identity
    (straight-through), whereas cues outside of the programme get no gradient.
    """
    inside = jnp.clip(time, 0.0, span)
    return frame * jnp.round(inside / frame)


@cue_frames.defjvp
def _cue_frames_jvp(frame, span, primals, tangents):
    (time,), (time_dot,) = primals, tangents
    live = (time >= 0.0) & (time <= span)
    return cue_frames(time, frame, span), jnp.where(live, time_dot, 0.0)


# ------------------------------------------------------------------------ light


def _burn_curve(age, shape):
    """(age exp(1 - age))^shape for positive age, with its peak of one at age 1."""
    alight = age > 0.0
    age = jnp.where(alight, age, 1.0)
    return jnp.where(alight, age**shape * jnp.exp(shape * (1.0 - age)), 0.0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def star_light(times, ignition, colour, duration, shape=BURN_SHAPE):
    """Light of all bursts on a time grid.

    Args:
        times: Sample times, shape (samples,).
        ignition: Burst times, shape (bursts,).
        colour: Peak intensity, shape (bursts, 3).
        duration: Seconds from ignition to the peak, shape (bursts,).
        shape: Sharpness of the burn curve.  Chrysanthemum stars sit near 1,
            crossettes and strobes between 2 and 4, willows below 1.

    Returns:
        Intensity of shape (samples, 3).
    """
    age = (times[:, None] - ignition) / duration
    return _burn_curve(age, shape) @ colour


def _star_light_fwd(times, ignition, colour, duration, shape):
    age = (times[:, None] - ignition) / duration
    curve = _burn_curve(age, shape)
    return curve @ colour, (age, curve, colour, duration)


def _star_light_bwd(shape, saved, light_bar):
    age, curve, colour, duration = saved
    colour_bar = curve.T @ light_bar
    curve_bar = light_bar @ colour.T

    alight = age > 0.0
    slope = jnp.where(alight, curve * (1.0 / jnp.where(alight, age, 1.0) - 1.0), 0.0)
    age_bar = curve_bar * slope / duration

    times_bar = jnp.sum(age_bar, axis=1)
    ignition_bar = -jnp.sum(age_bar, axis=0)
    duration_bar = -jnp.sum(age_bar * age, axis=0)
    return times_bar, ignition_bar, colour_bar, duration_bar


star_light.defvjp(_star_light_fwd, _star_light_bwd)


# ------------------------------------------------------------------------ model


def safety_radius(diameter):
    """Fallout distance in metres, 100 times the calibre."""
    return 100.0 * diameter


@dataclass(frozen=True)
class ShowModel:
    """A show with fixed shells and free cues, speeds and stars.

    `calibres` lists the shells in order of firing, in millimetres.
    """

    calibres: tuple[int, ...]
    span: float = 60.0
    shape: float = BURN_SHAPE
    ceiling: float = 260.0
    frame: float = field(default=CONTROLLER_FRAME)

    def shells(self):
        mass = jnp.array([CALIBRES[c][0] for c in self.calibres])
        diameter = jnp.array([c / 1000.0 for c in self.calibres])
        return mass, diameter

    def init(self, key):
        count = len(self.calibres)
        k_time, k_colour = jax.random.split(key)
        speed = jnp.array([CALIBRES[c][1] for c in self.calibres])
        time = jnp.sort(jax.random.uniform(k_time, (count,), maxval=self.span * 0.8))
        return {
            "cues": Cues(time=time, speed=speed),
            "stars": Stars(
                colour=1.0 + jax.random.uniform(k_colour, (count, 3)),
                duration=jnp.full((count,), 1.2),
            ),
        }

    def bursts(self, params):
        """Burst times and heights."""
        mass, diameter = self.shells()
        height, climb = shell_apex(params["cues"].speed, mass, diameter)
        fired = cue_frames(params["cues"].time, self.frame, self.span)
        return fired + climb, height

    def light(self, params, times):
        ignition, _ = self.bursts(params)
        stars = params["stars"]
        return star_light(times, ignition, stars.colour, stars.duration, self.shape)

    def loss(self, params, times, script, loudness):
        """Distance to the colour script and to the loudness, and a ceiling penalty.

        script (samples, 3), loudness (samples,)
        """
        light = self.light(params, times)
        _, height = self.bursts(params)
        colour_term = jnp.mean((light - script) ** 2)
        luma_term = jnp.mean((light @ LUMA - loudness) ** 2)
        over = jnp.maximum(height - self.ceiling, 0.0)
        return colour_term + luma_term + 1e-3 * jnp.sum(over**2)


def train(model: ShowModel, params, times, script, loudness, rate=0.02, rounds=40):
    step = jax.jit(jax.value_and_grad(model.loss))
    history = []
    for _ in range(rounds):
        value, grads = step(params, times, script, loudness)
        params = jax.tree.map(lambda p, g: p - rate * g, params, grads)
        history.append(float(value))
    return params, history


def strobe_show():
    """The strobe finale of the summer programme."""
    return ShowModel(calibres=(75, 75, 100, 100, 125, 150), span=20.0, shape=3.0)


def main():
    model = strobe_show()
    params = model.init(jax.random.PRNGKey(11))
    times = jnp.linspace(0.0, 28.0, 350)
    loudness = 1.0 + jnp.sin(times * 0.9) ** 2
    script = jnp.stack([loudness, 0.6 * loudness, 0.3 * loudness], axis=1)
    params, history = train(model, params, times, script, loudness)
    print("first and last loss", history[0], history[-1])
    ignition, height = model.bursts(params)
    for calibre, when, high in zip(model.calibres, ignition, height):
        radius = safety_radius(calibre / 1000.0)
        print(f"{calibre:4d} mm  {float(when):6.2f} s  {float(high):6.1f} m  r={radius:.1f}")


if __name__ == "__main__":
    main()
