"""Encoder blocks for AIS vessel tracks.

A batch holds B vessels with T position reports each and C channels per report
(speed over ground, rate of turn, draught, ...).  Vessels report irregularly, so the
tail of most tracks is padding; ``valid`` tells which reports are real.
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

EPS = 1e-5
HULL = 0.05  # half a ship length in nautical miles, keeps distances smooth


class EncoderParams(NamedTuple):
    gain: jax.Array      # (C,)
    shift: jax.Array     # (C,)
    berths: jax.Array    # (n_berths, C)
    gate: jax.Array      # (C, C)


def _track_moments(x, valid):
    m = valid[..., None].astype(x.dtype)
    count = jnp.maximum(m.sum(axis=1, keepdims=True), 1.0)
    mean = (x * m).sum(axis=1, keepdims=True) / count
    var = (((x - mean) * m) ** 2).sum(axis=1, keepdims=True) / count
    return m, mean, jnp.sqrt(var + EPS)


@jax.custom_vjp
def track_standardize(x, valid, gain, shift):
    """Standardise every channel of a track over its own real reports.

    Args:
      x: (B, T, C) reports.
      valid: (B, T) booleans, False on padding. Padding comes out as zero.
      gain: (C,) multiplier.
      shift: (C,) offset.

    Returns:
      (B, T, C) standardised reports.
    """
    m, mean, std = _track_moments(x, valid)
    return m * ((x - mean) / std * gain + shift)


def _standardize_fwd(x, valid, gain, shift):
    m, mean, std = _track_moments(x, valid)
    xhat = m * (x - mean) / std
    return xhat * gain + m * shift, (xhat, m, std, gain)


def _standardize_bwd(res, g):
    xhat, m, std, gain = res
    g = g * m
    d_gain = (g * xhat).sum(axis=(0, 1))
    d_shift = g.sum(axis=(0, 1))
    gx = g * gain
    centred = gx - gx.mean(axis=1, keepdims=True)
    projected = xhat * (gx * xhat).mean(axis=1, keepdims=True)
    return m * (centred - projected) / std, None, d_gain, d_shift


track_standardize.defvjp(_standardize_fwd, _standardize_bwd)


def _clip_rows(rows, max_norm):
    sq = (rows ** 2).sum(-1, keepdims=True)
    too_long = sq > max_norm ** 2
    norm = jnp.sqrt(jnp.where(too_long, sq, 1.0))
    return jnp.where(too_long, max_norm / norm, 1.0), norm, too_long


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def berth_lookup(table, ids, max_norm):
    """Rows of the berth table, each shortened to at most ``max_norm``.

    A vessel may call at the same berth many times.  Negative ids mean "at sea" and
    give a zero vector.  ids may have any shape; the result appends the row axis.
    """
    rows = table[jnp.maximum(ids, 0)]
    factor, _, _ = _clip_rows(rows, max_norm)
    return jnp.where((ids >= 0)[..., None], rows * factor, 0.0)


def _lookup_fwd(table, ids, max_norm):
    return berth_lookup(table, ids, max_norm), (table, ids)


def _lookup_bwd(max_norm, res, g):
    table, ids = res
    safe = jnp.maximum(ids, 0)
    rows = table[safe]
    factor, norm, too_long = _clip_rows(rows, max_norm)
    unit = jnp.where(too_long, rows / norm, 0.0)
    g = jnp.where((ids >= 0)[..., None], g, 0.0)
    d_rows = factor * (g - unit * (unit * g).sum(-1, keepdims=True))
    return jnp.zeros_like(table).at[safe].add(d_rows), None


berth_lookup.defvjp(_lookup_fwd, _lookup_bwd)


@jax.custom_vjp
def dwell_memory(keep_logits, inputs, start):
    """Leaky memory of a track: h[t] = a[t] h[t-1] + (1 - a[t]) u[t].

    keep_logits and inputs are time-major, (T, B, C); a = sigmoid(keep_logits), so a
    moored vessel can hold its memory while one under way lets it go.  start is (B, C).
    """
    return _dwell_fwd(keep_logits, inputs, start)[0]


def _dwell_fwd(keep_logits, inputs, start):
    a = jax.nn.sigmoid(keep_logits)

    def step(h, au):
        a_t, u_t = au
        new = a_t * h + (1.0 - a_t) * u_t
        return new, new

    _, hs = jax.lax.scan(step, start, (a, inputs))
    return hs, (a, inputs, start, hs)


def _dwell_bwd(res, g):
    a, inputs, start, hs = res
    before = jnp.concatenate([start[None], hs[:-1]], axis=0)

    def back(lam, ga):
        g_t, a_t = ga
        lam = g_t + a_t * lam
        return lam, lam

    _, lams = jax.lax.scan(back, jnp.zeros_like(start), (g, a), reverse=True)
    d_a = lams * (before - inputs)
    return d_a * a * (1.0 - a), lams * (1.0 - a), a[0] * lams[0]


dwell_memory.defvjp(_dwell_fwd, _dwell_bwd)


def _separations(positions):
    diff = positions[:, None, :] - positions[None, :, :]
    dist = jnp.sqrt((diff ** 2).sum(-1) + HULL ** 2)
    return diff, dist


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def collision_margin(positions, softness):
    """Soft distance of each of N >= 2 vessels (N, 2) to its nearest neighbour, (N,)."""
    _, dist = _separations(positions)
    others = ~jnp.eye(positions.shape[0], dtype=bool)
    return -softness * jax.nn.logsumexp(jnp.where(others, -dist / softness, -jnp.inf), axis=1)


@collision_margin.defjvp
def _collision_margin_jvp(softness, primals, tangents):
    (positions,), (dp,) = primals, tangents
    diff, dist = _separations(positions)
    others = ~jnp.eye(positions.shape[0], dtype=bool)
    w = jax.nn.softmax(jnp.where(others, -dist / softness, -jnp.inf), axis=1)
    ddist = (diff * (dp[:, None] - dp[None, :])).sum(-1) / dist
    return collision_margin(positions, softness), (w * ddist).sum(axis=1)


def encode(params: EncoderParams, reports, valid, berth_ids):
    """(B, T, C) reports to the (B, C) summary that the port-call classifier reads."""
    x = track_standardize(reports, valid, params.gain, params.shift)
    x = x + berth_lookup(params.berths, berth_ids, 1.0)
    x = jnp.swapaxes(x, 0, 1)
    hs = dwell_memory(x @ params.gate, x, jnp.zeros_like(x[0]))
    return hs[-1]
