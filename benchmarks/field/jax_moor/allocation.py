"""Allocation problems: portfolios, smiles, power over channels."""
from __future__ import annotations

from typing import Tuple

import jax
import jax.numpy as jnp


@jax.custom_gradient
def kelly_growth(weights, returns, probs):
    """Expected log growth of a rebalanced portfolio.

    Args:
        weights: ``(..., A)`` fractions of wealth per asset; the rest is cash.
        returns: ``(S, A)`` simple returns of the scenarios. ``1 + returns @ w``
            must stay positive.
        probs: ``(S,)`` non-negative scenario weights. They are normalised inside,
            so counts or exponentially decayed weights may be passed as they are.

    Returns:
        ``(...)`` growth rate per period.
    """
    total = jnp.sum(probs)
    gross = 1.0 + jnp.einsum("...a,sa->...s", weights, returns)
    log_gross = jnp.log(gross)
    growth = log_gross @ probs / total

    def grad(g):
        pull = g[..., None] * probs / gross  # (..., S)
        g_weights = jnp.einsum("...s,sa->...a", pull, returns)
        g_returns = jnp.einsum(
            "bs,ba->sa", pull.reshape(-1, pull.shape[-1]), weights.reshape(-1, weights.shape[-1])
        )
        centred = (log_gross - growth[..., None]) / total
        g_probs = jnp.sum((g[..., None] * centred).reshape(-1, probs.shape[0]), axis=0)
        return g_weights, g_returns, g_probs

    return growth, grad


def fit_kelly(returns, probs, steps=200, lr=0.5):
    """Projected gradient ascent for a long-only portfolio."""
    w = jnp.full((returns.shape[1],), 1.0 / returns.shape[1])

    def step(w, _):
        w = jnp.maximum(w + lr * jax.grad(kelly_growth)(w, returns, probs), 0.0)
        return w / jnp.maximum(w.sum(), 1.0), None

    return jax.lax.scan(step, w, None, length=steps)[0]


@jax.custom_jvp
def svi_total_variance(k, a, b, rho, m, sigma):
    """Raw SVI slice ``a + b (rho (k - m) + sqrt((k - m)^2 + sigma^2))``.

    Strikes ``k`` and the five parameters broadcast; ``sigma > 0``.
    """
    y = k - m
    return a + b * (rho * y + jnp.sqrt(y * y + sigma * sigma))


def _svi_slope(k, b, rho, m, sigma):
    y = k - m
    return b * (rho + y / jnp.sqrt(y * y + sigma * sigma))


svi_total_variance.defjvps(
    lambda t, w, k, a, b, rho, m, sigma: t * _svi_slope(k, b, rho, m, sigma),
    lambda t, w, k, a, b, rho, m, sigma: jnp.broadcast_to(t, jnp.shape(w)),
    lambda t, w, k, a, b, rho, m, sigma: t * (rho * (k - m) + jnp.hypot(k - m, sigma)),
    lambda t, w, k, a, b, rho, m, sigma: t * b * (k - m),
    lambda t, w, k, a, b, rho, m, sigma: -t * _svi_slope(k, b, rho, m, sigma),
    lambda t, w, k, a, b, rho, m, sigma: t * b * sigma / jnp.hypot(k - m, sigma),
)


def svi_implied_vol(k, expiry, params):
    """Implied volatility of a slice given ``params`` as a dict of arrays."""
    w = svi_total_variance(k, params["a"], params["b"], params["rho"], params["m"], params["sigma"])
    return jnp.sqrt(jnp.maximum(w, 1e-12) / expiry)


@jax.custom_vjp
def water_filling(noise: jax.Array, budget: jax.Array) -> Tuple[jax.Array, jax.Array]:
    """Capacity-optimal power over parallel Gaussian channels.

    Parameters
    ----------
    noise : (..., N)
        Effective noise level of each channel, positive.
    budget : (...)
        Total power, positive.

    Returns
    -------
    power : (..., N)
        ``max(level - noise, 0)``, sums to ``budget``.
    level : (...)
        The water level.
    """
    level = _water_level(noise, budget)
    return jnp.maximum(level[..., None] - noise, 0.0), level


def _water_level(noise, budget):
    srt = jnp.sort(noise, axis=-1)
    count = jnp.arange(1, noise.shape[-1] + 1, dtype=noise.dtype)
    trial = (budget[..., None] + jnp.cumsum(srt, axis=-1)) / count
    used = jnp.sum(trial > srt, axis=-1, keepdims=True)
    return jnp.take_along_axis(trial, used - 1, axis=-1)[..., 0]


def _water_fwd(noise, budget):
    power, level = water_filling(noise, budget)
    return (power, level), power > 0.0


def _water_bwd(active, cotangents):
    g_power, _ = cotangents
    g_power = jnp.where(active, g_power, 0.0)
    g_level = jnp.sum(g_power, axis=-1, keepdims=True) / jnp.sum(active, axis=-1, keepdims=True)
    g_noise = jnp.where(active, g_level - g_power, 0.0)
    return g_noise, g_level[..., 0]


water_filling.defvjp(_water_fwd, _water_bwd)


def capacity(gain, budget, noise_floor=1.0):
    """Sum rate in nats for channel power gains ``gain``."""
    noise = noise_floor / gain
    power, _ = water_filling(noise, budget)
    return jnp.sum(jnp.log1p(power / noise), axis=-1)
