# Calculations for a funicular / gondola line: rope length between towers, heat of
# the drive motor, loads on the sheave assemblies, braking of a car.
#
# SI units, angles in radians, grades as rise over run.
import functools

import jax
import jax.numpy as jnp

GRAVITY = 9.80665


def _fit(cotangent, like):
    """Sum a cotangent down to the shape of an operand that was broadcast."""
    shape = jnp.shape(like)
    extra = cotangent.ndim - len(shape)
    cotangent = cotangent.sum(axis=tuple(range(extra)))
    ones = tuple(i for i, s in enumerate(shape) if s == 1 and cotangent.shape[i] != 1)
    return cotangent.sum(axis=ones, keepdims=True)


# -- rope length ---------------------------------------------------------------

@jax.custom_jvp
def rope_length(pull, weight, span, rise):
    """Length of the rope hanging between two towers.

    The rope is a catenary with horizontal pull ``pull`` [N] and own weight
    ``weight`` [N/m] over the horizontal distance ``span``; the far tower is
    higher by ``rise`` (negative if lower). A weightless rope is the chord.
    """
    u = weight * span / (2 * pull)
    return jnp.hypot(rise, span * _sinhc(u))


def _sinhc(u):
    small = jnp.abs(u) < 0.02
    safe = jnp.where(small, 1.0, u)
    series = 1 + u * u / 6 * (1 + u * u / 20)
    return jnp.where(small, series, jnp.sinh(safe) / safe)


def _sinhc_slope(u):
    small = jnp.abs(u) < 0.02
    safe = jnp.where(small, 1.0, u)
    series = u / 3 * (1 + u * u / 10)
    return jnp.where(small, series,
                     (jnp.cosh(safe) - jnp.sinh(safe) / safe) / safe)


@rope_length.defjvp
def _rope_length_jvp(primals, tangents):
    pull, weight, span, rise = primals
    d_pull, d_weight, d_span, d_rise = tangents
    u = weight * span / (2 * pull)
    flat = span * _sinhc(u)
    length = jnp.hypot(rise, flat)
    d_u = (d_weight * span + weight * d_span) / (2 * pull) - u * d_pull / pull
    d_flat = d_span * _sinhc(u) + span * _sinhc_slope(u) * d_u
    return length, (rise * d_rise + flat * d_flat) / length


# -- the drive motor -----------------------------------------------------------

@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def winding_temperature(first, losses, cooling, drift=0.0):
    """Excess temperature [K] of the motor winding after each trip of the day.

    first    excess over the engine room before the first trip, a number
    losses   (trips,) heating of the cold winding in a trip, in kelvin
    cooling  (trips,) share of the excess that is given off in a trip
    drift    growth of the copper resistance per kelvin of excess (0.0039 for
             copper at 20 C; 0 if the drive keeps the losses constant)
    """
    return _winding_fwd(first, losses, cooling, drift)[0]


def _winding_fwd(first, losses, cooling, drift):
    def trip(t, item):
        q, c = item
        new = t + q * (1 + drift * t) - c * t
        return new, (new, t)

    _, (after, before) = jax.lax.scan(trip, first, (losses, cooling))
    return after, (losses, cooling, before)


def _winding_bwd(drift, res, g):
    losses, cooling, before = res

    def trip(lam, item):
        g_t, c, t = item
        lam = lam + g_t
        return lam * (1 - c), (lam * (1 + drift * t), -lam * t)

    d_first, (d_losses, d_cooling) = jax.lax.scan(
        trip, jnp.zeros_like(g[0]), (g, cooling, before), reverse=True)
    return d_first, d_losses, d_cooling


winding_temperature.defvjp(_winding_fwd, _winding_bwd)


# -- sheave assemblies ---------------------------------------------------------

@jax.custom_jvp
def sheave_load(tension, angle_in, angle_out):
    """Load on the sheaves of a tower, always counted positive.

    The rope arrives with slope ``angle_in`` and leaves with ``angle_out``; on a
    support tower it breaks downwards, on a hold-down tower upwards.
    """
    return 2 * tension * jnp.abs(jnp.sin((angle_in - angle_out) / 2))


@sheave_load.defjvp
def _sheave_load_jvp(primals, tangents):
    tension, angle_in, angle_out = primals
    d_tension, d_in, d_out = tangents
    half = (angle_in - angle_out) / 2
    load = sheave_load(tension, angle_in, angle_out)
    tangent = (load / tension) * d_tension + tension * jnp.cos(half) * (d_in - d_out)
    return load, tangent


# -- braking -------------------------------------------------------------------

@jax.custom_gradient
def braking_path(speed, brake, grade, delay):
    """Way of a car until it stands: ``delay`` seconds of free running at constant
    speed, then the brake's deceleration ``brake`` helped by gravity on a rising
    ``grade`` (a falling grade is negative). Operands broadcast."""
    cosine = 1 / jnp.sqrt(1 + grade * grade)
    decel = brake + GRAVITY * grade * cosine
    path = speed * delay + speed * speed / (2 * decel)

    def pull_back(g):
        by_decel = -g * speed * speed / (2 * decel * decel)
        return (_fit(g * (delay + speed / decel), speed),
                _fit(by_decel, brake),
                _fit(by_decel * GRAVITY * cosine ** 3, grade),
                _fit(g * speed, delay))

    return path, pull_back


if __name__ == "__main__":
    print("rope", rope_length(90e3, 62.0, 240.0, 55.0))
    print("winding", winding_temperature(20.0, jnp.full(5, 12.0), jnp.full(5, 0.2), 0.0039))
    print("stop", braking_path(jnp.array([4.0, 6.0]), 1.2, 0.3, 0.4))
