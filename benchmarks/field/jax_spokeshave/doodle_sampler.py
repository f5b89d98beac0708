"""Pieces of an autoregressive model of pen drawings.

A drawing is a sequence of pen offsets with a three-way pen state (down, up, finished) and the time at
which every point was recorded.  Several drawings are packed one after another into a row.
"""

from functools import partial

import jax
import jax.numpy as jnp

PEN_DOWN, PEN_UP, FINISHED = range(3)


def _weights(q, k, times, rate, scale):
    groups = q.shape[1] // k.shape[1]
    k_full = jnp.repeat(k, groups, axis=1)
    age = times[:, None, :, None] - times[:, None, None, :]          # B 1 T T
    logits = scale * jnp.einsum("bhtd,bhsd->bhts", q, k_full) - rate[None, :, None, None] * age
    logits = jnp.where(age >= 0, logits, -jnp.inf)
    return jax.nn.softmax(logits, axis=-1), age


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def fading_attention(q, k, v, times, fade, scale=None):
    """Attention in which old points fade.

    q: B H T D.  k, v: B Hk T D, where Hk divides H (consecutive query heads share a key head).
    times: B T, in seconds, no two alike in a row; a point sees itself and all points that are not later than it.
    fade: H; the logits lose softplus(fade) per second of age.
    """
    return _fading_fwd(q, k, v, times, fade, scale)[0]


def _fading_fwd(q, k, v, times, fade, scale):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    p, _ = _weights(q, k, times, jax.nn.softplus(fade), scale)
    out = jnp.einsum("bhts,bhsd->bhtd", p, jnp.repeat(v, q.shape[1] // k.shape[1], axis=1))
    return out, (q, k, v, times, fade, out)


def _fading_bwd(scale, res, g):
    q, k, v, times, fade, out = res
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    rate = jax.nn.softplus(fade)
    batch, kv_heads, length, width = k.shape
    groups = q.shape[1] // kv_heads
    p, age = _weights(q, k, times, rate, scale)

    def fold(full):
        return full.reshape(batch, kv_heads, groups, length, width).sum(axis=2)

    dv = fold(jnp.einsum("bhts,bhtd->bhsd", p, g))
    dp = jnp.einsum("bhtd,bhsd->bhts", g, jnp.repeat(v, groups, axis=1))
    ds = p * (dp - jnp.sum(g * out, axis=-1, keepdims=True))
    dq = scale * jnp.einsum("bhts,bhsd->bhtd", ds, jnp.repeat(k, groups, axis=1))
    dk = scale * fold(jnp.einsum("bhts,bhtd->bhsd", ds, q))
    d_times = jnp.einsum("bhts,h->bs", ds, rate)
    d_fade = -jnp.einsum("bhts,bts->h", ds, age[:, 0]) * jax.nn.sigmoid(fade)
    return dq, dk, dv, d_times, d_fade


fading_attention.defvjp(_fading_fwd, _fading_bwd)


@jax.custom_jvp
def relaxed_pen_state(logits, noise, temperature):
    """Relaxed sample of the pen state: softmax((logits + noise) / temperature).

    noise is standard Gumbel noise of the shape of the logits (zero noise gives the tempered
    distribution itself).  temperature is a scalar, or has a last axis of length one.
    """
    return jax.nn.softmax((logits + noise) / temperature, axis=-1)


@relaxed_pen_state.defjvp
def _relaxed_pen_state_jvp(primals, tangents):
    logits, noise, temperature = primals
    d_logits, d_noise, d_temperature = tangents
    y = relaxed_pen_state(logits, noise, temperature)
    dz = (d_logits + d_noise) / temperature - logits * d_temperature / temperature**2
    return y, y * (dz - jnp.sum(y * dz, axis=-1, keepdims=True))


def make_pen_path(drawing_ids, inclusive=True):
    """Returns path(offsets, origins) for one packed row.

    drawing_ids: (T,) integers, one run per drawing; they index `origins`.
    The position of a point is the origin of its drawing plus the sum of the drawing's offsets up to the
    point; with inclusive=False the point's own offset is left out (where the pen was before).
    """
    drawing_ids = jnp.asarray(drawing_ids)
    is_first = jnp.concatenate([jnp.ones(1, bool), drawing_ids[1:] != drawing_ids[:-1]])
    is_last = jnp.concatenate([drawing_ids[1:] != drawing_ids[:-1], jnp.ones(1, bool)])

    def running(values, reset, reverse):
        def step(total, x):
            value, fresh = x
            before = jnp.where(fresh, 0.0, total)
            total = before + value
            return total, (total if inclusive else before)

        return jax.lax.scan(step, jnp.zeros_like(values[0]), (values, reset), reverse=reverse)[1]

    @jax.custom_gradient
    def path(offsets, origins):
        positions = origins[drawing_ids] + running(offsets, is_first, False)

        def pull(g):
            return running(g, is_last, True), jnp.zeros_like(origins).at[drawing_ids].add(g)

        return positions, pull

    return path


def sample_pen(key, logits, temperature=1.0):
    return relaxed_pen_state(logits, jax.random.gumbel(key, logits.shape, logits.dtype), temperature)


class StrokeBlock:
    """One attention block; parameters in a dict."""

    def __init__(self, width, heads, kv_heads):
        self.width, self.heads, self.kv_heads = width, heads, kv_heads

    def init(self, key):
        d = self.width // self.heads
        sizes = {"q": self.heads * d, "k": self.kv_heads * d, "v": self.kv_heads * d}
        keys = jax.random.split(key, len(sizes))
        params = {n: jax.random.normal(kk, (self.width, s)) * self.width**-0.5 for kk, (n, s) in zip(keys, sizes.items())}
        return {**params, "fade": jnp.zeros(self.heads)}

    def __call__(self, params, x, times):
        def split(name, heads):
            return (x @ params[name]).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)

        y = fading_attention(split("q", self.heads), split("k", self.kv_heads), split("v", self.kv_heads), times, params["fade"])
        return x + y.swapaxes(1, 2).reshape(x.shape)
