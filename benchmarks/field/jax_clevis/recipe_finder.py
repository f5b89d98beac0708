"""Recipe retrieval for a cooking app.

A recipe is a bag of weighed ingredients and a list of steps; queries attend over the steps. An auxiliary loss asks the
step scorer to put the steps in order, and one physical feature (the core temperature of the roast) joins the embedding.
"""
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

PAD = 0


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def weigh_ingredients(table, ids, grams, mode="mean"):
    """Bag of ingredients.

    Args:
        table: (vocab, dim) embeddings.
        ids: (recipes, slots) ingredient numbers; PAD fills short recipes. The same ingredient may come twice.
        grams: (recipes, slots) positive amounts, ignored on PAD.
        mode: "sum", "mean" (divided by all grams) or "l2" (divided by the root of the summed squares of the grams).

    Returns:
        (recipes, dim); zeros for a recipe without ingredients.
    """
    return _weigh_fwd(table, ids, grams, mode)[0]


def _weigh_fwd(table, ids, grams, mode):
    w = jnp.where(ids != PAD, grams, 0.0)
    if mode == "sum":
        size = jnp.ones_like(w[:, :1])
    elif mode == "mean":
        size = w.sum(1, keepdims=True)
    elif mode == "l2":
        square = jnp.sum(w * w, 1, keepdims=True)
        size = jnp.sqrt(jnp.where(square > 0, square, 1.0))
    else:
        raise ValueError(mode)
    size = jnp.where(size > 0, size, 1.0)
    out = jnp.einsum("bk,bkd->bd", w / size, table[ids])
    return out, (table, ids, w, size, out)


def _weigh_bwd(mode, res, g):
    table, ids, w, size, out = res
    d_table = jnp.zeros_like(table).at[ids].add((w / size)[..., None] * g[:, None])
    along = jnp.einsum("bkd,bd->bk", table[ids], g)
    whole = jnp.sum(out * g, axis=1, keepdims=True)
    growth = {"sum": 0.0, "mean": 1.0, "l2": w / size}[mode]
    d_grams = jnp.where(ids != PAD, (along - growth * whole) / size, 0.0)
    return d_table, None, d_grams


weigh_ingredients.defvjp(_weigh_fwd, _weigh_bwd)


def make_turn_loss(margin=0.5):
    """Loss on step scores (recipes, steps) that should rise from step to step.

    Every pair of steps of a recipe costs softplus(margin - rise); pairs are averaged within a recipe, then recipes are
    averaged, those with fewer than two steps left out.
    """

    def steps_in_turn(scores, n_steps):
        steps = scores.shape[1]
        real = jnp.arange(steps) < n_steps[:, None]
        earlier = jnp.triu(jnp.ones((steps, steps), bool), 1)
        pair = (real[:, :, None] & real[:, None, :] & earlier).astype(scores.dtype)
        count = pair.sum((1, 2))
        rise = scores[:, None, :] - scores[:, :, None]
        cost = jnp.sum(pair * jax.nn.softplus(margin - rise), (1, 2)) / jnp.maximum(count, 1.0)
        loss = cost.sum() / jnp.maximum(jnp.sum(count > 0), 1)

        def vjp(g):
            pull = pair * jax.nn.sigmoid(margin - rise) / jnp.maximum(pair.sum(), 1.0)
            d_scores = g * (pull.sum(2) - pull.sum(1))
            return d_scores, np.zeros(n_steps.shape, jax.dtypes.float0)

        return loss, vjp

    return jax.custom_gradient(steps_in_turn)


@jax.custom_vjp
def attend_steps(q, k, v, sink, n_steps):
    """Attention of query tokens over recipe steps, with fewer key heads than query heads and a sink.

    q: (B, heads, Q, D); k, v: (B, kv_heads, S, D), heads a multiple of kv_heads, neighbouring query heads share one.
    sink: (heads,) logit of attending to nothing. n_steps: (B,) number of real steps, may be zero.
    """
    return _attend_fwd(q, k, v, sink, n_steps)[0]


def _attend_fwd(q, k, v, sink, n_steps):
    share = q.shape[1] // k.shape[1]
    kk, vv = jnp.repeat(k, share, axis=1), jnp.repeat(v, share, axis=1)
    logits = jnp.einsum("bhqd,bhsd->bhqs", q, kk) / math.sqrt(q.shape[-1])
    real = (jnp.arange(k.shape[2]) < n_steps[:, None])[:, None, None]
    logits = jnp.where(real, logits, -jnp.inf)
    rest = jnp.broadcast_to(sink[None, :, None, None], logits.shape[:-1] + (1,))
    p = jax.nn.softmax(jnp.concatenate([logits, rest], -1))
    out = jnp.einsum("bhqs,bhsd->bhqd", p[..., :-1], vv)
    return out, (q, kk, vv, p, out, k.shape)


def _attend_bwd(res, g):
    q, kk, vv, p, out, small = res
    scale = 1 / math.sqrt(q.shape[-1])
    dot = jnp.sum(g * out, -1, keepdims=True)
    steps = p[..., :-1]
    d_logits = steps * (jnp.einsum("bhqd,bhsd->bhqs", g, vv) - dot)
    d_sink = -jnp.sum(p[..., -1:] * dot, axis=(0, 2, 3))
    d_q = jnp.einsum("bhqs,bhsd->bhqd", d_logits, kk) * scale
    d_k = jnp.einsum("bhqs,bhqd->bhsd", d_logits, q) * scale
    d_v = jnp.einsum("bhqs,bhqd->bhsd", steps, g)
    b, heads_kv, s, d = small

    def regroup(x):
        return x.reshape(b, -1, heads_kv, s, d).sum(1)

    return d_q, regroup(d_k), regroup(d_v), d_sink, None


attend_steps.defvjp(_attend_fwd, _attend_bwd)


def _modes(form, n=6):
    i = np.arange(n)
    if form == "slab":
        root = (i + 0.5) * np.pi
        return root, 2 * (-1.0) ** i / root
    if form == "ball":
        return (i + 1) * np.pi, 2 * (-1.0) ** i
    if form == "log":       # zeros of J0 and J1 there
        root = np.array([2.404825557695773, 5.520078110286311, 8.653727912911013, 11.791534439014281])
        j1 = np.array([0.519147497289467, -0.340264806536846, 0.271452299908320, -0.232459831359998])
        return root, 2 / (root * j1)
    raise ValueError(form)


@functools.partial(jax.custom_jvp, nondiff_argnums=(5,))
def roast_middle(minutes, half, spread, start, oven, form="slab"):
    """Temperature in the middle of a roast after `minutes`, its surface at `oven`, by the first terms of the series.

    half: half thickness or radius in cm; spread: thermal diffusivity, cm2/min; form: "slab", "log" or "ball".
    """
    root, size = _modes(form)
    fourier = jnp.asarray(spread * minutes / half ** 2)
    left = jnp.sum(size * jnp.exp(-root ** 2 * fourier[..., None]), -1)
    return oven + (start - oven) * left


@roast_middle.defjvp
def _core_jvp(form, primals, tangents):
    minutes, half, spread, start, oven = primals
    d_minutes, d_half, d_spread, d_start, d_oven = tangents
    root, size = _modes(form)
    fourier = jnp.asarray(spread * minutes / half ** 2)
    d_fourier = (spread * d_minutes + d_spread * minutes) / half ** 2 - 2 * fourier * d_half / half
    terms = size * jnp.exp(-root ** 2 * fourier[..., None])
    left = terms.sum(-1)
    d_left = -jnp.sum(root ** 2 * terms, -1) * d_fourier
    return oven + (start - oven) * left, d_oven * (1 - left) + d_start * left + (start - oven) * d_left
