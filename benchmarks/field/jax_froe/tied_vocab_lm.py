"""A tiny continuous-bag-of-words language model with a tied vocabulary table.

The same table embeds the context words and scores the next word.  Context windows come from running
text, so a window holds whatever it holds: function words show up several times and short sentences
are filled up with PAD (id 0).
"""
import math
from functools import partial
from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp

PAD = 0
IGNORE = -100


class LMConfig(NamedTuple):
    vocab: int = 64
    width: int = 16
    cap: Optional[float] = 30.0
    z_weight: float = 1e-4
    window: int = 4


@jax.custom_vjp
def bag_of_context(table, ids):
    """Mean embedding of the words in each window.

    table: (vocab, width) float.  ids: (batch, slots) int.  PAD slots do not count; a window of
    nothing but PAD gives zeros.  All other slots weigh the same.
    """
    return _bag_fwd(table, ids)[0]


def _bag_fwd(table, ids):
    keep = (ids != PAD).astype(table.dtype)
    n = jnp.maximum(keep.sum(axis=-1, keepdims=True), 1.0)
    bag = jnp.einsum("bs,bsd->bd", keep, table[ids]) / n
    return bag, (ids, n, table.shape[0])


def _bag_bwd(res, g):
    ids, n, vocab = res
    # dense (batch, vocab) incidence: one matmul instead of a scatter, which is slow on our machines
    words = jnp.arange(vocab)
    here = jnp.any(ids[:, :, None] == words, axis=1) & (words != PAD)
    weight = here.astype(g.dtype) / n
    return weight.T @ g, None


bag_of_context.defvjp(_bag_fwd, _bag_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def capped_nll(logits, labels, cap=None, z_weight=0.0):
    """Token cross entropy with soft-capped logits and a z-loss.

    Args:
      logits: float array (..., vocab).
      labels: int array (...,); positions equal to IGNORE are left out of the mean.
      cap: logits are squashed to cap * tanh(logits / cap); None leaves them alone.
      z_weight: weight of the squared log partition function.

    Returns:
      The mean over the kept positions, or 0 when there are none.
    """
    return _nll_fwd(logits, labels, cap, z_weight)[0]


def _squash(logits, cap):
    return logits if cap is None else cap * jnp.tanh(logits / cap)


def _nll_fwd(logits, labels, cap, z_weight):
    c = _squash(logits, cap)
    keep = labels != IGNORE
    safe = jnp.where(keep, labels, 0)
    logz = jax.nn.logsumexp(c, axis=-1)
    hit = jnp.take_along_axis(c, safe[..., None], axis=-1)[..., 0]
    per = jnp.where(keep, logz - hit + z_weight * logz**2, 0.0)
    count = jnp.maximum(keep.sum(), 1).astype(logits.dtype)
    return per.sum() / count, (c, logz, safe, keep, count)


def _nll_bwd(cap, z_weight, res, g):
    c, logz, safe, keep, count = res
    p = jnp.exp(c - logz[..., None])
    d = p * (1.0 + 2.0 * z_weight * logz)[..., None] - jax.nn.one_hot(safe, c.shape[-1], dtype=c.dtype)
    if cap is not None:
        d = d * (1.0 - (c / cap) ** 2)
    return jnp.where(keep[..., None], d, 0.0) * (g / count), None


capped_nll.defvjp(_nll_fwd, _nll_bwd)


def _window_sum(x, window):
    """Sum over the last `window` steps of axis 1, the current step included."""
    total = jnp.cumsum(x, axis=1)
    late = jnp.pad(total, ((0, 0), (window, 0), (0, 0)))[:, : x.shape[1]]
    return total - late


def _divisor(steps, window, start, dtype):
    if start == "full":
        return jnp.asarray(window, dtype)
    seen = jnp.minimum(jnp.arange(1, steps + 1), window)
    return seen.astype(dtype)[None, :, None]


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def recent_context(x, window, start="full"):
    """Moving average over (batch, time, width).

    start="full" treats the text before the beginning as zeros (always divide by `window`);
    start="grow" divides by the number of steps that have been seen so far.
    """
    return _window_sum(x, window) / _divisor(x.shape[1], window, start, x.dtype)


def _recent_fwd(x, window, start):
    return recent_context(x, window, start), None


def _recent_bwd(window, start, _, g):
    # the transpose of a causal average is the same average run from the end of the text
    back = recent_context(jnp.flip(g, 1), window, start)
    return (jnp.flip(back, 1),)


recent_context.defvjp(_recent_fwd, _recent_bwd)


def init(key, cfg: LMConfig):
    return {"table": jax.random.normal(key, (cfg.vocab, cfg.width)) / math.sqrt(cfg.width),
            "mix": jnp.eye(cfg.width)}


def loss_fn(params, contexts, labels, cfg: LMConfig):
    """contexts (batch, time, slots), labels (batch, time)."""
    b, t, s = contexts.shape
    h = bag_of_context(params["table"], contexts.reshape(b * t, s)).reshape(b, t, -1)
    h = h + recent_context(h @ params["mix"], cfg.window)
    return capped_nll(h @ params["table"].T, labels, cfg.cap, cfg.z_weight)
