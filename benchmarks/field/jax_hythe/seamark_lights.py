"""Photometry of marine aids to navigation: range, flash character and sector colour.

Used by the light-list optimiser to trade lamp power against the range printed on the
chart.  Three things are modelled: how far a steady light is seen through haze, what a
flash is worth compared with a steady light, and which colour a mariner sees on a given
bearing of a sector light.

Distances are nautical miles, intensities candela, bearings degrees clockwise from
north as seen from seaward.
"""

import functools
import math
from dataclasses import dataclass, field
from typing import Tuple

import jax
import jax.numpy as jnp
import numpy as np

METRES_PER_MILE = 1852.0
NIGHT_THRESHOLD = 2.0e-7      # lux at the eye
CONTRAST_FACTOR = 0.05        # transmission over one meteorological visibility
LOG_CONTRAST = -math.log(CONTRAST_FACTOR)
VISUAL_TIME = 0.2             # seconds
SOLVER_STEPS = 32

VISIBILITY_CODES = {0: 0.027, 1: 0.11, 2: 0.27, 3: 0.54, 4: 1.1, 5: 2.2, 6: 5.4, 7: 11.0,
                    8: 27.0, 9: 30.0}


def visibility_from_code(code: int) -> float:
    """International visibility code to nautical miles."""
    return VISIBILITY_CODES[int(code)]


def _match_shape(value, like):
    """Sum ``value`` down to the shape of ``like``."""
    extra = value.ndim - jnp.ndim(like)
    value = value.sum(axis=tuple(range(extra)))
    squeezed = tuple(i for i, n in enumerate(jnp.shape(like)) if n == 1 and value.shape[i] != 1)
    return value.sum(axis=squeezed, keepdims=True) if squeezed else value


# ------------------------------------------------------------------------------------
# range of a steady light
# ------------------------------------------------------------------------------------


def _solve_allard(log_ratio, extinction):
    """Solve 2 x + extinction * exp(x) = log_ratio for x, the log of the distance."""

    def step(_, x):
        attenuation = extinction * jnp.exp(x)
        return x - (2.0 * x + attenuation - log_ratio) / (2.0 + attenuation)

    start = 0.5 * log_ratio + 0.0 * extinction
    return jax.lax.fori_loop(0, SOLVER_STEPS, step, start)


@jax.custom_vjp
def luminous_range(intensity, visibility, threshold=NIGHT_THRESHOLD):
    """Distance at which a light falls to the threshold of the eye (Allard's law).

    The three arguments broadcast against each other: a list of lights against a
    column of visibilities gives the table that is printed in the light list.

    Returns:
        Luminous range in nautical miles.
    """
    log_ratio = jnp.log(intensity) - jnp.log(threshold * METRES_PER_MILE ** 2)
    return jnp.exp(_solve_allard(log_ratio, LOG_CONTRAST / visibility))


def _range_fwd(intensity, visibility, threshold):
    distance = luminous_range(intensity, visibility, threshold)
    return distance, (intensity, visibility, threshold, distance)


def _range_bwd(res, g):
    intensity, visibility, threshold, distance = res
    extinction = LOG_CONTRAST / visibility
    gain = g / (2.0 / distance + extinction)
    d_intensity = gain / intensity
    d_threshold = -gain / threshold
    d_visibility = gain * distance * extinction / visibility
    return (_match_shape(d_intensity, intensity),
            _match_shape(d_visibility, visibility),
            _match_shape(d_threshold, threshold))


luminous_range.defvjp(_range_fwd, _range_bwd)


def nominal_range(intensity):
    """Luminous range in the standard ten miles of visibility."""
    return luminous_range(intensity, jnp.asarray(10.0), jnp.asarray(NIGHT_THRESHOLD))


# ------------------------------------------------------------------------------------
# worth of a flash
# ------------------------------------------------------------------------------------


def _window_sums(curve, windows):
    running = jnp.concatenate([jnp.zeros(1, curve.dtype), jnp.cumsum(curve)])
    return running[windows[:, 1]] - running[windows[:, 0]]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def flash_intensity(curve, visual_time, windows, dt):
    """Blondel-Rey intensity of the flashes of one period of a light.

    Parameters
    ----------
    curve : array (samples,)
        Instantaneous intensity over a period.
    visual_time : scalar
        Blondel-Rey constant, seconds (0.2 at night threshold).
    windows : int array (flashes, 2)
        Half-open sample ranges ``[start, stop)`` of each flash. Composite characters
        are given as back-to-back or overlapping windows.
    dt : float
        Sample spacing in seconds.

    Returns
    -------
    array (flashes,)
    """
    duration = (windows[:, 1] - windows[:, 0]) * dt
    return dt * _window_sums(curve, windows) / (visual_time + duration)


def _flash_fwd(curve, visual_time, windows, dt):
    worth = flash_intensity(curve, visual_time, windows, dt)
    return worth, (worth, visual_time, windows, jnp.zeros_like(curve))


def _flash_bwd(dt, res, g):
    worth, visual_time, windows, blank = res
    spread = visual_time + (windows[:, 1] - windows[:, 0]) * dt
    weight = g * dt / spread
    steps = jnp.concatenate([blank, jnp.zeros(1, blank.dtype)])
    steps = steps.at[windows[:, 0]].add(weight)
    steps = steps.at[windows[:, 1]].set(-weight)
    g_curve = jnp.cumsum(steps)[:-1]
    g_time = -jnp.sum(g * worth / spread)
    return g_curve, g_time, None


flash_intensity.defvjp(_flash_fwd, _flash_bwd)


def windows_from_character(on_off, dt):
    """Sample windows of an on/off character such as ``[(0.5, 1.0), (0.5, 3.0)]``."""
    edges, clock = [], 0.0
    for lit, dark in on_off:
        edges.append((int(round(clock / dt)), int(round((clock + lit) / dt))))
        clock += lit + dark
    return np.asarray(edges, dtype=np.int32)


# ------------------------------------------------------------------------------------
# sector lights
# ------------------------------------------------------------------------------------


def wrap_bearing(angle):
    """Signed difference of bearings in [-180, 180)."""
    return jnp.mod(angle + 180.0, 360.0) - 180.0


@dataclass
class SectorLight:
    """A light showing different colours on different bearings.

    ``centres`` and ``half_widths`` (degrees) describe the panes of coloured glass;
    a pane may straddle north. ``uncertainty`` is the angle over which one colour gives
    way to the next.
    """

    colours: Tuple[str, ...]
    uncertainty: float = 0.6
    intensity: object = field(init=False, repr=False)

    def __post_init__(self):
        self.intensity = self._build()

    def _build(self):
        sharp = 1.0 / self.uncertainty

        def edges(bearing, centres, half_widths):
            offset = wrap_bearing(bearing[..., None] - centres)
            left = jax.nn.sigmoid(sharp * (offset + half_widths))
            right = jax.nn.sigmoid(sharp * (half_widths - offset))
            return left, right

        @jax.custom_vjp
        def character(bearing, panes):
            """Intensity per colour, (..., n), of panes {"centre", "half_width", "peak"} (n,)."""
            left, right = edges(bearing, panes["centre"], panes["half_width"])
            return panes["peak"] * left * right

        def character_fwd(bearing, panes):
            left, right = edges(bearing, panes["centre"], panes["half_width"])
            return panes["peak"] * left * right, (bearing, panes)

        def character_bwd(res, g):
            bearing, panes = res
            offset = bearing[..., None] - panes["centre"]
            left = jax.nn.sigmoid(sharp * (offset + panes["half_width"]))
            right = jax.nn.sigmoid(sharp * (panes["half_width"] - offset))
            shown = left * right
            scaled = g * panes["peak"] * shown * sharp
            g_offset = scaled * ((1.0 - left) - (1.0 - right))
            g_half = scaled * ((1.0 - left) + (1.0 - right))
            axes = tuple(range(bearing.ndim))
            g_panes = {
                "centre": -g_offset.sum(axes),
                "half_width": g_half.sum(axes),
                "peak": (g * shown).sum(axes),
            }
            return g_offset.sum(-1), g_panes

        character.defvjp(character_fwd, character_bwd)
        return character

    def colour_fractions(self, bearing, panes):
        shown = self.intensity(bearing, panes)
        return shown / (shown.sum(-1, keepdims=True) + 1e-6)

    def dominant(self, bearing, panes):
        index = np.asarray(jnp.argmax(self.intensity(bearing, panes), axis=-1))
        return [self.colours[i] for i in index.ravel()]


def leading_line_loss(light, bearings, wanted, panes):
    """Cross entropy between the colours seen on a track and the colours wanted there."""
    fractions = light.colour_fractions(bearings, panes)
    return -jnp.mean(jnp.sum(wanted * jnp.log(fractions + 1e-9), axis=-1))


def power_budget(curve, windows, dt, wanted_miles):
    """Shortfall in range of each flash of a character against a required range."""
    worth = flash_intensity(curve, jnp.asarray(VISUAL_TIME), windows, dt)
    shortfall = jnp.maximum(wanted_miles - nominal_range(worth), 0.0)
    return jnp.sum(shortfall ** 2) + 1e-9 * dt * jnp.sum(curve ** 2)


if __name__ == "__main__":
    lamps = jnp.array([350.0, 4200.0, 96000.0])
    hazes = jnp.array([[2.2], [5.4], [11.0], [27.0]])
    print(luminous_range(lamps, hazes, jnp.asarray(NIGHT_THRESHOLD)))

    light = SectorLight(("red", "white", "green"))
    panes = {
        "centre": jnp.array([340.0, 2.0, 24.0]),
        "half_width": jnp.array([18.0, 4.0, 18.0]),
        "peak": jnp.array([900.0, 4000.0, 700.0]),
    }
    track = jnp.array([330.0, 357.5, 1.0, 6.2, 30.0])
    print(light.dominant(track, panes))

    windows = jnp.array([[2, 8], [8, 12], [20, 26]])
    curve = 1000.0 * jnp.abs(jnp.sin(jnp.arange(40.0) * 0.3))
    print(jax.grad(power_budget)(curve, windows, 0.05, 9.0))
