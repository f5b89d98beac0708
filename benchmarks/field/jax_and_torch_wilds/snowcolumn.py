"""Column and grid physics for a small differentiable snow / runoff model.

The model works on vertical snow columns (heat diffusion, light penetration,
phase change), on a horizontal transect (wind redistribution) and on the
catchment behind it (degree-day melt, linear storage).  Everything is plain
JAX; the pieces for which reverse-mode through the loop was too slow or used
too much memory carry their own derivative.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

# -- Heat diffusion: implicit step

def _sweep(lower, diag, upper, rhs):
    """Thomas algorithm along the last axis (leading axes are batch)."""
    lo, di, up, b = (jnp.moveaxis(a, -1, 0) for a in (lower, diag, upper, rhs))

    def down(carry, row):
        c_prev, d_prev = carry
        l, d, u, r = row
        denom = d - l * c_prev
        c = u / denom
        dd = (r - l * d_prev) / denom
        return (c, dd), (c, dd)

    zero = jnp.zeros_like(b[0])
    lo = lo.at[0].set(0.0)
    _, (cs, ds) = lax.scan(down, (zero, zero), (lo, di, up, b))

    def back(x_next, row):
        c, d = row
        x = d - c * x_next
        return x, x

    cs = cs.at[-1].set(0.0)
    _, xs = lax.scan(back, zero, (cs, ds), reverse=True)
    return jnp.moveaxis(xs, 0, -1)


@jax.custom_vjp
def thomas_solve(lower, diag, upper, rhs):
    """Solve a batch of tridiagonal systems.

    Row ``i`` of a system reads
    ``lower[i] * x[i-1] + diag[i] * x[i] + upper[i] * x[i+1] = rhs[i]``.

    Args:
      lower: ``(..., n)`` sub-diagonal; entry 0 is not used.
      diag: ``(..., n)`` main diagonal (systems are diagonally dominant).
      upper: ``(..., n)`` super-diagonal; entry ``n - 1`` is not used.
      rhs: ``(..., n)`` right-hand side.

    Returns:
      ``(..., n)`` solution.
    """
    return _sweep(lower, diag, upper, rhs)


def _thomas_fwd(lower, diag, upper, rhs):
    x = _sweep(lower, diag, upper, rhs)
    return x, (lower, diag, upper, x)


def _thomas_bwd(res, g):
    lower, diag, upper, x = res
    pad = jnp.zeros_like(x[..., :1])
    lower_t = jnp.concatenate([pad, upper[..., :-1]], axis=-1)
    upper_t = jnp.concatenate([lower[..., 1:], pad], axis=-1)
    lam = _sweep(lower_t, diag, upper_t, g)
    x_above = jnp.concatenate([pad, x[..., :-1]], axis=-1)
    x_below = jnp.concatenate([x[..., 1:], pad], axis=-1)
    return -lam * x_above, -lam * x, -lam * x_below, lam


thomas_solve.defvjp(_thomas_fwd, _thomas_bwd)


def implicit_heat_step(temp, conductance, capacity, dt):
    """One backward-Euler step; ``conductance`` lives on the n - 1 interfaces."""
    pad = [(0, 0)] * (temp.ndim - 1)
    above = jnp.pad(conductance, pad + [(1, 0)])
    below = jnp.pad(conductance, pad + [(0, 1)])
    diag = capacity / dt + above + below
    return thomas_solve(-above, diag, -below, capacity / dt * temp)


# -- Shortwave penetration

@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def layer_transmittance(extinction, thickness, cos_zenith, axis=-1):
    """Fraction of the surface flux that leaves the bottom of every layer.

    Layers are stacked from the surface downwards along ``axis``.

    Args:
      extinction: extinction coefficient per layer, 1/m, any rank.
      thickness: layer thickness, m, same shape as ``extinction``.
      cos_zenith: scalar cosine of the solar zenith angle, positive.
      axis: the axis that holds the layers.
    """
    tau = jnp.cumsum(extinction * thickness, axis=axis)
    return jnp.exp(-tau / cos_zenith)


def _transmittance_fwd(extinction, thickness, cos_zenith, axis):
    tau = jnp.cumsum(extinction * thickness, axis=axis)
    out = jnp.exp(-tau / cos_zenith)
    return out, (extinction, thickness, cos_zenith, tau, out)


def _transmittance_bwd(axis, res, g):
    extinction, thickness, cos_zenith, tau, out = res
    g_tau = -g * out / cos_zenith
    # every layer shades all the layers underneath
    shade = jnp.cumsum(g_tau[..., ::-1], axis=-1)[..., ::-1]
    g_mu = jnp.sum(g * out * tau) / cos_zenith**2
    return shade * thickness, shade * extinction, g_mu


layer_transmittance.defvjp(_transmittance_fwd, _transmittance_bwd)


class SnowOptics(NamedTuple):
    profile_axis: int = -1
    surface_albedo: float = 0.85

    def absorbed(self, shortwave, extinction, thickness, cos_zenith):
        """Absorbed flux per layer, W m-2 (difference of the transmitted flux)."""
        trans = layer_transmittance(extinction, thickness, cos_zenith, self.profile_axis)
        net = shortwave * (1.0 - self.surface_albedo)
        first = jnp.ones_like(lax.slice_in_dim(trans, 0, 1, axis=self.profile_axis))
        return -net * jnp.diff(trans, axis=self.profile_axis, prepend=first)


# -- Phase change: temperature from enthalpy

@jax.custom_jvp
def temperature_from_enthalpy(enthalpy, capacity, latent, width):
    """Invert ``capacity * T + latent * sigmoid(T / width) = enthalpy`` for T.

    ``capacity``, ``latent`` and ``width`` are positive and broadcast against
    ``enthalpy``.  The left-hand side is monotone, hence the bisection.
    """
    lo = (enthalpy - latent) / capacity + 0.0 * width
    hi = enthalpy / capacity + 0.0 * (latent + width)

    def body(_, bracket):
        a, b = bracket
        mid = 0.5 * (a + b)
        too_warm = capacity * mid + latent * jax.nn.sigmoid(mid / width) > enthalpy
        return jnp.where(too_warm, a, mid), jnp.where(too_warm, mid, b)

    a, b = lax.fori_loop(0, 70, body, (lo, hi))
    return 0.5 * (a + b)


@temperature_from_enthalpy.defjvp
def _temperature_jvp(primals, tangents):
    enthalpy, capacity, latent, width = primals
    d_h, d_c, d_l, d_w = tangents
    temp = temperature_from_enthalpy(enthalpy, capacity, latent, width)
    s = jax.nn.sigmoid(temp / width)
    slope = latent * s * (1.0 - s) / width
    apparent = capacity + slope
    d_temp = (d_h - temp * d_c - s * d_l + slope * temp / width * d_w) / apparent
    return temp, d_temp


# -- Wind redistribution on a periodic transect

def _drift(field, kernel):
    reach = kernel.shape[0] // 2
    return sum(kernel[k] * jnp.roll(field, k - reach, axis=-1) for k in range(kernel.shape[0]))


@jax.custom_vjp
def redistribute(depth, kernel, fraction):
    """Move a share of the snow along the transect.

    depth is (..., n) on a periodic transect, kernel has an odd number of
    weights (the centre weight is what stays), fraction is the mobile share.
    """
    return (1.0 - fraction) * depth + fraction * _drift(depth, kernel)


def _redistribute_fwd(depth, kernel, fraction):
    return redistribute(depth, kernel, fraction), (depth, kernel, fraction)


def _redistribute_bwd(res, g):
    depth, kernel, fraction = res
    reach = kernel.shape[0] // 2
    g_depth = (1.0 - fraction) * g + fraction * _drift(g, kernel)
    g_kernel = jnp.stack([
        fraction * jnp.sum(g * jnp.roll(depth, k - reach, axis=-1))
        for k in range(kernel.shape[0])
    ])
    g_fraction = jnp.sum(g * (_drift(depth, kernel) - depth))
    return g_depth, g_kernel, g_fraction


redistribute.defvjp(_redistribute_fwd, _redistribute_bwd)


def drift_kernel(reach: int = 2, spread: float = 1.0, skew: float = 0.0):
    """Gaussian drift weights; ``skew`` moves the mass down the wind."""
    x = jnp.arange(-reach, reach + 1)
    w = jnp.exp(-0.5 * ((x - skew) / spread) ** 2)
    return w / w.sum()


# -- Degree-day melt

@dataclasses.dataclass(frozen=True)
class DegreeDayConfig:
    smoothing: float = 0.5      # K, width of the melt onset
    refreezing: bool = True


def make_degree_day(cfg: DegreeDayConfig = DegreeDayConfig()):
    """Build ``runoff(params, temperature, area, snow)`` -> ``(time,)``.

    ``params = {"ddf": (band,), "onset": (band,), "refreeze": {"rate": ()}}``,
    ``temperature`` is (time, band), ``area`` is (band,), and ``snow`` is a
    boolean (time, band) array, true where the band has snow to melt.
    """
    width = cfg.smoothing

    def parts(params, temperature):
        x = (temperature - params["onset"]) / width
        return width * jax.nn.softplus(x), width * jax.nn.softplus(-x), jax.nn.sigmoid(x)

    @jax.custom_vjp
    def runoff(params, temperature, area, snow):
        warm, cold, _ = parts(params, temperature)
        water = params["ddf"] * warm
        if cfg.refreezing:
            water = water - params["refreeze"]["rate"] * cold
        return jnp.sum(jnp.where(snow, water, 0.0) * area, axis=-1)

    def fwd(params, temperature, area, snow):
        return runoff(params, temperature, area, snow), (params, temperature, area, snow)

    def bwd(res, g):
        params, temperature, area, snow = res
        warm, cold, s = parts(params, temperature)
        rate = params["refreeze"]["rate"] if cfg.refreezing else 0.0
        weight = jnp.where(snow, g[:, None], 0.0)
        water = params["ddf"] * warm - rate * cold
        g_temp = weight * area * (params["ddf"] * s + rate * (1.0 - s))
        g_rate = -jnp.sum(weight * area * cold) if cfg.refreezing else 0.0
        g_params = {
            "ddf": jnp.sum(weight * area * warm, axis=0),
            "onset": -jnp.sum(g_temp, axis=0),
            "refreeze": {"rate": jnp.asarray(g_rate, dtype=g.dtype)},
        }
        return g_params, g_temp, jnp.sum(weight * water, axis=0), None

    runoff.defvjp(fwd, bwd)
    return runoff


# -- Catchment storage

@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def linear_storage(dt, inflow, recession, storage0):
    """Parallel linear reservoirs, explicit Euler.

    inflow: (time, unit); recession: (unit,); storage0: (unit,).
    Returns the outflow (time, unit) and the storage after the last step
    (unit,), from which the next window of the series is started.
    """
    def step(s, q_in):
        q = recession * s
        return s + dt * (q_in - q), q

    last, outflow = lax.scan(step, storage0, inflow)
    return outflow, last


def _storage_fwd(dt, inflow, recession, storage0):
    def step(s, q_in):
        q = recession * s
        return s + dt * (q_in - q), (q, s)

    last, (outflow, levels) = lax.scan(step, storage0, inflow)
    return (outflow, last), (recession, levels)


def _storage_bwd(dt, res, cotangents):
    recession, levels = res
    g_outflow, _ = cotangents

    def step(carry, row):
        lam, g_k = carry
        gq, s = row
        g_k = g_k + gq * s - dt * lam * s
        return (lam * (1.0 - dt * recession) + gq * recession, g_k), dt * lam

    zero = jnp.zeros_like(recession)
    (lam, g_k), g_inflow = lax.scan(step, (zero, zero), (g_outflow, levels), reverse=True)
    return g_inflow, g_k, lam


linear_storage.defvjp(_storage_fwd, _storage_bwd)
