"""Differentiable checks for the truss and tower studies."""

import math
from functools import partial

import jax
import jax.numpy as jnp

KNEE_CYCLES = 1.0e6
END_FACTORS = {"pinned": 1.0, "fixed": 0.5, "fixed-pinned": 0.699, "cantilever": 2.0}


def _cycle_damage(stress, counts, strength, slopes, component):
    valid = component >= 0
    slot = jnp.where(valid, component, 0)
    limit = strength[slot]
    ratio = stress / limit
    steep = ratio >= 1.0
    k = jnp.where(steep, slopes["above"], slopes["below"])
    n = jnp.where(valid, counts / KNEE_CYCLES, 0.0)
    return valid, slot, limit, ratio, steep, k, n


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def miner_damage(stress, counts, strength, slopes, component, num_components):
    """Palmgren-Miner damage sums over a two-slope S-N curve.

    Args:
      stress: (cycles,) stress amplitudes, non-negative.
      counts: (cycles,) numbers of cycles.
      strength: (num_components,) amplitude at the knee of each component.
      slopes: {"above": k1, "below": k2}, scalars greater than one.
      component: int (cycles,), the component hit by each entry; -1 is padding.
      num_components: static.

    Returns: (num_components,) damage.
    """
    _, slot, _, ratio, _, k, n = _cycle_damage(stress, counts, strength, slopes, component)
    return jax.ops.segment_sum(n * ratio**k, slot, num_components)


def _miner_fwd(stress, counts, strength, slopes, component, num_components):
    out = miner_damage(stress, counts, strength, slopes, component, num_components)
    return out, (stress, counts, strength, slopes, component)


def _miner_bwd(num_components, res, g):
    valid, slot, limit, ratio, steep, k, n = _cycle_damage(*res)
    g = jnp.where(valid, g[slot], 0.0)
    unit = ratio**k
    g_stress = g * n * k * ratio ** (k - 1.0) / limit
    g_k = g * n * unit * jnp.log(jnp.where(ratio > 0, ratio, 1.0))
    g_slopes = {
        "above": jnp.sum(jnp.where(steep, g_k, 0.0)),
        "below": jnp.sum(jnp.where(steep, 0.0, g_k)),
    }
    g_strength = jax.ops.segment_sum(-g_stress * ratio, slot, num_components)
    return g_stress, g * unit / KNEE_CYCLES, g_strength, g_slopes, None


miner_damage.defvjp(_miner_fwd, _miner_bwd)


def _fold_batch(x, shape):
    """Undo the broadcast of a gradient's leading axes."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=axes, keepdims=True)


@jax.custom_vjp
def modal_assurance(measured, model, mass):
    return _mac_fwd(measured, model, mass)[0]


def _mac_fwd(measured, model, mass):
    cross = jnp.einsum("...ip,i,...iq->...pq", measured, mass, model)
    a = jnp.einsum("...ip,i->...p", measured**2, mass)
    b = jnp.einsum("...iq,i->...q", model**2, mass)
    mac = cross**2 / (a[..., :, None] * b[..., None, :])
    return mac, (measured, model, mass, cross, a, b, mac)


def _mac_bwd(res, g):
    measured, model, mass, cross, a, b, mac = res
    h = 2.0 * g * cross / (a[..., :, None] * b[..., None, :])
    pull = g * mac
    ga = -pull.sum(axis=-1) / a
    gb = -pull.sum(axis=-2) / b
    toward = jnp.einsum("...pq,...iq->...ip", h, model)
    g_measured = mass[:, None] * (toward + 2.0 * ga[..., None, :] * measured)
    g_model = mass[:, None] * (
        jnp.einsum("...pq,...ip->...iq", h, measured) + 2.0 * gb[..., None, :] * model)
    g_mass = (
        (toward * measured).sum(axis=-1)
        + (ga[..., None, :] * measured**2).sum(axis=-1)
        + (gb[..., None, :] * model**2).sum(axis=-1)
    )
    return (
        _fold_batch(g_measured, measured.shape),
        _fold_batch(g_model, model.shape),
        _fold_batch(g_mass, mass.shape),
    )


modal_assurance.defvjp(_mac_fwd, _mac_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def column_capacity(section, length, material, ends="pinned"):
    """Axial capacity by Euler, or by Johnson's parabola for short columns."""
    slender = END_FACTORS[ends] * length / section["radius"]
    fy, e = material["fy"], material["e"]
    euler = math.pi**2 * e / slender**2
    johnson = fy * (1.0 - fy * slender**2 / (4.0 * math.pi**2 * e))
    return section["area"] * jnp.where(euler < 0.5 * fy, euler, johnson)


@column_capacity.defjvp
def _column_capacity_jvp(ends, primals, tangents):
    section, length, material = primals
    t_section, t_length, t_material = tangents
    fy, e = material["fy"], material["e"]
    slender = END_FACTORS[ends] * length / section["radius"]
    t_log = t_length / length - t_section["radius"] / section["radius"]
    euler = math.pi**2 * e / slender**2
    knock = fy * slender**2 / (4.0 * math.pi**2 * e)
    is_long = euler < 0.5 * fy
    stress = jnp.where(is_long, euler, fy * (1.0 - knock))
    t_euler = euler * (t_material["e"] / e - 2.0 * t_log)
    t_johnson = (1.0 - knock) * t_material["fy"] + fy * knock * (t_material["e"] / e - 2.0 * t_log)
    t_stress = jnp.where(is_long, t_euler, t_johnson)
    return section["area"] * stress, t_section["area"] * stress + section["area"] * t_stress
