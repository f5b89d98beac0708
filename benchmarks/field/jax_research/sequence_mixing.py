import functools
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


# ===== attention ============================================================


def _probs(q, k, mask, scale, softcap):
    s = jnp.einsum("bthd,bshd->bhts", q, k) * scale
    if softcap is not None:
        th = jnp.tanh(s / softcap)
        s = softcap * th
    else:
        th = None
    if mask is not None:
        s = jnp.where(mask, s, -jnp.inf)
    m = jnp.max(s, axis=-1, keepdims=True)
    m = jnp.where(jnp.isfinite(m), m, 0.0)
    e = jnp.exp(s - m)
    z = jnp.sum(e, axis=-1, keepdims=True)
    return e / jnp.where(z > 0, z, 1.0), th


def _scale_of(q, scale):
    return q.shape[-1] ** -0.5 if scale is None else scale


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def grouped_query_attention(
    q: "b t h d", k: "b s kv d", v: "b s kv d", mask: "b #h t s" = None, scale=None, softcap=None
) -> "b t h d":
    """Attention in which ``h // kv`` consecutive query heads share a key head.

    ``mask`` is boolean (True = attend) and broadcasts over heads; a query that
    may attend to nothing yields zeros. ``softcap`` bounds the scores by
    ``softcap * tanh(scores / softcap)``.
    """
    return _gqa_fwd(q, k, v, mask, scale, softcap)[0]


def _gqa_fwd(q, k, v, mask, scale, softcap):
    group = q.shape[2] // k.shape[2]
    kr = jnp.repeat(k, group, axis=2)
    vr = jnp.repeat(v, group, axis=2)
    p, th = _probs(q, kr, mask, _scale_of(q, scale), softcap)
    out = jnp.einsum("bhts,bshd->bthd", p, vr)
    return out, (q, k, v, p, th)


def _gqa_bwd(scale, softcap, res, g):
    q, k, v, p, th = res
    b, s, kv, d = k.shape
    group = q.shape[2] // kv
    kr = jnp.repeat(k, group, axis=2)
    vr = jnp.repeat(v, group, axis=2)
    dv = jnp.einsum("bhts,bthd->bshd", p, g)
    dp = jnp.einsum("bthd,bshd->bhts", g, vr)
    ds = p * (dp - jnp.sum(p * dp, axis=-1, keepdims=True))
    if softcap is not None:
        ds = ds * (1.0 - th * th)
    ds = ds * _scale_of(q, scale)
    dq = jnp.einsum("bhts,bshd->bthd", ds, kr)
    dk = jnp.einsum("bhts,bthd->bshd", ds, q)
    dk = dk.reshape(b, s, group, kv, d).sum(axis=2)
    dv = dv.reshape(b, s, group, kv, v.shape[-1]).sum(axis=2)
    return dq, dk, dv, None


grouped_query_attention.defvjp(_gqa_fwd, _gqa_bwd)


def _key_blocks(x, block):
    n = x.shape[-2]
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, -n % block), (0, 0)])
    x = x.reshape(x.shape[:-2] + (-1, block, x.shape[-1]))
    return jnp.moveaxis(x, -3, 0)


def _allowed(start, block, tq, tk, causal):
    cols = start + jnp.arange(block)
    ok = jnp.broadcast_to(cols < tk, (tq, block))
    if causal:
        ok = ok & (cols[None, :] <= jnp.arange(tq)[:, None] + (tk - tq))
    return ok


def _check_lengths(q, k, causal):
    if causal and q.shape[-2] > k.shape[-2]:
        raise ValueError("causal attention needs at least as many keys as queries")


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def blockwise_attention(q, k, v, causal=False, block_size=128, scale=None):
    """Memory-efficient attention over key blocks.

    Args:
      q: ``[..., tq, d]``.
      k: ``[..., tk, d]``.
      v: ``[..., tk, dv]``.
      causal: query ``i`` sees keys up to ``i + tk - tq``.
      block_size: keys per block.
      scale: factor on the scores, ``d ** -0.5`` if None.

    Returns:
      ``(out, lse)`` with ``lse`` the log-sum-exp of each query's scores, which
      lets partial results over key shards be merged.
    """
    return _blockwise_fwd(q, k, v, causal, block_size, scale)[0]


def _blockwise_fwd(q, k, v, causal, block_size, scale):
    _check_lengths(q, k, causal)
    sc = _scale_of(q, scale)
    tq, tk = q.shape[-2], k.shape[-2]
    kb, vb = _key_blocks(k, block_size), _key_blocks(v, block_size)
    starts = jnp.arange(kb.shape[0]) * block_size
    lead = q.shape[:-1]

    def body(carry, xs):
        m, l, acc = carry
        kj, vj, start = xs
        s = jnp.einsum("...td,...sd->...ts", q, kj) * sc
        s = jnp.where(_allowed(start, block_size, tq, tk, causal), s, -jnp.inf)
        m_new = jnp.maximum(m, jnp.max(s, axis=-1))
        e = jnp.exp(s - m_new[..., None])
        fade = jnp.exp(m - m_new)
        l = l * fade + jnp.sum(e, axis=-1)
        acc = acc * fade[..., None] + jnp.einsum("...ts,...sd->...td", e, vj)
        return (m_new, l, acc), None

    init = (
        jnp.full(lead, -jnp.inf, q.dtype),
        jnp.zeros(lead, q.dtype),
        jnp.zeros(lead + (v.shape[-1],), q.dtype),
    )
    (m, l, acc), _ = lax.scan(body, init, (kb, vb, starts))
    out = acc / l[..., None]
    lse = m + jnp.log(l)
    return (out, lse), (q, k, v, out, lse)


def _blockwise_bwd(causal, block_size, scale, res, cts):
    q, k, v, out, lse = res
    g, g_lse = cts
    sc = _scale_of(q, scale)
    tq, tk = q.shape[-2], k.shape[-2]
    kb, vb = _key_blocks(k, block_size), _key_blocks(v, block_size)
    starts = jnp.arange(kb.shape[0]) * block_size
    shift = g_lse - jnp.sum(g * out, axis=-1)

    def body(dq, xs):
        kj, vj, start = xs
        s = jnp.einsum("...td,...sd->...ts", q, kj) * sc
        ok = _allowed(start, block_size, tq, tk, causal)
        p = jnp.where(ok, jnp.exp(jnp.where(ok, s, -jnp.inf) - lse[..., None]), 0.0)
        dvj = jnp.einsum("...ts,...td->...sd", p, g)
        dp = jnp.einsum("...td,...sd->...ts", g, vj)
        ds = p * (dp + shift[..., None]) * sc
        dkj = jnp.einsum("...ts,...td->...sd", ds, q)
        return dq + jnp.einsum("...ts,...sd->...td", ds, kj), (dkj, dvj)

    dq, (dk, dv) = lax.scan(body, jnp.zeros_like(q), (kb, vb, starts))

    def join(x):
        x = jnp.moveaxis(x, 0, -3)
        return x.reshape(x.shape[:-3] + (-1, x.shape[-1]))[..., :tk, :]

    return dq, join(dk), join(dv)


blockwise_attention.defvjp(_blockwise_fwd, _blockwise_bwd)


# ===== recurrences ==========================================================


def _compose(left, right):
    al, bl = left
    ar, br = right
    return ar * al, ar * bl + br


def _scan_states(a, b, h0):
    if h0 is not None:
        b = b.at[0].add(a[0] * h0)
    return lax.associative_scan(_compose, (a, b), axis=0)[1]


@jax.custom_vjp
def linear_recurrence(a, b, h0=None):
    return _scan_states(a, b, h0)


def _linrec_fwd(a, b, h0):
    h = _scan_states(a, b, h0)
    return h, (a, h, h0)


def _linrec_bwd(res, g):
    a, h, h0 = res
    a_next = jnp.concatenate([a[1:], jnp.ones_like(a[:1])], axis=0)
    lam = lax.associative_scan(_compose, (a_next[::-1], g[::-1]), axis=0)[1][::-1]
    h_prev = jnp.concatenate([jnp.zeros_like(h[:1]), h[:-1]], axis=0)
    da = lam * h_prev
    dh0 = None if h0 is None else a[0] * lam[0]
    return da, lam, dh0


linear_recurrence.defvjp(_linrec_fwd, _linrec_bwd)


class SSMInputs(NamedTuple):
    """Per-token inputs of the selective scan: ``u, delta`` [L, d], ``B, C`` [L, n]."""

    u: jax.Array
    delta: jax.Array
    B: jax.Array
    C: jax.Array


def _discretise(inputs, A):
    decay = jnp.exp(inputs.delta[..., None] * A)
    drive = (inputs.delta * inputs.u)[..., None] * inputs.B[:, None, :]
    return decay, drive


@jax.custom_vjp
def selective_scan(inputs: SSMInputs, A, D):
    """Diagonal state-space layer with input-dependent step sizes.

    ``h[t] = exp(delta[t] A) h[t-1] + delta[t] B[t] u[t]``,
    ``y[t] = <C[t], h[t]> + D u[t]`` with ``A`` of shape [d, n] and ``D`` [d].
    """
    return _selective_scan_fwd(inputs, A, D)[0]


def _selective_scan_fwd(inputs, A, D):
    decay, drive = _discretise(inputs, A)
    h = lax.associative_scan(_compose, (decay, drive), axis=0)[1]
    y = jnp.einsum("tdn,tn->td", h, inputs.C) + D * inputs.u
    return y, (inputs, A, D, h)


def _selective_scan_bwd(res, gy):
    inputs, A, D, h = res
    u, delta, B, C = inputs
    decay, _ = _discretise(inputs, A)
    gh = gy[..., None] * C[:, None, :]

    def step(carry, xs):
        g, dec = xs
        lam = g + carry
        return dec * lam, lam

    _, lam = lax.scan(step, jnp.zeros_like(h[0]), (gh, decay), reverse=True)
    dlog = lam * h * decay
    lam_b = jnp.einsum("tdn,tn->td", lam, B)
    ddelta = jnp.einsum("tdn,dn->td", dlog, A) + lam_b * u
    dA = jnp.einsum("tdn,td->dn", dlog, delta)
    du = lam_b * delta + D * gy
    dB = jnp.einsum("tdn,td->tn", lam, delta * u)
    dC = jnp.einsum("tdn,td->tn", h, gy)
    dD = jnp.sum(gy * u, axis=0)
    return SSMInputs(du, ddelta, dB, dC), dA, dD


selective_scan.defvjp(_selective_scan_fwd, _selective_scan_bwd)


# ===== spiking cells ========================================================


def make_surrogate_spike(kind: str = "fast_sigmoid", slope: float = 25.0) -> Callable:
    """Heaviside spike whose derivative is replaced by a surrogate.

    The forward value is ``1`` where ``v > 0`` and ``0`` elsewhere. In place of
    its derivative, tangents are multiplied by

    * ``"fast_sigmoid"``: ``1 / (1 + slope |v|)^2``
    * ``"triangle"``: ``max(0, 1 - slope |v|)``
    * ``"atan"``: ``1 / (1 + (slope v)^2)``
    """
    surrogates = {
        "fast_sigmoid": lambda v: 1.0 / jnp.square(1.0 + slope * jnp.abs(v)),
        "triangle": lambda v: jnp.maximum(0.0, 1.0 - slope * jnp.abs(v)),
        "atan": lambda v: 1.0 / (1.0 + jnp.square(slope * v)),
    }
    surrogate = surrogates[kind]

    @jax.custom_jvp
    def spike(v):
        return (v > 0).astype(v.dtype)

    @spike.defjvp
    def spike_jvp(primals, tangents):
        (v,), (dv,) = primals, tangents
        return spike(v), surrogate(v) * dv

    return spike


def lif_layer(currents, *, leak=0.9, threshold=1.0, spike=None):
    """Run leaky integrate-and-fire neurons over ``currents`` [time, ...]."""
    spike = make_surrogate_spike() if spike is None else spike

    def step(v, i):
        v = leak * v + i
        s = spike(v - threshold)
        return v - s * threshold, s

    return lax.scan(step, jnp.zeros_like(currents[0]), currents)[1]
