import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp


def _visible(t_len, s_len, causal, window):
    q_pos = jnp.arange(t_len)[:, None] + (s_len - t_len)
    k_pos = jnp.arange(s_len)[None, :]
    ok = jnp.ones((t_len, s_len), dtype=bool)
    if causal:
        ok &= k_pos <= q_pos
    if window is not None:
        ok &= q_pos - k_pos < window
    return ok


def _attend(q, k, v, scale, softcap, causal, window):
    s = jnp.einsum("bhtd,bhsd->bhts", q, k) * scale
    if softcap is not None:
        s = softcap * jnp.tanh(s / softcap)
    s = jnp.where(_visible(q.shape[2], k.shape[2], causal, window), s, -jnp.inf)
    lse = jax.nn.logsumexp(s, axis=-1, keepdims=True)
    out = jnp.einsum("bhts,bhsd->bhtd", jnp.exp(s - lse), v)
    return out, s, lse


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5, 6))
def _softcap_attention(q, k, v, scale, softcap, causal, window):
    return _attend(q, k, v, scale, softcap, causal, window)[0]


def _softcap_attention_fwd(q, k, v, scale, softcap, causal, window):
    out, s, lse = _attend(q, k, v, scale, softcap, causal, window)
    return out, (q, k, v, out, s, lse)


def _softcap_attention_bwd(scale, softcap, causal, window, res, g):
    q, k, v, out, s, lse = res
    p = jnp.exp(s - lse)
    dv = jnp.einsum("bhts,bhtd->bhsd", p, g)
    dp = jnp.einsum("bhtd,bhsd->bhts", g, v)
    delta = jnp.sum(g * out, axis=-1, keepdims=True)
    ds = p * (dp - delta)
    if softcap is not None:
        ds = ds * (1.0 - jnp.square(jnp.tanh(s / softcap)))
    ds = ds * scale
    dq = jnp.einsum("bhts,bhsd->bhtd", ds, k)
    dk = jnp.einsum("bhts,bhtd->bhsd", ds, q)
    return dq, dk, dv


_softcap_attention.defvjp(_softcap_attention_fwd, _softcap_attention_bwd)


def softcap_attention(q, k, v, *, scale=None, softcap=None, causal=True, window=None):
    """Multi-head attention with logit soft-capping and an optional local window.

    Parameters
    ----------
    q : array, shape (batch, heads, t, d)
    k, v : array, shape (batch, heads, s, d)
        When ``s > t`` the queries are the last ``t`` positions.
    scale : float, optional
        Multiplies the logits; ``1 / sqrt(d)`` when omitted.
    softcap : float, optional
        If given, logits pass through ``softcap * tanh(logits / softcap)``.
    causal : bool
    window : int, optional
        Number of most recent positions that a query sees, itself included.
    """
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[-1])
    return _softcap_attention(q, k, v, scale, softcap, causal, window)


# -- fast weight memory -------------------------------------------------------


def _outer(a, b):
    return a[..., :, None] * b[..., None, :]


def _read(state, x):
    return jnp.einsum("...kv,...k->...v", state, x)


def _delta_forward(q, k, v, beta, state):
    def step(s, xs):
        q_t, k_t, v_t, b_t = xs
        err = v_t - _read(s, k_t)
        new = s + b_t[..., None, None] * _outer(k_t, err)
        return new, (_read(new, q_t), s)

    last, (out, previous) = jax.lax.scan(step, state, (q, k, v, beta))
    return out, last, previous


@jax.custom_vjp
def delta_rule_scan(q: "f[T ... K]", k: "f[T ... K]", v: "f[T ... V]", beta: "f[T ...]", state: "f[... K V]"):
    """Delta-rule fast-weight memory; time leads, heads and batch sit in ``...``.

    Returns the outputs ``f[T ... V]`` and the final state, which may be handed to
    the next chunk.
    """
    out, last, _ = _delta_forward(q, k, v, beta, state)
    return out, last


def _delta_fwd(q, k, v, beta, state):
    out, last, previous = _delta_forward(q, k, v, beta, state)
    return (out, last), (q, k, v, beta, previous)


def _delta_bwd(res, cts):
    q, k, v, beta, previous = res
    d_out, d_last = cts

    def step(ds, xs):
        q_t, k_t, v_t, b_t, s, do_t = xs
        err = v_t - _read(s, k_t)
        new = s + b_t[..., None, None] * _outer(k_t, err)
        dq_t = jnp.einsum("...kv,...v->...k", new, do_t)
        ds = ds + _outer(q_t, do_t)
        ds_err = jnp.einsum("...kv,...v->...k", ds, err)
        db_t = jnp.sum(k_t * ds_err, axis=-1)
        d_err = b_t[..., None] * _read(ds, k_t)
        dk_t = b_t[..., None] * ds_err - jnp.einsum("...kv,...v->...k", s, d_err)
        ds = ds - _outer(k_t, d_err)
        return ds, (dq_t, dk_t, d_err, db_t)

    d_state, (dq, dk, dv, db) = jax.lax.scan(step, d_last, (q, k, v, beta, previous, d_out), reverse=True)
    return dq, dk, dv, db, d_state


delta_rule_scan.defvjp(_delta_fwd, _delta_bwd)


# -- short convolution --------------------------------------------------------


def _tap(padded, offset, length):
    return jax.lax.dynamic_slice_in_dim(padded, offset, length, axis=1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _depthwise(x, weight, dilation):
    width, length = weight.shape[0], x.shape[1]
    padded = jnp.pad(x, ((0, 0), ((width - 1) * dilation, 0), (0, 0)))
    return sum(_tap(padded, j * dilation, length) * weight[j] for j in range(width))


def _depthwise_fwd(x, weight, dilation):
    return _depthwise(x, weight, dilation), (x, weight)


def _depthwise_bwd(dilation, res, g):
    x, weight = res
    width, length = weight.shape[0], x.shape[1]
    reach = (width - 1) * dilation
    future = jnp.pad(g, ((0, 0), (0, reach), (0, 0)))
    dx = sum(_tap(future, reach - j * dilation, length) * weight[j] for j in range(width))
    past = jnp.pad(x, ((0, 0), (width - 1, 0), (0, 0)))
    dw = jnp.stack([jnp.einsum("btc,btc->c", _tap(past, j, length), g) for j in range(width)])
    return dx, dw


_depthwise.defvjp(_depthwise_fwd, _depthwise_bwd)


def causal_depthwise_conv(x, weight, bias=None, *, dilation=1):
    """Causal depthwise convolution, x: (batch, time, channels), weight: (width, channels).

    The last tap of ``weight`` multiplies the present step; taps lie ``dilation`` apart.
    """
    y = _depthwise(x, weight, dilation)
    return y if bias is None else y + bias


class ShortConv(eqx.Module):
    weight: jax.Array
    bias: jax.Array
    dilation: int = eqx.field(static=True, default=1)

    def __call__(self, x):
        return jax.nn.silu(causal_depthwise_conv(x, self.weight, self.bias, dilation=self.dilation))
