from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

G = 9.80665


class LoadChart(NamedTuple):
    """Rated mass (nr, nb) at increasing radii (nr,) and boom lengths (nb,)."""

    radii: tuple
    booms: tuple


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def rope_falls(pull, mu, wrap, motion="hoist"):
    """Rope tension behind each sheave of a reeving.

    pull: (B,) tension at the load end.  mu: (K,) effective friction of the sheaves in order.  wrap: (K,) wrap angles in
    radians.  Returns (B, K).  ``motion`` is "hoist" (tension grows towards the drum) or "lower" (it falls).
    """
    sign = 1.0 if motion == "hoist" else -1.0
    return pull[:, None] * jnp.exp(sign * jnp.cumsum(mu * wrap))


def _rf_fwd(pull, mu, wrap, motion):
    tension = rope_falls(pull, mu, wrap, motion)
    return tension, (pull, mu, wrap, tension)


def _rf_bwd(motion, res, g):
    pull, mu, wrap, tension = res
    gt = g * tension
    d_pull = (gt / pull[:, None]).sum(axis=1)
    behind = jnp.cumsum(gt.sum(axis=0)[::-1])[::-1]
    return d_pull, behind * wrap, behind * mu


rope_falls.defvjp(_rf_fwd, _rf_bwd)


def _directions(hook, lugs):
    leg = hook[:, None, :] - lugs
    length = jnp.linalg.norm(leg, axis=-1, keepdims=True)
    return leg / length, length


@jax.custom_vjp
def sling_forces(hook, lugs, pull):
    """Forces in three sling legs: hook (B, 3), lugs (B, 3, 3) as leg by xyz, pull (B, 3) on the hook -> (B, 3)."""
    unit, _ = _directions(hook, lugs)
    return jnp.linalg.solve(jnp.swapaxes(unit, 1, 2), pull[..., None])[..., 0]


def _sf_fwd(hook, lugs, pull):
    unit, length = _directions(hook, lugs)
    force = jnp.linalg.solve(jnp.swapaxes(unit, 1, 2), pull[..., None])[..., 0]
    return force, (unit, length, force)


def _sf_bwd(res, g):
    unit, length, force = res
    lam = jnp.linalg.solve(unit, g[..., None])[..., 0]
    d_unit = -lam[:, :, None] * force[:, None, :]
    d_leg = (d_unit - unit * (unit * d_unit).sum(-1, keepdims=True)) / length
    return d_leg.sum(axis=1), -d_leg, lam


sling_forces.defvjp(_sf_fwd, _sf_bwd)


def _locate(x, knots):
    knots = jnp.asarray(knots, x.dtype)
    i = jnp.clip(jnp.searchsorted(knots, x, side="right") - 1, 0, knots.shape[0] - 2)
    span = knots[i + 1] - knots[i]
    inside = (x > knots[0]) & (x < knots[-1])
    return i, jnp.clip((x - knots[i]) / span, 0.0, 1.0), jnp.where(inside, 1.0 / span, 0.0)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def rated_load(radius, boom, table, chart):
    assert radius.shape == boom.shape
    i, u, _ = _locate(radius, chart.radii)
    j, v, _ = _locate(boom, chart.booms)
    near = (1 - v) * table[i, j] + v * table[i, j + 1]
    far = (1 - v) * table[i + 1, j] + v * table[i + 1, j + 1]
    return (1 - u) * near + u * far


def _rl_fwd(radius, boom, table, chart):
    return rated_load(radius, boom, table, chart), (radius, boom, table)


def _rl_bwd(chart, res, g):
    radius, boom, table = res
    i, u, du = _locate(radius, chart.radii)
    j, v, dv = _locate(boom, chart.booms)
    a, b, c, d = table[i, j], table[i, j + 1], table[i + 1, j], table[i + 1, j + 1]
    d_radius = g * du * ((1 - v) * (c - a) + v * (d - b))
    d_boom = g * dv * ((1 - u) * (b - a) + u * (d - c))
    d_table = (
        jnp.zeros_like(table)
        .at[i, j]
        .add(g * (1 - u) * (1 - v))
        .at[i, j + 1]
        .add(g * (1 - u) * v)
        .at[i + 1, j]
        .add(g * u * (1 - v))
        .at[i + 1, j + 1]
        .add(g * u * v)
    )
    return d_radius, d_boom, d_table


rated_load.defvjp(_rl_fwd, _rl_bwd)


def utilisation(mass, radius, boom, table, chart):
    return mass / rated_load(radius, boom, table, chart)


if __name__ == "__main__":
    chart = LoadChart((3.0, 6.0, 10.0), (12.0, 20.0))
    table = jnp.array([[30e3, 26e3], [14e3, 13e3], [7e3, 8e3]])
    print(utilisation(5e3, jnp.array([4.0, 9.0]), jnp.array([14.0, 18.0]), table, chart))
