"""Vat photopolymerisation: scan exposure, cure depth, post-cure kinetics."""
from functools import partial
import math

import jax
import jax.numpy as jnp
from jax import lax


def _like(ct, ref):
    """Sum `ct` over the axes along which `ref` was broadcast."""
    ct = ct.sum(axis=tuple(range(ct.ndim - ref.ndim)))
    axes = tuple(i for i in range(ref.ndim) if ref.shape[i] == 1)
    return ct.sum(axis=axes, keepdims=True)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def cure_depth(exposure, penetration, critical, limit=None):
    """Jacobs working curve, Dp ln(E / Ec), zero below Ec and at most `limit`; arguments broadcast."""
    return _cure_fwd(exposure, penetration, critical, limit)[0]


def _cure_fwd(exposure, penetration, critical, limit):
    exposure, penetration, critical = map(jnp.asarray, (exposure, penetration, critical))
    ratio = exposure / critical
    gelled = ratio > 1.0
    log_ratio = jnp.log(jnp.where(gelled, ratio, 1.0))
    depth = penetration * log_ratio
    live = gelled
    if limit is not None:
        live = gelled & (depth < limit)
        depth = jnp.minimum(depth, limit)
    return depth, (exposure, penetration, critical, log_ratio, live)


def _cure_bwd(limit, res, g):
    exposure, penetration, critical, log_ratio, live = res
    g = jnp.where(live, g, 0.0)
    safe = jnp.where(live, exposure, 1.0)
    return (_like(g * penetration / safe, exposure), _like(g * log_ratio, penetration),
            _like(-g * penetration / critical, critical))


cure_depth.defvjp(_cure_fwd, _cure_bwd)


ROOT_2_PI = math.sqrt(2.0 / math.pi)


def _line_kernel(y, track, speed, waist):
    d = y[..., None] - track
    return d, ROOT_2_PI / (waist * speed) * jnp.exp(-2.0 * (d / waist) ** 2)


@jax.custom_vjp
def hatch_exposure(y, track, power, speed, waist, active):
    """Exposure under a set of parallel Gaussian laser scans.

    Args:
      y: positions across the hatch, any shape (mm).
      track: scan line positions, ``(lines,)``.
      power: laser power at the surface per line, ``(lines,)``.
      speed: scan speed per line, ``(lines,)``, positive.
      waist: 1/e^2 radius, scalar, positive.
      active: boolean ``(lines,)``; lines with the shutter closed are False and
        do not expose the resin.
    """
    _, kernel = _line_kernel(y, track, speed, waist)
    return (kernel * jnp.where(active, power, 0.0)).sum(-1)


def _hatch_fwd(y, track, power, speed, waist, active):
    d, kernel = _line_kernel(y, track, speed, waist)
    dose = kernel * jnp.where(active, power, 0.0)
    return dose.sum(-1), (d, kernel, dose, speed, waist)


def _hatch_bwd(res, g):
    d, kernel, dose, speed, waist = res
    lead = tuple(range(g.ndim))
    g = g[..., None]
    pull = g * dose * 4.0 * d / waist ** 2
    d_power = (g * kernel).sum(lead)
    d_speed = -(g * dose).sum(lead) / speed
    d_waist = (g * dose * (4.0 * (d / waist) ** 2 - 1.0)).sum() / waist
    return -pull.sum(-1), pull.sum(lead), d_power, d_speed, d_waist, None


hatch_exposure.defvjp(_hatch_fwd, _hatch_bwd)


class PostCure:
    """Kamal autocatalytic cure, explicit Euler with a hand-written adjoint."""

    def __init__(self, m=0.8, n=1.4, dt=0.05):
        self.m, self.n, self.dt = m, n, dt

    def __call__(self, alpha0, k1, k2):
        return kamal_rollout(alpha0, k1, k2, (self.m, self.n, self.dt))


def _rate(a, k1, k2, m, n):
    return (k1 + k2 * a ** m) * (1.0 - a) ** n


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def kamal_rollout(alpha0, k1, k2, law):
    return _kamal_fwd(alpha0, k1, k2, law)[0]


def _kamal_fwd(alpha0, k1, k2, law):
    # alpha0: (batch,)   k1, k2: (time, batch)   -> final conversion, heat release (time, batch)
    m, n, dt = law

    def step(a, ks):
        r = _rate(a, *ks, m, n)
        return a + dt * r, (a, r)

    final, (alphas, heat) = lax.scan(step, alpha0, (k1, k2))
    return (final, heat), (alphas, k1, k2)


def _kamal_bwd(law, res, cts):
    m, n, dt = law
    alphas, k1, k2 = res
    lam, _ = cts

    def back(lam, x):
        a, c1, c2 = x
        free = (1.0 - a) ** n
        d_rate = c2 * m * a ** (m - 1.0) * free - n * _rate(a, c1, c2, m, n) / (1.0 - a)
        mu = dt * lam
        return lam + mu * d_rate, (mu * free, mu * free * a ** m)

    lam, (d_k1, d_k2) = lax.scan(back, lam, (alphas, k1, k2), reverse=True)
    return lam, d_k1, d_k2


kamal_rollout.defvjp(_kamal_fwd, _kamal_bwd)
