"""Token mixers that never form a query-key map."""
from functools import partial

import jax
import jax.numpy as jnp


# ---------------------------------------------------------------- AFT-full

def _aft_parts(k, w, v, keep, causal):
    logit = k[:, None, :, :] + w[None, :, :, None]               # B T S D
    t, s = w.shape
    ok = keep[:, None, :]
    if causal:
        ok = ok & (jnp.arange(s)[None, :] <= jnp.arange(t)[:, None])[None]
    ok = ok[..., None]
    top = jnp.max(jnp.where(ok, logit, -jnp.inf), axis=2, keepdims=True)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    e = jnp.where(ok, jnp.exp(jnp.where(ok, logit - top, 0.0)), 0.0)
    z = e.sum(2, keepdims=True)
    p = e / jnp.where(z > 0, z, 1.0)
    return p, jnp.einsum("btsd,bsd->btd", p, v)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def aft_mix(q, k, v, w, keep, causal=False):
    """Attention-free transformer layer (full variant).

    ``out[t] = sigmoid(q[t]) * sum_s exp(k[s] + w[t, s]) v[s] / sum_s exp(k[s] + w[t, s])``

    Args:
      q: ``(batch, t, dim)``;  k, v: ``(batch, s, dim)``.
      w: learned pairwise position bias ``(t, s)``, shared by batch and channels.
      keep: boolean ``(batch, s)``, False at padding.
      causal: restrict to ``s <= t``.

    Rows which see no token at all give zeros.
    """
    _, ctx = _aft_parts(k, w, v, keep, causal)
    return jax.nn.sigmoid(q) * ctx


def _aft_fwd(q, k, v, w, keep, causal):
    p, ctx = _aft_parts(k, w, v, keep, causal)
    gate = jax.nn.sigmoid(q)
    return gate * ctx, (gate, v, p, ctx)


def _aft_bwd(causal, res, g):
    gate, v, p, ctx = res
    d_ctx = g * gate
    d_logit = p * d_ctx[:, :, None] * (v[:, None] - ctx[:, :, None])
    return (d_ctx * ctx * (1.0 - gate), d_logit.sum(1),
            jnp.einsum("btsd,btd->bsd", p, d_ctx), d_logit.sum((0, 3)), None)


aft_mix.defvjp(_aft_fwd, _aft_bwd)


# ------------------------------------------------------ external attention

EPS = 1e-9


def _slot_attention_map(x, keys, token_mask, double_norm):
    logits = jnp.einsum("bnd,sd->bns", x, keys)
    logits = jnp.where(token_mask[..., None], logits, -1e9)
    soft = jax.nn.softmax(logits, axis=1)
    soft = jnp.where(token_mask[..., None], soft, 0.0)
    if double_norm:
        total = EPS + soft.sum(-1, keepdims=True)
    else:
        total = jnp.ones_like(soft[..., :1])
    return soft, total


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def external_memory_attend(x, keys, values, token_mask, double_norm=True):
    """External attention: x (B, N, D), memories (S, D) and (S, E), mask (B, N); softmax over tokens, L1 over slots."""
    soft, total = _slot_attention_map(x, keys, token_mask, double_norm)
    return (soft / total) @ values


def _ext_fwd(x, keys, values, token_mask, double_norm):
    soft, total = _slot_attention_map(x, keys, token_mask, double_norm)
    attn = soft / total
    return attn @ values, (x, keys, values, soft, total, attn)


def _ext_bwd(double_norm, res, g):
    x, keys, values, soft, total, attn = res
    d_values = jnp.einsum("bns,bne->se", attn, g)
    d_attn = g @ values.T
    d_soft = (d_attn - (d_attn * attn).sum(-1, keepdims=True)) / total
    d_logits = soft * (d_soft - (d_soft * soft).sum(1, keepdims=True))
    d_x = d_logits @ keys
    d_keys = jnp.einsum("bns,bnd->sd", d_logits, x)
    return d_x, d_keys, d_values, None


external_memory_attend.defvjp(_ext_fwd, _ext_bwd)


# ------------------------------------------------------------ lambda layer

@jax.custom_vjp
def content_lambda(q, k, v, pos):
    return _lambda_fwd(q, k, v, pos)[0]


def _lambda_fwd(q, k, v, pos):
    # q: b h n k   k: b m k   v: b m v   pos: n m k
    kbar = jax.nn.softmax(k, axis=1)
    lam_c = jnp.einsum("bmk,bmv->bkv", kbar, v)
    lam_p = jnp.einsum("nmk,bmv->bnkv", pos, v)
    lam = lam_c[:, None] + lam_p
    return jnp.einsum("bhnk,bnkv->bhnv", q, lam), (q, kbar, v, pos, lam)


def _lambda_bwd(res, g):
    q, kbar, v, pos, lam = res
    dq = jnp.einsum("bhnv,bnkv->bhnk", g, lam)
    d_lam_c = jnp.einsum("bhnk,bhnv->bhkv", q, g).mean(axis=1)
    d_lam_p = jnp.einsum("bhnk,bhnv->bnkv", q, g)
    d_kbar = jnp.einsum("bkv,bmv->bmk", d_lam_c, v)
    dk = kbar * (d_kbar - (kbar * d_kbar).sum(1, keepdims=True))
    dv = jnp.einsum("bmk,bkv->bmv", kbar, d_lam_c) + jnp.einsum("nmk,bnkv->bmv", pos, d_lam_p)
    dpos = jnp.einsum("bnkv,bmv->nmk", d_lam_p, v)
    return dq, dk, dv, dpos


content_lambda.defvjp(_lambda_fwd, _lambda_bwd)
