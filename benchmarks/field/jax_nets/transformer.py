"""Transformer building blocks with hand-written backward passes.

Everything here is functional; the thin ``flax.linen`` wrappers at the bottom are what the
decoder stack in ``models/`` uses.  Memory was the motivation: no rule keeps the [T, T] score
matrix unless it has to.
"""
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

NEG = -1e30


# --------------------------------------------------------------------------- grouped-query

def _visible(tq, tk, causal, key_mask):
    """Boolean [B or 1, 1, 1, Tq, Tk] table of allowed (query, key) pairs."""
    ok = jnp.ones((1, 1, 1, tq, tk), dtype=bool)
    if causal:
        rows = jnp.arange(tq)[:, None] + (tk - tq)
        ok = ok & (jnp.arange(tk)[None, :] <= rows)
    if key_mask is not None:
        ok = ok & key_mask[:, None, None, None, :]
    return ok


def _gqa_probs(q, k, ok):
    b, tq, h, d = q.shape
    g = k.shape[2]
    qg = q.reshape(b, tq, g, h // g, d)
    s = jnp.einsum("btgrd,bsgd->bgrts", qg, k) / jnp.sqrt(d).astype(q.dtype)
    return jax.nn.softmax(jnp.where(ok, s, NEG), axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def grouped_query_attention(q, k, v, key_mask=None, causal=False):
    """Grouped-query attention.

    Args:
        q: queries, shape (batch, q_len, num_heads, head_dim).
        k: keys, shape (batch, kv_len, num_kv_heads, head_dim); num_heads must be a multiple
            of num_kv_heads.  Consecutive query heads share a KV head.
        v: values, same shape as ``k``.
        key_mask: optional bool (batch, kv_len), True where the key may be attended to.
        causal: aligned to the end, so that the last query sees every key.

    Returns:
        (batch, q_len, num_heads, head_dim)
    """
    ok = _visible(q.shape[1], k.shape[1], causal, key_mask)
    p = _gqa_probs(q, k, ok)
    return jnp.einsum("bgrts,bsgd->btgrd", p, v).reshape(q.shape)


def _gqa_fwd(q, k, v, key_mask, causal):
    return grouped_query_attention(q, k, v, key_mask, causal), (q, k, v, key_mask)


def _gqa_bwd(causal, res, dout):
    q, k, v, key_mask = res
    b, tq, h, d = q.shape
    g = k.shape[2]
    ok = _visible(tq, k.shape[1], causal, key_mask)
    p = _gqa_probs(q, k, ok)
    do = dout.reshape(b, tq, g, h // g, d)
    dv = jnp.einsum("bgrts,btgrd->bsgd", p, do)
    dp = jnp.einsum("btgrd,bsgd->bgrts", do, v)
    ds = p * (dp - jnp.sum(p * dp, axis=-1, keepdims=True))
    ds = jnp.where(ok, ds, 0.0) / jnp.sqrt(d).astype(q.dtype)
    dq = jnp.einsum("bgrts,bsgd->btgrd", ds, k).reshape(q.shape)
    dk = jnp.einsum("bgrts,btgrd->bsgd", ds, q.reshape(b, tq, g, h // g, d))
    return dq, dk, dv, None


grouped_query_attention.defvjp(_gqa_fwd, _gqa_bwd)


# --------------------------------------------------------------------------- rotary

def _rotate(x, cos, sin, interleaved=False):
    if interleaved:
        x1, x2 = x[..., 0::2], x[..., 1::2]
        out = jnp.stack([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)
        return out.reshape(x.shape)
    x1, x2 = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def _rope_tables(positions, dim, base, dtype):
    freq = base ** (-jnp.arange(0, dim, 2) / dim)
    ang = positions[..., None, None] * freq            # [B, T, 1, D/2]
    return jnp.cos(ang).astype(dtype), jnp.sin(ang).astype(dtype)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def apply_rotary(x, positions, base=10000.0, interleaved=False):
    """Rotary position embedding.

    Parameters
    ----------
    x : array, (batch, seq, heads, head_dim)
        head_dim must be even.
    positions : int array, (batch, seq)
    base : float
    interleaved : bool
        True for GPT-J style pairs (0,1), (2,3), ...; False for GPT-NeoX halves.
    """
    cos, sin = _rope_tables(positions, x.shape[-1], base, x.dtype)
    return _rotate(x, cos, sin, interleaved)


def _rotary_fwd(x, positions, base, interleaved):
    cos, sin = _rope_tables(positions, x.shape[-1], base, x.dtype)
    return _rotate(x, cos, sin, interleaved), (cos, sin)


def _rotary_bwd(base, interleaved, res, g):
    # a rotation is orthogonal: pull back with the opposite angle
    cos, sin = res
    return _rotate(g, cos, -sin), None


apply_rotary.defvjp(_rotary_fwd, _rotary_bwd)


# --------------------------------------------------------------------------- sliding window

@partial(jax.custom_vjp, nondiff_argnums=(3,))
def windowed_attention(q, k, v, window):
    return _win_fwd(q, k, v, window)[0]


def _win_fwd(q, k, v, window):
    # q, k, v: [B, H, T, D]; token i sees the `window` tokens i-window+1 .. i
    t = q.shape[2]
    dist = jnp.arange(t)[:, None] - jnp.arange(t)[None, :]
    s = jnp.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
    s = jnp.where((dist >= 0) & (dist < window), s, NEG)
    lse = jax.nn.logsumexp(s, axis=-1)
    out = jnp.einsum("bhij,bhjd->bhid", jnp.exp(s - lse[..., None]), v)
    return out, (q, k, v, out, lse)


def _win_bwd(window, res, g):
    q, k, v, out, lse = res
    t = q.shape[2]
    scale = q.shape[-1] ** -0.5
    dist = jnp.arange(t)[:, None] - jnp.arange(t)[None, :]
    s = jnp.einsum("bhid,bhjd->bhij", q, k) * scale
    s = jnp.where((dist >= 0) & (dist <= window), s, NEG)
    p = jnp.exp(s - lse[..., None])
    delta = jnp.sum(g * out, axis=-1, keepdims=True)
    dv = jnp.einsum("bhij,bhid->bhjd", p, g)
    ds = p * (jnp.einsum("bhid,bhjd->bhij", g, v) - delta) * scale
    return (jnp.einsum("bhij,bhjd->bhid", ds, k),
            jnp.einsum("bhij,bhid->bhjd", ds, q),
            dv)


windowed_attention.defvjp(_win_fwd, _win_bwd)


# --------------------------------------------------------------------------- with statistics

@partial(jax.custom_vjp, nondiff_argnums=(3,))
def attention_with_lse(q, k, v, scale=None):
    """Attention that also hands back the log-sum-exp of the scores, for ring attention.

    q: (..., Tq, D), k: (..., Tk, D), v: (..., Tk, Dv) with equal leading dimensions.
    Returns out (..., Tq, Dv) and lse (..., Tq).
    """
    return _lse_fwd(q, k, v, scale)[0]


def _lse_fwd(q, k, v, scale):
    c = q.shape[-1] ** -0.5 if scale is None else scale
    s = c * (q @ jnp.swapaxes(k, -1, -2))
    lse = jax.nn.logsumexp(s, axis=-1)
    out = jnp.exp(s - lse[..., None]) @ v
    return (out, lse), (q, k, v, out, lse)


def _lse_bwd(scale, res, ct):
    q, k, v, out, lse = res
    dout, dlse = ct
    c = q.shape[-1] ** -0.5 if scale is None else scale
    p = jnp.exp(c * (q @ jnp.swapaxes(k, -1, -2)) - lse[..., None])
    dv = jnp.swapaxes(p, -1, -2) @ dout
    dp = dout @ jnp.swapaxes(v, -1, -2)
    row = jnp.sum(dout * out, axis=-1) - dlse
    ds = c * p * (dp - row[..., None])
    return ds @ k, jnp.swapaxes(ds, -1, -2) @ q, dv


attention_with_lse.defvjp(_lse_fwd, _lse_bwd)


def merge_partial(out_a, lse_a, out_b, lse_b):
    """Merge two partial attentions over disjoint key blocks."""
    lse = jnp.logaddexp(lse_a, lse_b)
    wa, wb = jnp.exp(lse_a - lse), jnp.exp(lse_b - lse)
    return wa[..., None] * out_a + wb[..., None] * out_b, lse


# --------------------------------------------------------------------------- ALiBi

def _distance(tq, tk):
    return jnp.abs(jnp.arange(tq)[:, None] - jnp.arange(tk)[None, :])


@jax.custom_vjp
def alibi_attention(q: "b h t d", k: "b h s d", v: "b h s d", slopes: "h"):
    """Bidirectional attention with *learned* ALiBi slopes, one per head."""
    return _alibi_fwd(q, k, v, slopes)[0]


def _alibi_fwd(q, k, v, slopes):
    dist = _distance(q.shape[2], k.shape[2]).astype(q.dtype)
    s = jnp.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5
    s = s - slopes[None, :, None, None] * dist
    p = jax.nn.softmax(s, axis=-1)
    return jnp.einsum("bhts,bhsd->bhtd", p, v), (q, k, v, p, dist)


def _alibi_bwd(res, g):
    q, k, v, p, dist = res
    dv = jnp.einsum("bhts,bhtd->bhsd", p, g)
    dp = jnp.einsum("bhtd,bhsd->bhts", g, v)
    ds = p * (dp - jnp.sum(dp * p, axis=-1, keepdims=True))
    dslopes = -jnp.mean(jnp.sum(ds * dist, axis=(2, 3)), axis=0)
    ds = ds * q.shape[-1] ** -0.5
    return (jnp.einsum("bhts,bhsd->bhtd", ds, k),
            jnp.einsum("bhts,bhtd->bhsd", ds, q), dv, dslopes)


alibi_attention.defvjp(_alibi_fwd, _alibi_bwd)


# --------------------------------------------------------------------------- soft cap

@jax.custom_jvp
def softcap(scores, cap):
    """Gemma-2 style logit soft-capping, ``cap * tanh(scores / cap)``.

    ``cap`` may be a number or anything that broadcasts against ``scores``, e.g. one learned
    cap per head of shape (H, 1, 1).
    """
    return cap * jnp.tanh(scores / cap)


@softcap.defjvp
def _softcap_jvp(primals, tangents):
    scores, cap = primals
    ds, dcap = tangents
    u = scores / cap
    th = jnp.tanh(u)
    sech2 = 1.0 - th * th
    return cap * th, sech2 * ds + (th - u * sech2) * dcap


# --------------------------------------------------------------------------- MoE

@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def route_topk(logits, k=2, renormalize=False):
    """Top-k router.

    :param logits: router scores, (tokens, experts)
    :param k: experts per token
    :param renormalize: make the kept weights of a token sum to one
    :returns: ``(weights, expert_ids)``, both (tokens, k)
    """
    return _route_fwd(logits, k, renormalize)[0]


def _route_fwd(logits, k, renormalize):
    probs = jax.nn.softmax(logits, axis=-1)
    w, ids = jax.lax.top_k(probs, k)
    total = jnp.sum(w, axis=-1, keepdims=True)
    out = w / total if renormalize else w
    return (out, ids), (probs, ids, total)


def _route_bwd(k, renormalize, res, ct):
    probs, ids, total = res
    gw, _ = ct
    if renormalize:
        gw = gw / total
    rows = jnp.arange(probs.shape[0])[:, None]
    gp = jnp.zeros_like(probs).at[rows, ids].add(gw)
    return (probs * (gp - jnp.sum(probs * gp, axis=-1, keepdims=True)),)


route_topk.defvjp(_route_fwd, _route_bwd)


@jax.custom_vjp
def expert_linear(x, kernel, bias, expert_ids):
    # x [N, D], kernel [E, D, F], bias [E, F], expert_ids [N] -> [N, F]
    return jnp.einsum("nd,ndf->nf", x, kernel[expert_ids]) + bias[expert_ids]


def _expert_fwd(x, kernel, bias, expert_ids):
    return expert_linear(x, kernel, bias, expert_ids), (x, kernel, expert_ids)


def _expert_bwd(res, g):
    x, kernel, ids = res
    onehot = jax.nn.one_hot(ids, kernel.shape[0], dtype=g.dtype)
    dkernel = jnp.einsum("ne,nd,nf->edf", onehot, x, g)
    return jnp.einsum("nf,ndf->nd", g, kernel[ids]), dkernel, onehot.T @ g, None


expert_linear.defvjp(_expert_fwd, _expert_bwd)


# --------------------------------------------------------------------------- embedding

def embed_tokens(table, token_ids, padding_idx=0):
    """Look up ``table[token_ids]``; padding tokens come out as zeros."""
    keep = (token_ids != padding_idx)[..., None]

    @jax.custom_gradient
    def lookup(tab):
        def grad(g):
            rows = jnp.where(keep, g, 0)
            dtab = jnp.zeros_like(tab).at[token_ids].set(rows)
            return (dtab.at[padding_idx].set(0),)
        return jnp.where(keep, tab[token_ids], 0), grad

    return lookup(table)


# --------------------------------------------------------------------------- modules

class GroupedQuerySelfAttention(nn.Module):
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_base: float = 10000.0

    @nn.compact
    def __call__(self, x, key_mask=None):
        b, t, width = x.shape
        q = nn.DenseGeneral((self.num_heads, self.head_dim), use_bias=False, name="q")(x)
        k = nn.DenseGeneral((self.num_kv_heads, self.head_dim), use_bias=False, name="k")(x)
        v = nn.DenseGeneral((self.num_kv_heads, self.head_dim), use_bias=False, name="v")(x)
        pos = jnp.broadcast_to(jnp.arange(t), (b, t))
        q = apply_rotary(q, pos, self.rope_base, False)
        k = apply_rotary(k, pos, self.rope_base, False)
        o = grouped_query_attention(q, k, v, key_mask, True)
        return nn.DenseGeneral(width, axis=(-2, -1), use_bias=False, name="o")(o)


class MoEBlock(nn.Module):
    experts: int
    features: int
    k: int = 2

    @nn.compact
    def __call__(self, x):
        n, d = x.shape
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (self.experts, d, self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.experts, self.features))
        w, ids = route_topk(nn.Dense(self.experts, use_bias=False)(x), self.k, True)
        out = 0.0
        for j in range(self.k):
            out = out + w[:, j, None] * expert_linear(x, kernel, bias, ids[:, j])
        return out


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    x = jax.random.normal(key, (2, 6, 16))
    mod = GroupedQuerySelfAttention(num_heads=4, num_kv_heads=2, head_dim=8)
    params = mod.init(key, x)
    print(jax.tree_util.tree_map(jnp.shape, jax.grad(lambda p: mod.apply(p, x).sum())(params)))
