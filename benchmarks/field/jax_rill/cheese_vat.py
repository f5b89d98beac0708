import math
from functools import partial
from typing import Any, Dict

import jax
import jax.numpy as jnp
import numpy as np

ODD = 2 * np.arange(30) + 1


# curd firmness with syneresis; minutes since rennet addition
#   minutes (T,), all the rest (V,)
@jax.custom_vjp
def curd_firmness(minutes, clot_time, potential, k_set, k_syn):
    s = jnp.maximum(minutes[None, :] - clot_time[:, None], 0.0)
    return potential[:, None] * -jnp.expm1(-k_set[:, None] * s) * jnp.exp(-k_syn[:, None] * s)


def _firm_fwd(minutes, clot_time, potential, k_set, k_syn):
    s = jnp.maximum(minutes[None, :] - clot_time[:, None], 0.0)
    grown = jnp.exp(-k_set[:, None] * s)
    shrunk = jnp.exp(-k_syn[:, None] * s)
    out = potential[:, None] * (1.0 - grown) * shrunk
    return out, (s, grown, shrunk, out, potential, k_set, k_syn)


def _firm_bwd(res, g):
    s, grown, shrunk, out, potential, k_set, k_syn = res
    rising = potential[:, None] * grown * shrunk
    ds = g * (k_set[:, None] * rising - k_syn[:, None] * out)
    d_pot = jnp.sum(g * (1.0 - grown) * shrunk, axis=1)
    d_set = jnp.sum(g * s * rising, axis=1)
    d_syn = -jnp.sum(g * s * out, axis=1)
    return ds.sum(axis=0), -ds.sum(axis=1), d_pot, d_set, d_syn


curd_firmness.defvjp(_firm_fwd, _firm_bwd)


@jax.custom_jvp
def brine_uptake(diffusivity, days, half_height):
    """Salt taken up by a flat wheel in brine, as a fraction of what it takes in the end.

    diffusivity in cm2/day, half_height in cm.  Everything broadcasts, so a column of
    wheels against a row of days gives a table.
    """
    x = diffusivity * days / half_height**2
    early = 2.0 * jnp.sqrt(x / math.pi)
    modes = jnp.exp(-(ODD**2) * (math.pi**2 / 4.0) * x[..., None]) / ODD**2
    late = 1.0 - 8.0 / math.pi**2 * jnp.sum(modes, axis=-1)
    return jnp.where(x < 0.05, early, late)


@brine_uptake.defjvp
def _brine_jvp(primals, tangents):
    diffusivity, days, half_height = primals
    d_diff, d_days, d_half = tangents
    x = diffusivity * days / half_height**2
    early = 1.0 / jnp.sqrt(math.pi * x)
    late = 2.0 * jnp.sum(jnp.exp(-(ODD**2) * (math.pi**2 / 4.0) * x[..., None]), axis=-1)
    slope = jnp.where(x < 0.05, early, late)
    dx = (d_diff * days + diffusivity * d_days - 2.0 * x * d_half) / half_height**2
    return brine_uptake(diffusivity, days, half_height), slope * dx


def _press_step(moist, target, rate, hold):
    return target + (moist - target) * jnp.exp(-rate * hold)


class Press:
    """Stepped press. Moisture relaxes to the equilibrium of the current pressure step."""

    def __init__(self, minutes, slope=0.02, dry=0.36):
        self.minutes = np.asarray(minutes)  # length of each step
        self.slope = slope
        self.dry = dry

    def equilibrium(self, pressure):
        return self.dry + 0.2 / (1.0 + self.slope * pressure)

    def __call__(self, moist, pressure, rate):
        hold = jnp.asarray(self.minutes, moist.dtype)
        return press_moisture(moist, self.equilibrium(pressure), rate, hold)


@jax.custom_vjp
def press_moisture(moist, target, rate, hold):
    # moist (B,) at the start; target (B, S); rate (B,); hold (S,)  ->  (B, S) after each step
    def body(m, step):
        m = _press_step(m, step[0], rate, step[1])
        return m, m

    return jax.lax.scan(body, moist, (target.T, hold))[1].T


def _press_fwd(moist, target, rate, hold):
    path = press_moisture(moist, target, rate, hold)
    before = jnp.concatenate([moist[:, None], path[:, :-1]], axis=1)
    return path, (before - target, rate, hold)


def _press_bwd(res, g):
    gap, rate, hold = res
    keep = jnp.exp(-rate[:, None] * hold)

    def body(carry, step):
        g_out, k = step
        total = carry + g_out
        return total * k, total

    g_moist, totals = jax.lax.scan(body, jnp.zeros_like(rate), (g.T, keep.T), reverse=True)
    totals = totals.T
    by_exponent = -totals * gap * keep
    return (
        g_moist,
        totals * (1.0 - keep),
        jnp.sum(by_exponent * hold, axis=1),
        jnp.sum(by_exponent * rate[:, None], axis=0),
    )


press_moisture.defvjp(_press_fwd, _press_bwd)


def init_params(n_vats: int) -> Dict[str, Any]:
    return {
        "clot": jnp.full((n_vats,), 14.0),
        "potential": jnp.full((n_vats,), 45.0),
        "set": jnp.full((n_vats,), 0.12),
        "syn": jnp.full((n_vats,), 0.004),
        "press": jnp.full((n_vats,), 0.03),
        "diff": jnp.asarray(0.18),
    }


@partial(jax.jit, static_argnames=("press",))
def batch_loss(params, obs, press):
    firm = curd_firmness(
        obs["minutes"], params["clot"], params["potential"], params["set"], params["syn"]
    )
    moist = press(obs["drained"], obs["pressure"], params["press"])
    salt = brine_uptake(params["diff"], obs["days"], obs["half_height"][:, None])
    return (
        jnp.mean((firm - obs["firm"]) ** 2)
        + 100.0 * jnp.mean((moist[:, -1] - obs["moist"]) ** 2)
        + jnp.mean((salt - obs["salt"]) ** 2)
    )
