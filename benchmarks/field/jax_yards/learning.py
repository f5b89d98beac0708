from functools import partial
from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp
import numpy as np


# --------------------------------------------------------------------------
# window attention
# --------------------------------------------------------------------------


def relative_index(window: int) -> np.ndarray:
    """Row of the bias table for each pair of tokens of a square window."""
    yy, xx = np.meshgrid(np.arange(window), np.arange(window), indexing="ij")
    yx = np.stack([yy.reshape(-1), xx.reshape(-1)], -1)
    rel = yx[:, None] - yx[None] + window - 1
    return rel[..., 0] * (2 * window - 1) + rel[..., 1]


def _window_probs(q, k, table, mask, window, scale):
    idx = relative_index(window)
    s = scale * jnp.einsum("whid,whjd->whij", q, k)
    s = s + jnp.moveaxis(table[idx], -1, 0)[None]
    if mask is not None:
        s = jnp.where(mask[:, None], s, jnp.finfo(s.dtype).min)
    return jax.nn.softmax(s, axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _window_attention(q, k, v, table, mask, window, scale):
    p = _window_probs(q, k, table, mask, window, scale)
    return jnp.einsum("whij,whjd->whid", p, v)


def _window_attention_fwd(q, k, v, table, mask, window, scale):
    p = _window_probs(q, k, table, mask, window, scale)
    return jnp.einsum("whij,whjd->whid", p, v), (q, k, v, table, p)


def _window_attention_bwd(window, scale, res, g):
    q, k, v, table, p = res
    dv = jnp.einsum("whij,whid->whjd", p, g)
    dp = jnp.einsum("whid,whjd->whij", g, v)
    ds = p * (dp - jnp.sum(dp * p, axis=-1, keepdims=True))
    dq = scale * jnp.einsum("whij,whjd->whid", ds, k)
    dk = scale * jnp.einsum("whij,whid->whjd", ds, q)
    per_pair = jnp.moveaxis(ds.sum(0), 0, -1)
    dtable = jnp.zeros_like(table).at[relative_index(window)].add(per_pair)
    return dq, dk, dv, dtable, None


_window_attention.defvjp(_window_attention_fwd, _window_attention_bwd)


def window_attention(q, k, v, bias_table, mask=None, *, window: int, scale: Optional[float] = None):
    """Attention inside square windows with a learned relative position bias.

    Args:
        q, k, v: "windows heads tokens dim", tokens = window * window.
        bias_table: "(2*window-1)**2 heads".
        mask: optional bool "windows tokens tokens", True where a query may look;
            a token always sees itself.
        window: side of the window.
        scale: factor of the scores, dim ** -0.5 by default.
    """
    if scale is None:
        scale = q.shape[-1] ** -0.5
    return _window_attention(q, k, v, bias_table, mask, window, scale)


# --------------------------------------------------------------------------
# activation
# --------------------------------------------------------------------------


class XIELUParams(NamedTuple):
    """Two scalars, taken before the softplus."""

    alpha_p: jax.Array
    alpha_n: jax.Array


def init_xielu(alpha_p: float = 0.8, alpha_n: float = 0.8, beta: float = 0.5) -> XIELUParams:
    inv = lambda a: jnp.log(jnp.expm1(jnp.asarray(a)))
    return XIELUParams(inv(alpha_p), inv(alpha_n - beta))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def xielu(params: XIELUParams, x, beta: float = 0.5):
    ap = jax.nn.softplus(params.alpha_p)
    an = beta + jax.nn.softplus(params.alpha_n)
    neg = jnp.minimum(x, 0)
    return jnp.where(x > 0, ap * x * x, an * (jnp.expm1(neg) - neg)) + beta * x


def _xielu_fwd(params, x, beta):
    return xielu(params, x, beta), (params, x)


def _xielu_bwd(beta, res, g):
    params, x = res
    ap = jax.nn.softplus(params.alpha_p)
    an = beta + jax.nn.softplus(params.alpha_n)
    pos, neg = jnp.maximum(x, 0), jnp.minimum(x, 0)
    em1 = jnp.expm1(neg)
    dx = g * (2 * ap * pos + an * em1 + beta)
    d_ap = jnp.sum(g * pos * pos) * jax.nn.sigmoid(params.alpha_p)
    d_an = jnp.sum(g * (em1 - neg)) * jax.nn.sigmoid(params.alpha_n)
    cast = lambda d, p: d.astype(jnp.result_type(p))
    return XIELUParams(cast(d_ap, params.alpha_p), cast(d_an, params.alpha_n)), dx.astype(x.dtype)


xielu.defvjp(_xielu_fwd, _xielu_bwd)


# --------------------------------------------------------------------------
# discrete bottleneck
# --------------------------------------------------------------------------


def _nearest_code(z, codebook):
    d = jnp.sum(codebook**2, -1) - 2 * z @ codebook.T
    return jnp.argmin(d, axis=-1)


@jax.custom_vjp
def vector_quantize_ste(z, codebook):
    """Replace vectors by their nearest codes, straight-through.

    The backward pass hands the gradient of the codes to ``z`` unchanged, as if
    the quantiser were the identity, and sends to each code of the ``codebook``
    the sum of the gradients of the vectors that chose it.

    Args:
        z: (..., dim).
        codebook: (codes, dim).

    Returns:
        Codes of the shape of ``z`` and their indices (...,).
    """
    idx = _nearest_code(z, codebook)
    return codebook[idx], idx


def _vector_quantize_fwd(z, codebook):
    idx = _nearest_code(z, codebook)
    return (codebook[idx], idx), (idx, codebook)


def _vector_quantize_bwd(res, cts):
    idx, codebook = res
    g, _ = cts
    return g, jnp.zeros_like(codebook).at[idx].add(g)


vector_quantize_ste.defvjp(_vector_quantize_fwd, _vector_quantize_bwd)


# --------------------------------------------------------------------------
# mixture density head
# --------------------------------------------------------------------------


def _reduce(x, reduction):
    if reduction == "mean":
        return x.mean()
    if reduction == "sum":
        return x.sum()
    return x


def _mdn_terms(params, y, bounds):
    log_scale = jnp.clip(params["log_scale"], *bounds)
    z = (y[..., None] - params["loc"]) * jnp.exp(-log_scale)
    log_pi = jax.nn.log_softmax(params["logits"], axis=-1)
    joint = log_pi - log_scale - 0.5 * z * z - 0.5 * np.log(2 * np.pi)
    nll = -jax.nn.logsumexp(joint, axis=-1)
    return nll, joint, log_pi, log_scale, z


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _mdn_nll(params, y, bounds):
    return _mdn_terms(params, y, bounds)[0]


def _mdn_nll_fwd(params, y, bounds):
    nll, joint, log_pi, log_scale, z = _mdn_terms(params, y, bounds)
    resp = jnp.exp(joint + nll[..., None])
    return nll, (resp, jnp.exp(log_pi), log_scale, z)


def _mdn_nll_bwd(bounds, res, g):
    resp, pi, log_scale, z = res
    g = g[..., None]
    d_loc = -g * resp * z * jnp.exp(-log_scale)
    d_params = {
        "logits": g * (pi - resp),
        "loc": d_loc,
        "log_scale": g * resp * (1.0 - z * z),
    }
    return d_params, -d_loc.sum(-1)


_mdn_nll.defvjp(_mdn_nll_fwd, _mdn_nll_bwd)


def mdn_nll(params: dict, y, *, log_scale_bounds=(-5.0, 3.0), reduction: str = "mean"):
    """Negative log likelihood of a mixture density network.

    Args:
        params: dict of "logits", "loc" and "log_scale", each (..., components).
            ``log_scale`` is clipped into ``log_scale_bounds``: a component
            outside of them keeps the scale of the bound.
        y: (...,) targets.
        reduction: "mean", "sum" or "none".
    """
    return _reduce(_mdn_nll(params, y, tuple(log_scale_bounds)), reduction)


# --------------------------------------------------------------------------
# returns
# --------------------------------------------------------------------------


def _returns_scan(rewards, discounts, values, lambda_):
    def step(acc, inputs):
        r, d, v = inputs
        acc = r + d * ((1.0 - lambda_) * v + lambda_ * acc)
        return acc, acc

    _, out = jax.lax.scan(step, values[-1], (rewards, discounts, values), reverse=True)
    return out


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def lambda_returns(rewards, discounts, values, lambda_=1.0):
    """TD(lambda) returns over the leading axis.

    ``G[t] = r[t] + d[t] * ((1 - lambda_) * v[t] + lambda_ * G[t + 1])``, where ``v[t]`` is the
    value of the state reached by step t and the last return bootstraps from ``v[-1]``.
    """
    return _returns_scan(rewards, discounts, values, lambda_)


def _lambda_returns_fwd(rewards, discounts, values, lambda_):
    out = _returns_scan(rewards, discounts, values, lambda_)
    return out, (discounts, values, out)


def _lambda_returns_bwd(lambda_, res, g):
    discounts, values, out = res

    def step(carry, inputs):
        gt, d = inputs
        a = gt + carry
        return lambda_ * d * a, a

    tail, adj = jax.lax.scan(step, jnp.zeros_like(g[0]), (g, discounts))
    following = jnp.concatenate([out[1:], values[-1:]], axis=0)
    d_values = ((1.0 - lambda_) * discounts * adj).at[-1].add(tail)
    return adj, adj * following, d_values


lambda_returns.defvjp(_lambda_returns_fwd, _lambda_returns_bwd)
