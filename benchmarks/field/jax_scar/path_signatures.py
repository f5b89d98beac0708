"""Truncated path signatures for irregular series (level two)."""
from functools import partial

import jax
import jax.numpy as jnp


def augment_time(path):
    """Prepend a uniform clock channel: (B, T, D) -> (B, T, D + 1)."""
    b, t, _ = path.shape
    clock = jnp.broadcast_to(jnp.linspace(0.0, 1.0, t)[None, :, None], (b, t, 1))
    return jnp.concatenate([clock, path], axis=-1)


def _increments(path, lengths):
    dx = jnp.diff(path, axis=1)
    live = jnp.arange(1, path.shape[1])[None, :] < lengths[:, None]
    return jnp.where(live[..., None], dx, 0.0), live


@jax.custom_vjp
def signature_two(path, lengths):
    """Levels one and two of the signature of piecewise linear paths.

    path: (B, T, D); lengths: (B,) number of valid knots, the rest is padding.
    Returns level one (B, D), the total increment, and level two (B, D, D),
    whose [i, j] is the iterated integral of dx_i before dx_j.
    """
    return _sig_fwd(path, lengths)[0]


def _sig_fwd(path, lengths):
    dx, live = _increments(path, lengths)
    before = jnp.cumsum(dx, axis=1) - 0.5 * dx
    level2 = jnp.einsum("bti,btj->bij", before, dx)
    return (dx.sum(1), level2), (dx, live)


def _sig_bwd(res, g):
    dx, live = res
    g1, g2 = g
    run = jnp.cumsum(dx, axis=1)
    before = run - 0.5 * dx
    after = run[:, -1:] - run + 0.5 * dx
    d_dx = g1[:, None, :] + (before + after) @ g2
    d_dx = jnp.where(live[..., None], d_dx, 0.0)
    pad = lambda lo, hi: jnp.pad(d_dx, ((0, 0), (lo, hi), (0, 0)))
    return pad(1, 0) - pad(0, 1), None


signature_two.defvjp(_sig_fwd, _sig_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def lagged_variation(path, p=2.0, lag=1, axis=-1):
    """(sum |x[t + lag] - x[t]|^p)^(1/p) along `axis`, p >= 1; constant paths get a zero slope."""
    return _lagged(path, p, lag, axis)[1]


def _lagged(path, p, lag, axis):
    x = jnp.moveaxis(path, axis, 0)
    d = x[lag:] - x[:-lag]
    return d, jnp.sum(jnp.abs(d) ** p, axis=0) ** (1.0 / p)


@lagged_variation.defjvp
def _lagged_jvp(p, lag, axis, primals, tangents):
    d, v = _lagged(primals[0], p, lag, axis)
    t = jnp.moveaxis(tangents[0], axis, 0)
    td = t[lag:] - t[:-lag]
    ratio = jnp.abs(d) / jnp.where(v > 0, v, 1.0)
    w = jnp.where(d == 0, 0.0, jnp.sign(d) * ratio ** (p - 1.0))
    return v, jnp.sum(w * td, axis=0)


def _tensor_norm(s1, s2):
    return jnp.sqrt(jnp.sum(s1**2, -1) + jnp.sum(s2**2, (-2, -1)))


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def dilate_to_ball(sig, bound=4.0):
    s1, s2 = sig
    lam = jnp.minimum(1.0, bound / _tensor_norm(s1, s2))
    return s1 * lam[:, None], s2 * (lam**2)[:, None, None]


def _dilate_fwd(sig, bound):
    return dilate_to_ball(sig, bound), sig


def _dilate_bwd(bound, sig, g):
    (s1, s2), (g1, g2) = sig, g
    n = _tensor_norm(s1, s2)
    lam = jnp.minimum(1.0, bound / n)
    g_lam = jnp.sum(g1 * s1, -1)
    g_n = jnp.where(n > bound, -g_lam * bound / n**2, 0.0) / n
    d1 = lam[:, None] * g1 + g_n[:, None] * s1
    d2 = (lam**2)[:, None, None] * g2 + g_n[:, None, None] * s2
    return ((d1, d2),)


dilate_to_ball.defvjp(_dilate_fwd, _dilate_bwd)


def signature_features(path, lengths, bound=4.0):
    s1, s2 = dilate_to_ball(signature_two(path, lengths), bound)
    return jnp.concatenate([s1, s2.reshape(s2.shape[0], -1)], axis=-1)
