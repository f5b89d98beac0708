"""Building blocks for vision and sequence backbones.

All functions are pure; parameters are passed in explicitly. Arrays are channels-last.
"""
from __future__ import annotations

import functools
from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp
from jax import lax

__all__ = [
    "causal_favor_attention",
    "sink_attention",
    "squeeze_excite_gate",
    "global_response_norm",
    "bernoulli_ste",
    "clip_cotangent_by_global_norm",
    "GRNParams",
]

_NEG = -1e30


# --------------------------------------------------------------------------------------
# Random-feature attention
# --------------------------------------------------------------------------------------


def _time_first(x):
    return jnp.moveaxis(x, -2, 0)


def _time_back(x):
    return jnp.moveaxis(x, 0, -2)


def _favor_scan(qp, kp, v, eps):
    lead, m, d = qp.shape[:-2], qp.shape[-1], v.shape[-1]
    carry = (jnp.zeros(lead + (m, d), v.dtype), jnp.zeros(lead + (m,), kp.dtype))

    def step(c, t):
        s, z = c
        q_t, k_t, v_t = t
        s = s + k_t[..., :, None] * v_t[..., None, :]
        z = z + k_t
        num = jnp.einsum("...m,...md->...d", q_t, s)
        den = jnp.sum(q_t * z, axis=-1, keepdims=True) + eps
        return (s, z), (num / den, den)

    (s, z), (out, den) = lax.scan(step, carry, tuple(map(_time_first, (qp, kp, v))))
    return out, den, s, z


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _favor(query_prime, key_prime, value, eps):
    out, _, _, _ = _favor_scan(query_prime, key_prime, value, eps)
    return _time_back(out)


def _favor_fwd(query_prime, key_prime, value, eps):
    out, den, s, z = _favor_scan(query_prime, key_prime, value, eps)
    return _time_back(out), (query_prime, key_prime, value, out, den, s, z)


def _favor_bwd(eps, res, ct):
    qp, kp, v, out, den, s, z = res
    ct = _time_first(ct)
    d_num = ct / den
    d_den = -jnp.sum(ct * out, axis=-1, keepdims=True) / den

    def forward(c, t):
        s, z = c
        k_t, v_t, dn, dd = t
        s = s + k_t[..., :, None] * v_t[..., None, :]
        z = z + k_t
        return (s, z), jnp.einsum("...md,...d->...m", s, dn) + dd * z

    def backward(c, t):
        ds, dz = c
        q_t, k_t, v_t, dn, dd = t
        ds = ds + q_t[..., :, None] * dn[..., None, :]
        dz = dz + dd * q_t
        dk = jnp.einsum("...md,...d->...m", ds, v_t) + dz
        dv = jnp.einsum("...md,...m->...d", ds, k_t)
        return (ds, dz), (dk, dv)

    q_s, k_s, v_s = map(_time_first, (qp, kp, v))
    zeros = (jnp.zeros_like(s), jnp.zeros_like(z))
    _, dq = lax.scan(forward, zeros, (k_s, v_s, d_num, d_den))
    _, (dk, dv) = lax.scan(backward, zeros, (q_s, k_s, v_s, d_num, d_den), reverse=True)
    return _time_back(dq), _time_back(dk), _time_back(dv)


_favor.defvjp(_favor_fwd, _favor_bwd)


def causal_favor_attention(query_prime, key_prime, value, *, eps: float = 1e-6):
    """Causal attention from positive feature maps, linear in the length.

    Args:
      query_prime: ``[..., length, features]`` non-negative features of the queries.
      key_prime: ``[..., length, features]`` non-negative features of the keys.
      value: ``[..., length, dim]``.
      eps: added to the normaliser.

    Returns:
      ``[..., length, dim]``; position ``t`` sees positions ``0..t``.
    """
    return _favor(query_prime, key_prime, value, eps)


# --------------------------------------------------------------------------------------
# Attention with sinks
# --------------------------------------------------------------------------------------


def _band(length, window):
    i = jnp.arange(length)[:, None]
    j = jnp.arange(length)[None, :]
    keep = j <= i
    if window is not None:
        keep = keep & (i - j < window)
    return keep


def _scores(q, k, scale):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return jnp.einsum("bihd,bjhd->bhij", q, k) * scale


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def sink_attention(
    q: "b t h d",
    k: "b t h d",
    v: "b t h d",
    sinks: "h",
    scale: Optional[float] = None,
    window: Optional[int] = None,
) -> "b t h d":
    """Causal self-attention in which each head has a learned logit that takes up mass.

    ``window`` limits each position to itself and the ``window - 1`` positions before it.
    """
    return _sink_fwd(q, k, v, sinks, scale, window)[0]


def _sink_fwd(q, k, v, sinks, scale, window):
    s = jnp.where(_band(q.shape[1], window), _scores(q, k, scale), _NEG)
    sink = sinks[None, :, None]
    lse = jnp.logaddexp(jax.nn.logsumexp(s, axis=-1), sink)
    p = jnp.exp(s - lse[..., None])
    o = jnp.einsum("bhij,bjhd->bihd", p, v)
    return o, (q, k, v, sinks, o, lse)


def _sink_bwd(scale, window, res, do):
    q, k, v, sinks, o, lse = res
    length, dim = q.shape[1], q.shape[-1]
    factor = dim**-0.5 if scale is None else scale
    i = jnp.arange(length)
    s = jnp.where(i[:, None] >= i[None, :], _scores(q, k, scale), _NEG)
    p = jnp.exp(s - lse[..., None])
    dv = jnp.einsum("bhij,bihd->bjhd", p, do)
    dp = jnp.einsum("bihd,bjhd->bhij", do, v)
    delta = jnp.einsum("bihd,bihd->bhi", do, o)
    ds = p * (dp - delta[..., None]) * factor
    dq = jnp.einsum("bhij,bjhd->bihd", ds, k)
    dk = jnp.einsum("bhij,bihd->bjhd", ds, q)
    p_sink = jnp.exp(sinks[None, :, None] - lse)
    dsinks = -jnp.sum(p_sink * delta, axis=(0, 2))
    return dq, dk, dv, dsinks


sink_attention.defvjp(_sink_fwd, _sink_bwd)


# --------------------------------------------------------------------------------------
# Channel gating and response normalisation
# --------------------------------------------------------------------------------------


@jax.custom_vjp
def squeeze_excite_gate(x, logits):
    """Multiply feature maps by a hard-sigmoid gate per example and channel.

    :param x: feature maps, ``(batch, height, width, channels)``
    :param logits: excitation of the squeezed features, ``(batch, channels)``
    :returns: ``x * clip(logits + 3, 0, 6) / 6``, in the shape of ``x``
    """
    gate = jnp.clip(logits + 3.0, 0.0, 6.0) / 6.0
    return x * gate[:, None, None, :]


def _se_fwd(x, logits):
    gate = jnp.clip(logits + 3.0, 0.0, 6.0) / 6.0
    return x * gate[:, None, None, :], (x, gate)


def _se_bwd(res, g):
    x, gate = res
    dx = g * gate[:, None, None, :]
    dlogits = jnp.einsum("bhwc,bhwc->bc", g, x) / 6.0
    return dx, dlogits


squeeze_excite_gate.defvjp(_se_fwd, _se_bwd)


class GRNParams(NamedTuple):
    gamma: jax.Array
    beta: jax.Array


def _spatial(x):
    return tuple(range(1, x.ndim - 1))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def global_response_norm(x, params: GRNParams, eps: float = 1e-6):
    return _grn_fwd(x, params, eps)[0]


def _grn_fwd(x, params, eps):
    gx = jnp.sqrt(jnp.sum(jnp.square(x), axis=_spatial(x), keepdims=True))
    m = jnp.mean(gx, axis=-1, keepdims=True) + eps
    nx = gx / m
    y = params.gamma * (x * nx) + params.beta + x
    return y, (x, params, gx, m)


def _grn_bwd(eps, res, ct):
    x, params, gx, m = res
    nx = gx / m
    lead = tuple(range(x.ndim - 1))
    dgamma = jnp.sum(ct * x * nx, axis=lead)
    dbeta = jnp.sum(ct, axis=lead)
    dnx = jnp.sum(ct * params.gamma * x, axis=_spatial(x), keepdims=True)
    dgx = (dnx - jnp.mean(dnx * nx, axis=-1, keepdims=True)) / m
    unit = jnp.where(gx > 0, x / jnp.where(gx > 0, gx, 1.0), 0.0)
    dx = ct * (params.gamma * nx + 1.0) + dgx * unit
    return dx, GRNParams(dgamma, dbeta)


global_response_norm.defvjp(_grn_fwd, _grn_bwd)


# --------------------------------------------------------------------------------------
# Estimators and gradient processing
# --------------------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def bernoulli_ste(logits, noise, temperature=1.0):
    """Hard Bernoulli sample from fixed uniform noise, straight-through.

    The forward pass is ``sigmoid(logits / temperature) > noise`` as zeros and ones. The
    backward pass is that of ``sigmoid(logits / temperature)``; noise gets no gradient.
    """
    return (jax.nn.sigmoid(logits / temperature) > noise).astype(logits.dtype)


def _bern_fwd(logits, noise, temperature):
    p = jax.nn.sigmoid(logits / temperature)
    return (p > noise).astype(logits.dtype), (p, noise)


def _bern_bwd(temperature, res, g):
    p, noise = res
    return g * p * (1.0 - p) / temperature, jnp.zeros_like(noise)


bernoulli_ste.defvjp(_bern_fwd, _bern_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def clip_cotangent_by_global_norm(tree, max_norm):
    """Identity on a pytree; on the way back the cotangents are rescaled together so that
    their joint Euclidean norm is at most ``max_norm``."""
    return tree


def _clip_fwd(tree, max_norm):
    return tree, None


def _clip_bwd(max_norm, _, ct):
    sq = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree_util.tree_leaves(ct))
    norm = jnp.sqrt(sq)
    factor = jnp.where(norm > max_norm, max_norm / jnp.where(norm > 0, norm, 1.0), 1.0)
    return (jax.tree_util.tree_map(lambda c: c * factor.astype(c.dtype), ct),)


clip_cotangent_by_global_norm.defvjp(_clip_fwd, _clip_bwd)
