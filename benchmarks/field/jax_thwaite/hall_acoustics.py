"""Design formulas for halls and facades."""
from functools import partial

import jax
import jax.numpy as jnp

SABINE = 0.161
_DB = 10.0 / 2.302585092994046


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def decay_time(absorption, areas, volume, air, eyring=False):
    """Reverberation time of rooms per frequency band.

    Args:
      absorption: (materials, bands) coefficients in (0, 1).
      areas: (rooms, materials) surface of each material in square metres; zero where a room lacks it.
      volume: (rooms,) in cubic metres.
      air: (bands,) attenuation of the air per metre.
      eyring: Eyring's formula in place of Sabine's, for dead rooms.

    Returns:
      (rooms, bands) seconds.
    """
    return _decay_fwd(absorption, areas, volume, air, eyring)[0]


def _decay_fwd(absorption, areas, volume, air, eyring):
    sabins = areas @ absorption
    surface = jnp.sum(areas, axis=-1, keepdims=True)
    mean = sabins / surface
    effective = -surface * jnp.log1p(-mean) if eyring else sabins
    total = effective + 4.0 * volume[:, None] * air
    return SABINE * volume[:, None] / total, (absorption, areas, volume, air, mean, total)


def _decay_bwd(eyring, res, g):
    absorption, areas, volume, air, mean, total = res
    v = volume[:, None]
    g_total = -g * SABINE * v / total**2
    g_volume = jnp.sum(g * SABINE / total + 4.0 * g_total * air, axis=-1)
    g_air = jnp.sum(4.0 * v * g_total, axis=0)
    if eyring:
        live = g_total / (1.0 - mean)
        g_areas = live @ absorption.T - jnp.sum(g_total * jnp.log1p(-mean), axis=-1, keepdims=True)
    else:
        live = g_total
        g_areas = live @ absorption.T
    return areas.T @ live, g_areas, g_volume, g_air


decay_time.defvjp(_decay_fwd, _decay_bwd)


def make_facade(num_walls):
    """Closure over the number of walls, so that it stays static under jit."""

    def pool(values, walls):
        return jax.ops.segment_sum(values, walls, num_walls)

    @jax.custom_vjp
    def composite_insulation(reduction_index, areas, walls):
        """Sound reduction index (dB) of walls made of panels; a wall without panels gets 0 dB."""
        return forward(reduction_index, areas, walls)[0]

    def forward(reduction_index, areas, walls):
        weakest = jax.ops.segment_min(reduction_index, walls, num_walls)
        weakest = jnp.where(jnp.isfinite(weakest), weakest, 0.0)
        leak = jnp.exp((weakest[walls] - reduction_index) / _DB)
        total = pool(areas, walls)[:, None]
        passed = pool(areas[:, None] * leak, walls)
        built = total > 0
        ratio = jnp.where(built, passed, 1.0) / jnp.where(built, total, 1.0)
        out = jnp.where(built, weakest - _DB * jnp.log(ratio), 0.0)
        return out, (leak, areas, walls, total, passed)

    def backward(res, g):
        leak, areas, walls, total, passed = res
        built = total > 0
        per_passed = jnp.where(built, g / jnp.where(built, passed, 1.0), 0.0)[walls]
        per_total = jnp.where(built, g / jnp.where(built, total, 1.0), 0.0)[walls]
        g_index = per_passed * leak * areas[:, None]
        g_areas = _DB * jnp.sum(per_total - per_passed * leak, axis=-1)
        return g_index, g_areas, None

    composite_insulation.defvjp(forward, backward)
    return composite_insulation


def _windows(length, onset, split):
    n = jnp.arange(length)
    start = onset[:, None]
    return (n >= start) & (n < start + split), n >= start + split


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def clarity_index(response, onset, usable, split=80, reduction="none"):
    early, late = _windows(response.shape[-1], onset, split)
    power = response**2
    ratio = jnp.sum(power * early, axis=-1) / jnp.sum(power * late, axis=-1)
    clarity = jnp.where(usable, _DB * jnp.log(ratio), 0.0)
    if reduction == "mean":
        return jnp.sum(clarity) / jnp.maximum(jnp.sum(usable), 1)
    return clarity


def _clarity_fwd(response, onset, usable, split, reduction):
    return clarity_index(response, onset, usable, split, reduction), (response, onset, usable)


def _clarity_bwd(split, reduction, res, g):
    response, onset, usable = res
    early, late = _windows(response.shape[-1], onset, split)
    power = response**2
    e_early = jnp.sum(power * early, axis=-1, keepdims=True)
    e_late = jnp.sum(power * late, axis=-1, keepdims=True)
    if reduction == "mean":
        g = jnp.full(usable.shape, g / usable.size)
    g = jnp.where(usable, g, 0.0)[:, None]
    return 2.0 * _DB * g * response * (early / e_early - late / e_late), None, None


clarity_index.defvjp(_clarity_fwd, _clarity_bwd)
