"""Prompt pool for continual learning: retrieval of prompts, gated prefixes and the key-pulling penalty."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

_TINY = 1e-6


class Pool(NamedTuple):
    keys: jax.Array  # [P, D]
    values: jax.Array  # [P, L, D]


def _normalise(x):
    n = jnp.sqrt(jnp.sum(x * x, -1, keepdims=True) + _TINY)
    return x / n, n


def _normalise_bwd(unit, n, g):
    return (g - unit * jnp.sum(unit * g, -1, keepdims=True)) / n


@jax.custom_vjp
def select_prompts(query, pool, log_temp, open_slots):
    """Soft retrieval of prompts by cosine similarity.

    Args:
      query: ``[B, D]``.
      pool: ``Pool`` of keys ``[P, D]`` and prompt tokens ``[P, L, D]``.
      log_temp: scalar, log of the temperature that divides the cosines.
      open_slots: ``[P]`` or ``[B, P]`` bool; closed slots get no weight. At least one is open in each row.

    Returns ``(prompts [B, L, D], weights [B, P])``.
    """
    return _select_fwd(query, pool, log_temp, open_slots)[0]


def _select_fwd(query, pool, log_temp, open_slots):
    q, qn = _normalise(query)
    k, kn = _normalise(pool.keys)
    logits = q @ k.T * jnp.exp(-log_temp)
    masked = jnp.where(open_slots, logits, -jnp.inf)
    w = jax.nn.softmax(masked, axis=-1)
    out = jnp.einsum("bp,pld->bld", w, pool.values)
    return (out, w), (q, qn, k, kn, w, logits, pool.values, log_temp)


def _select_bwd(res, cts):
    q, qn, k, kn, w, logits, values, log_temp = res
    g_out, g_w = cts
    d_values = jnp.einsum("bp,bld->pld", w, g_out)
    dw = g_w + jnp.einsum("bld,pld->bp", g_out, values)
    dl = w * (dw - jnp.sum(w * dw, -1, keepdims=True))
    d_temp = -jnp.sum(dl * logits)
    dcos = dl * jnp.exp(-log_temp)
    d_query = _normalise_bwd(q, qn, dcos @ k)
    d_keys = _normalise_bwd(k, kn, dcos.T @ q)
    return d_query, Pool(d_keys, d_values), d_temp, None


select_prompts.defvjp(_select_fwd, _select_bwd)


@jax.custom_vjp
def prefix_mix(attn, prefix, gate):
    """Gated prefix: attn, prefix [B, H, T, D]; gate [H] shared, or [B, H] per example."""
    return _mix(attn, prefix, jax.nn.sigmoid(gate))


def _mix(attn, prefix, s):
    s = s[..., None, None]
    return attn + s * (prefix - attn)


def _prefix_fwd(attn, prefix, gate):
    s = jax.nn.sigmoid(gate)
    return _mix(attn, prefix, s), (attn, prefix, s)


def _prefix_bwd(res, g):
    attn, prefix, s = res
    sx = s[..., None, None]
    per_head = jnp.einsum("bhtd,bhtd->h", g, prefix - attn)
    d_gate = jnp.broadcast_to(per_head, s.shape) * s * (1 - s)
    return g * (1 - sx), g * sx, d_gate


prefix_mix.defvjp(_prefix_fwd, _prefix_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def pull_penalty(query, keys, picked, coef=0.5, reduction="mean"):
    """Pull the picked keys (picked [B, K] slot ids) to their queries; cosine distance, summed over K."""
    return _pull_fwd(query, keys, picked, coef, reduction)[0]


def _pull_fwd(query, keys, picked, coef, reduction):
    q, qn = _normalise(query)
    k, kn = _normalise(keys)
    dist = (1.0 - jnp.einsum("bd,bkd->bk", q, k[picked])).sum(-1)
    if reduction == "mean":
        loss = dist.mean()
    elif reduction == "sum":
        loss = dist.sum()
    else:
        loss = dist
    return coef * loss, (q, qn, k, kn, picked)


def _pull_bwd(coef, reduction, res, g):
    q, qn, k, kn, picked = res
    b = q.shape[0]
    g = jnp.broadcast_to(g * coef / (b if reduction == "mean" else 1), (b,))
    dq = -g[:, None] * k[picked].sum(1)
    dk = jnp.broadcast_to(-(g[:, None] * q)[:, None, :], picked.shape + q.shape[-1:])
    d_unit = jnp.zeros_like(k).at[picked].set(dk)
    return _normalise_bwd(q, qn, dq), _normalise_bwd(k, kn, d_unit), None


pull_penalty.defvjp(_pull_fwd, _pull_bwd)
