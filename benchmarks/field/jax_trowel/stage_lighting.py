"""Differentiable lighting rig for previsualisation and focus sessions.

A cue is a set of channel levels.  From levels to what the camera in row H sees
there are four steps:

1. the dimmer turns a fader level into lamp output (:func:`dimmer_output`),
2. a string of gels in the colour scroller takes its share of every wavelength
   (:func:`gel_string`),
3. the profile of the beam falls off between beam angle and field angle
   (:func:`beam_profile`),
4. LED engines mix their emitters and droop as they get warm
   (:class:`EmitterEngine`).

The matching of a cue to a reference photograph is done by gradient descent on
levels, gel positions, zoom and emitter calibration at the same time.
"""
import functools
from typing import NamedTuple, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np

LAWS = ("linear", "square", "s")
LN5 = float(np.log(5.0))
WAVELENGTHS = np.arange(420.0, 700.0, 20.0)

# Coarse swatch-book transmissions at WAVELENGTHS, hand-copied from the book.
SWATCH_BOOK = {
    "clear": np.full(WAVELENGTHS.shape, 0.96),
    "medium amber": np.clip((WAVELENGTHS - 480.0) / 140.0, 0.0, 0.92),
    "congo": np.clip(0.55 - np.abs(WAVELENGTHS - 430.0) / 90.0, 0.0, 1.0),
    "full ctb": np.clip(0.8 - (WAVELENGTHS - 420.0) / 500.0, 0.1, 0.8),
    "primary red": np.where(WAVELENGTHS > 610.0, 0.83, 0.0),
    "lavender": 0.55 + 0.2 * np.cos((WAVELENGTHS - 440.0) / 45.0),
}


def swatches(names: Sequence[str]) -> np.ndarray:
    """Stack the named gels; (gels, wavelengths)."""
    return np.stack([SWATCH_BOOK[n] for n in names])


def unbroadcast(x, shape):
    """Sum x down to shape."""
    lead = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(lead))) if lead else x
    thin = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=thin, keepdims=True) if thin else x


# ---------------------------------------------------------------------------
# Dimmers
# ---------------------------------------------------------------------------


def _law_curve(x, law):
    if law == "linear":
        return x
    if law == "square":
        return x * x
    if law == "s":
        return x * x * (3.0 - 2.0 * x)
    raise ValueError(f"dimmer law {law!r} is none of {LAWS}")


def _law_slope(x, law):
    if law == "linear":
        return jnp.ones_like(x)
    if law == "square":
        return 2.0 * x
    return 6.0 * x * (1.0 - x)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def dimmer_output(level, law="square", trim=(0.0, 1.0)):
    """Lamp output for a fader level.

    Args:
      level: any shape, fader in 0..1; beyond that range the fader sits at its
        stop and a change of it does nothing.
      law: one of ``LAWS``.
      trim: (bottom, top) the house electrician has set on the rack. The law
        runs from bottom to top instead of from 0 to 1.

    Returns:
      Relative output, shape of level.
    """
    bottom, top = trim
    x = jnp.clip(level, 0.0, 1.0)
    return bottom + (top - bottom) * _law_curve(x, law)


@dimmer_output.defjvp
def _dimmer_output_jvp(law, trim, primals, tangents):
    (level,), (level_dot,) = primals, tangents
    bottom, top = trim
    x = jnp.clip(level, 0.0, 1.0)
    out = bottom + (top - bottom) * _law_curve(x, law)
    moving = (level > 0.0) & (level < 1.0)
    return out, jnp.where(moving, _law_slope(x, law), 0.0) * level_dot


# ---------------------------------------------------------------------------
# Gels
# ---------------------------------------------------------------------------


def _others(x):
    """Product over axis -2 of all the entries but one's own."""
    one = jnp.ones_like(x[..., :1, :])
    before = jnp.concatenate([one, jnp.cumprod(x, axis=-2)[..., :-1, :]], axis=-2)
    flipped = jnp.flip(x, axis=-2)
    after = jnp.concatenate([one, jnp.cumprod(flipped, axis=-2)[..., :-1, :]], axis=-2)
    return before * jnp.flip(after, axis=-2)


@jax.custom_vjp
def gel_string(transmission, engaged):
    """Spectrum left after a string of gels.

    ``transmission[..., gel, wavelength]`` is the swatch, ``engaged[..., gel]``
    the part of the gate that the frame covers, 0 for out and 1 for full.
    Deeply saturated gels do have wavelengths with no transmission at all.
    """
    return jnp.prod(1.0 - engaged[..., None] * (1.0 - transmission), axis=-2)


def _gel_string_fwd(transmission, engaged):
    return gel_string(transmission, engaged), (transmission, engaged)


def _gel_string_bwd(res, g):
    transmission, engaged = res
    covered = engaged[..., None]
    rest = _others(1.0 - covered * (1.0 - transmission)) * g[..., None, :]
    d_transmission = unbroadcast(rest * covered, transmission.shape)
    d_engaged = unbroadcast(
        -jnp.sum(rest * (1.0 - transmission), axis=-1), engaged.shape
    )
    return d_transmission, d_engaged


gel_string.defvjp(_gel_string_fwd, _gel_string_bwd)


# ---------------------------------------------------------------------------
# Beam
# ---------------------------------------------------------------------------


def _profile_zones(theta, beam, field):
    off = jnp.abs(theta)
    inner = 1.0 - 0.5 * (off / beam) ** 2
    skirt = 0.5 * jnp.exp(-LN5 * (off - beam) / (field - beam))
    return off, inner, skirt, off < beam


@jax.custom_vjp
def beam_profile(theta, beam, field, peak):
    """Candela of a profile spot at an angle off its axis.

    By the photometric data sheet: half of the peak at the beam (half) angle, a
    tenth at the field (half) angle, an arc within, an exponential skirt
    without.

    theta   (points, 1) or (points, fixtures), degrees
    beam    (fixtures,) half angle of the beam
    field   (fixtures,) half angle of the field, larger than beam
    peak    (fixtures,)
    """
    _, inner, skirt, hot = _profile_zones(theta, beam, field)
    return peak * jnp.where(hot, inner, skirt)


def _beam_profile_fwd(theta, beam, field, peak):
    return beam_profile(theta, beam, field, peak), (theta, beam, field, peak)


def _beam_profile_bwd(res, g):
    theta, beam, field, peak = res
    off, inner, skirt, hot = _profile_zones(theta, beam, field)
    width = field - beam
    by_off = jnp.where(hot, -off / beam**2, -LN5 * skirt / width)
    by_beam = jnp.where(hot, off**2 / beam**3, LN5 * skirt / width)
    by_field = jnp.where(hot, 0.0, LN5 * skirt * (off - beam) / width**2)
    pull = g * peak
    return (
        unbroadcast(pull * by_off * jnp.sign(theta), theta.shape),
        unbroadcast(pull * by_beam, beam.shape),
        unbroadcast(pull * by_field, field.shape),
        unbroadcast(g * jnp.where(hot, inner, skirt), peak.shape),
    )


beam_profile.defvjp(_beam_profile_fwd, _beam_profile_bwd)


# ---------------------------------------------------------------------------
# LED engines
# ---------------------------------------------------------------------------


class EngineSpec(NamedTuple):
    """What the maker tells: CIE XYZ of each emitter at full, watts at full."""

    xyz: jax.Array
    watts: jax.Array


RGBAW = EngineSpec(
    xyz=jnp.array(
        [
            [0.52, 0.24, 0.00],
            [0.14, 0.61, 0.09],
            [0.20, 0.06, 1.05],
            [0.48, 0.43, 0.01],
            [0.93, 1.00, 0.95],
        ]
    ),
    watts=jnp.array([38.0, 44.0, 41.0, 30.0, 52.0]),
)


class EmitterEngine:
    """Additive mixing of an LED fixture whose output droops with its power.

    ``droop`` is the loss per watt, in 1/W.  A fixture that draws P watts gives
    1 / (1 + droop P) of what the cold sum would be.
    """

    def __init__(self, droop: float = 1.5e-3, headroom: Optional[float] = None):
        self.droop = float(droop)
        self.headroom = headroom

    def render(self, levels, spec: EngineSpec):
        """levels (..., emitters) to XYZ (..., 3)."""
        kappa = self.droop

        @jax.custom_gradient
        def mix(levels, xyz, watts):
            power = levels @ watts
            loss = 1.0 / (1.0 + kappa * power)
            cold = levels @ xyz

            def back(g):
                warm = g * loss[..., None]
                d_power = -kappa * loss**2 * jnp.sum(g * cold, axis=-1)
                d_levels = warm @ xyz.T + d_power[..., None] * watts
                flat = levels.reshape(-1, levels.shape[-1])
                d_xyz = flat.T @ warm.reshape(-1, warm.shape[-1])
                d_watts = flat.T @ d_power.reshape(-1)
                return d_levels, d_xyz, d_watts

            return cold * loss[..., None], back

        out = mix(levels, spec.xyz, spec.watts)
        return out if self.headroom is None else out * self.headroom

    def power(self, levels, spec: EngineSpec):
        return levels @ spec.watts


# ---------------------------------------------------------------------------
# Rig
# ---------------------------------------------------------------------------


class Rig(NamedTuple):
    faders: jax.Array  # (spots,)
    engaged: jax.Array  # (spots, gels)
    beam: jax.Array  # (spots,)
    field: jax.Array
    engine_levels: jax.Array  # (washes, emitters)


def off_axis_angles(points, heads, aims):
    """Degrees between head->aim and head->point, (points, heads)."""
    ray = points[:, None, :] - heads[None]
    axis = aims - heads
    cosine = jnp.sum(ray * axis[None], -1) / (
        jnp.linalg.norm(ray, axis=-1) * jnp.linalg.norm(axis, axis=-1)
    )
    return jnp.degrees(jnp.arccos(jnp.clip(cosine, -1.0, 1.0 - 1e-9)))


def stage_picture(rig: Rig, theta, distance, gels, peak, house_trim: Tuple[float, float]):
    """Spectral illuminance at the stage points, (points, wavelengths), and washes."""
    lamp = dimmer_output(rig.faders, "s", house_trim)
    colour = gel_string(gels, rig.engaged)
    candela = beam_profile(theta, rig.beam, rig.field, peak * lamp)
    spots = jnp.einsum("pf,fw->pw", candela / distance**2, colour)
    wash = EmitterEngine().render(rig.engine_levels, RGBAW)
    return spots, wash


def cue_loss(rig: Rig, scene, reference):
    spots, wash = stage_picture(rig, *scene)
    return jnp.mean((spots - reference[0]) ** 2) + jnp.mean((wash - reference[1]) ** 2)


def focus(rig: Rig, scene, reference, steps=25, rate=1e-2):
    step = jax.jit(jax.value_and_grad(lambda r: cue_loss(r, scene, reference)))
    for _ in range(steps):
        value, slope = step(rig)
        rig = jax.tree.map(lambda p, s: p - rate * s, rig, slope)
    return rig, value


if __name__ == "__main__":
    key = jax.random.PRNGKey(3)
    rig = Rig(
        faders=jnp.array([0.7, 0.5, 0.9]),
        engaged=jnp.array([[1.0, 0.0], [0.4, 1.0], [0.0, 0.3]]),
        beam=jnp.array([9.0, 12.0, 15.0]),
        field=jnp.array([13.0, 18.0, 26.0]),
        engine_levels=jax.random.uniform(key, (2, 5)),
    )
    points = jax.random.uniform(key, (40, 3)) * jnp.array([8.0, 5.0, 0.1])
    heads = jnp.array([[0.0, 0.0, 6.0], [4.0, -1.0, 6.5], [8.0, 0.0, 6.0]])
    aims = jnp.array([[3.0, 2.0, 0.0], [4.0, 3.0, 0.0], [5.0, 2.0, 0.0]])
    theta = off_axis_angles(points, heads, aims)
    reach = jnp.linalg.norm(points[:, None] - heads[None], axis=-1)
    scene = (theta, reach, jnp.asarray(swatches(["lavender", "primary red"])),
             jnp.array([9.0, 8.0, 8.5]), (0.02, 0.95))
    target = (jnp.full((40, len(WAVELENGTHS)), 0.1), jnp.full((2, 3), 0.5))
    _, residual = focus(rig, scene, target)
    print("residual", float(residual))
