"""Soft token-to-slot routing."""

import functools

import jax
import jax.numpy as jnp


def _over_tokens(logits, token_mask):
    m = token_mask[..., None]
    z = jnp.where(m, logits, -jnp.inf)
    top = z.max(axis=-2, keepdims=True)
    e = jnp.where(m, jnp.exp(z - jnp.where(jnp.isfinite(top), top, 0.0)), 0.0)
    total = e.sum(axis=-2, keepdims=True)
    return e / jnp.where(total > 0, total, 1.0)


@jax.custom_vjp
def fill_slots(tokens, slot_keys, token_mask):
    """(slots, weights) of soft dispatch; tokens (b, t, d), slot_keys (d, s), token_mask (b, t) bool."""
    w = _over_tokens(tokens @ slot_keys, token_mask)
    return jnp.einsum("bts,btd->bsd", w, tokens), w


def _fill_slots_fwd(tokens, slot_keys, token_mask):
    slots, w = fill_slots(tokens, slot_keys, token_mask)
    return (slots, w), (tokens, slot_keys, w)


def _fill_slots_bwd(res, cts):
    tokens, slot_keys, w = res
    g_slots, g_w = cts
    g_w = g_w + jnp.einsum("btd,bsd->bts", tokens, g_slots)
    g_logits = w * (g_w - (w * g_w).sum(axis=-2, keepdims=True))
    g_tokens = jnp.einsum("bts,bsd->btd", w, g_slots) + g_logits @ slot_keys.T
    g_keys = jnp.einsum("btd,bts->ds", tokens, g_logits)
    return g_tokens, g_keys, None


fill_slots.defvjp(_fill_slots_fwd, _fill_slots_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def slot_imbalance(gates, token_mask, eps=1e-8):
    load = jnp.where(token_mask[..., None], gates, 0.0).sum(tuple(range(gates.ndim - 1)))
    return load.var() / (load.mean() ** 2 + eps)


def _imbalance_fwd(gates, token_mask, eps):
    load = jnp.where(token_mask[..., None], gates, 0.0).sum(tuple(range(gates.ndim - 1)))
    mean, var = load.mean(), load.var()
    out = var / (mean**2 + eps)
    return out, (gates, load, mean, var)


def _imbalance_bwd(eps, res, g):
    gates, load, mean, var = res
    n = load.shape[0]
    denom = mean**2 + eps
    d_load = 2.0 / n * ((load - mean) / denom - var * mean / denom**2)
    return jnp.broadcast_to(g * d_load, gates.shape), None


slot_imbalance.defvjp(_imbalance_fwd, _imbalance_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def reheat(probs, temperature, axis=-1):
    """Re-temper a distribution that is already normalised.

    Computes ``probs**(1/temperature)`` and normalises it again along ``axis``.

    probs:       any shape, strictly positive
    temperature: positive scalar; 1 gives probs back, below 1 sharpens
    axis:        static int, the axis of the distribution
    """
    return jax.nn.softmax(jnp.log(probs) / temperature, axis=axis)


def _reheat_fwd(probs, temperature, axis):
    out = reheat(probs, temperature, axis)
    return out, (probs, temperature, out)


def _reheat_bwd(axis, res, g):
    probs, temperature, out = res
    inner = jnp.sum(g * out, axis=-1, keepdims=True)
    d_logits = out * (g - inner)
    d_probs = d_logits / (temperature * probs)
    d_temp = -jnp.sum(d_logits * jnp.log(probs)) / temperature**2
    return d_probs, d_temp


reheat.defvjp(_reheat_fwd, _reheat_bwd)


class SlotRouter:
    def __init__(self, dim, slots, balance=0.01, temperature=1.0):
        self.shape = (dim, slots)
        self.balance = balance
        self.temperature = temperature

    def init(self, key):
        keys = jax.random.normal(key, self.shape) / self.shape[0] ** 0.5
        return {"keys": keys, "temperature": jnp.asarray(self.temperature)}

    def __call__(self, params, tokens, token_mask):
        slots, _ = fill_slots(tokens, params["keys"], token_mask)
        gates = jax.nn.softmax(tokens @ params["keys"], axis=-1)
        gates = reheat(gates, params["temperature"])
        return slots, gates, self.balance * slot_imbalance(gates, token_mask)
