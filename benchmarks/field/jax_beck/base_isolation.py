"""Response-spectrum and isolator models for seismic design loops."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


def _mode_correlation(freqs, damping):
    w = np.asarray(freqs, dtype=float)
    z = np.broadcast_to(np.asarray(damping, dtype=float), w.shape)
    r = w[None, :] / w[:, None]
    zi, zj = z[:, None], z[None, :]
    top = 8.0 * np.sqrt(zi * zj) * (zi + r * zj) * r**1.5
    bottom = (1 - r**2) ** 2 + 4 * zi * zj * r * (1 + r**2) + 4 * (zi**2 + zj**2) * r**2
    rho = top / bottom
    return 0.5 * (rho + rho.T)


def make_quadratic_combination(freqs, damping=0.05):
    """Complete quadratic combination of modal peaks.

    freqs:   natural frequencies of the modes, distinct or close
    damping: one ratio, or one per mode

    The returned rule maps signed modal peaks (..., modes) to the combined peak (...).  Where all
    the peaks vanish the gradient is taken to be zero.
    """
    rho = _mode_correlation(freqs, damping)

    @jax.custom_vjp
    def combine(peaks):
        square = jnp.einsum("...i,ij,...j->...", peaks, rho, peaks)
        return jnp.sqrt(jnp.maximum(square, 0.0))

    def combine_fwd(peaks):
        out = combine(peaks)
        return out, (peaks, out)

    def combine_bwd(res, g):
        peaks, out = res
        live = out > 0
        scale = jnp.where(live, g / jnp.where(live, out, 1.0), 0.0)
        return (scale[..., None] * jnp.einsum("ij,...j->...i", rho, peaks).astype(peaks.dtype),)

    combine.defvjp(combine_fwd, combine_bwd)
    return combine


combine_peaks = make_quadratic_combination((1.9, 2.1, 5.6, 9.3), damping=(0.05, 0.04, 0.03, 0.07))


class Hysteresis(NamedTuple):
    stiff: jax.Array  # () or (storeys,)
    beta: jax.Array
    gamma: jax.Array


def _rate(p, v, z, power):
    mag = jnp.abs(z)
    return p.stiff * v - p.beta * jnp.abs(v) * mag ** (power - 1) * z - p.gamma * v * mag**power


def _like(x, ref):
    return x.sum() if jnp.ndim(ref) == 0 else x


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def wen_history(params, velocity, z0, dt=0.01, power=2):
    """Bouc-Wen hysteretic variable by explicit Euler.

    params   Hysteresis; each entry a scalar or one value per storey
    velocity (steps, storeys) drift velocities
    z0       (storeys,) state before the first step
    dt       static step; power: static exponent, at least 1

    Returns ``(z, work)``: the states after each step (steps, storeys) and the work per storey,
    ``dt * sum_k z[k] * velocity[k]``, with z taken after the step.
    """

    def step(z, v):
        z = z + dt * _rate(params, v, z, power)
        return z, z

    _, zs = jax.lax.scan(step, z0, velocity)
    return zs, dt * (zs * velocity).sum(0)


def _wen_fwd(params, velocity, z0, dt, power):
    zs, work = wen_history(params, velocity, z0, dt, power)
    return (zs, work), (params, velocity, z0, zs)


def _wen_bwd(dt, power, res, cts):
    params, velocity, z0, zs = res
    g_zs, g_work = cts
    before = jnp.concatenate([z0[None], zs[:-1]])
    g_direct = g_zs + dt * g_work * velocity

    def back(carry, xs):
        lam, d_stiff, d_beta, d_gamma = carry
        v, z, g = xs
        lam = lam + g
        mag = jnp.abs(z)
        low = mag ** (power - 1)
        d_v = (
            lam
            * dt
            * (params.stiff - params.beta * jnp.sign(v) * low * z - params.gamma * low * mag)
        )
        slope = -power * low * (params.beta * jnp.abs(v) + params.gamma * v * jnp.sign(z))
        carry = (
            lam * (1.0 + dt * slope),
            d_stiff + dt * lam * v,
            d_beta - dt * lam * jnp.abs(v) * low * z,
            d_gamma - dt * lam * v * low * mag,
        )
        return carry, d_v

    zero = jnp.zeros_like(z0)
    (lam, *d_params), d_vel = jax.lax.scan(
        back, (zero, zero, zero, zero), (velocity, before, g_direct), reverse=True
    )
    d_vel = d_vel + dt * g_work * zs
    return Hysteresis(*map(_like, d_params, params)), d_vel, lam


wen_history.defvjp(_wen_fwd, _wen_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(5,))
def slider_force(disp, vel, weight, radius, friction, v_ref=0.005):
    """Lateral force of a sliding pendulum bearing; friction = (slow, fast, rate)."""
    slow, fast, rate = friction
    mu = fast - (fast - slow) * jnp.exp(-rate * jnp.abs(vel))
    return weight * (disp / radius + mu * jnp.tanh(vel / v_ref))


@slider_force.defjvp
def _slider_force_jvp(v_ref, primals, tangents):
    disp, vel, weight, radius, (slow, fast, rate) = primals
    t_disp, t_vel, t_weight, t_radius, (t_slow, t_fast, t_rate) = tangents
    speed = jnp.abs(vel)
    decay = jnp.exp(-rate * speed)
    mu = fast - (fast - slow) * decay
    side = jnp.tanh(vel / v_ref)
    unit = disp / radius + mu * side
    t_mu = (
        t_fast * (1.0 - decay)
        + t_slow * decay
        + (fast - slow) * decay * (rate * t_vel + speed * t_rate)
    )
    t_side = (1.0 - side**2) * t_vel / v_ref
    t_unit = (t_disp - disp / radius * t_radius) / radius + t_mu * side + mu * t_side
    return weight * unit, t_weight * unit + weight * t_unit
