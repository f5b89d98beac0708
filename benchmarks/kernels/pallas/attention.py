"""Single-head causal attention in the flash style."""
import functools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

BQ = BK = 16
INTERPRET = jax.default_backend() != "gpu"


def _rows(ref, r, width):
    t, d = ref.shape
    c = jnp.arange(width)
    mask = (r < t)[:, None] & (c < d)[None, :]
    return plgpu.load(ref.at[r[:, None], c[None, :]], mask=mask, other=0.0)


def _store_rows(ref, r, val):
    t, d = ref.shape
    c = jnp.arange(val.shape[1])
    plgpu.store(ref.at[r[:, None], c[None, :]], val, mask=(r < t)[:, None] & (c < d)[None, :])


def _fwd_kernel(q_ref, k_ref, v_ref, o_ref, lse_ref, *, scale, width):
    i = pl.program_id(0)
    t = q_ref.shape[0]
    qi = i * BQ + jnp.arange(BQ)
    q = _rows(q_ref, qi, width)

    def step(j, carry):
        m, l, acc = carry
        kj = j * BK + jnp.arange(BK)
        s = scale * jnp.dot(q, _rows(k_ref, kj, width).T)
        s = jnp.where((qi[:, None] >= kj[None, :]) & (kj < t)[None, :], s, -jnp.inf)
        m2 = jnp.maximum(m, s.max(axis=1))
        p = jnp.exp(s - m2[:, None])
        fix = jnp.exp(m - m2)
        return m2, l * fix + p.sum(axis=1), acc * fix[:, None] + jnp.dot(p, _rows(v_ref, kj, width))

    init = (jnp.full((BQ,), -jnp.inf, q.dtype), jnp.zeros((BQ,), q.dtype), jnp.zeros((BQ, width), q.dtype))
    m, l, acc = lax.fori_loop(0, i + 1, step, init)
    _store_rows(o_ref, qi, acc / l[:, None])
    plgpu.store(lse_ref.at[qi], m + jnp.log(l), mask=qi < t)


def _dq_kernel(q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, dq_ref, *, scale, width):
    i = pl.program_id(0)
    t = q_ref.shape[0]
    qi = i * BQ + jnp.arange(BQ)
    q, do = _rows(q_ref, qi, width), _rows(do_ref, qi, width)
    lse = plgpu.load(lse_ref.at[qi], mask=qi < t, other=0.0)
    delta = plgpu.load(delta_ref.at[qi], mask=qi < t, other=0.0)

    def step(j, dq):
        kj = j * BK + jnp.arange(BK)
        k = _rows(k_ref, kj, width)
        p = jnp.exp(scale * jnp.dot(q, k.T) - lse[:, None])
        p = jnp.where(qi[:, None] >= kj[None, :], p, 0.0)
        dp = jnp.dot(do, _rows(v_ref, kj, width).T)
        ds = p * (dp - delta[:, None])
        return dq + scale * jnp.dot(ds, k)

    dq = lax.fori_loop(0, i + 1, step, jnp.zeros((BQ, width), q.dtype))
    _store_rows(dq_ref, qi, dq)


def _dkv_kernel(q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, dk_ref, dv_ref, *, scale, width):
    j = pl.program_id(0)
    t = q_ref.shape[0]
    kj = j * BK + jnp.arange(BK)
    kk, v = _rows(k_ref, kj, width), _rows(v_ref, kj, width)

    def step(i, carry):
        dk, dv = carry
        qi = i * BQ + jnp.arange(BQ)
        q, do = _rows(q_ref, qi, width), _rows(do_ref, qi, width)
        lse_i = plgpu.load(lse_ref.at[qi], mask=qi < t, other=0.0)
        delta_i = plgpu.load(delta_ref.at[qi], mask=qi < t, other=0.0)
        seen = (kj[:, None] <= qi[None, :]) & (qi < t)[None, :]
        pt = jnp.where(seen, jnp.exp(scale * jnp.dot(kk, q.T) - lse_i[None, :]), 0.0)
        dst = pt * (jnp.dot(v, do.T) - delta_i[None, :])
        return dk + jnp.dot(dst, q) * scale, dv + jnp.dot(pt, do)

    zero = jnp.zeros((BK, width), kk.dtype)
    dk, dv = lax.fori_loop(j, pl.cdiv(t, BQ), step, (zero, zero))
    _store_rows(dk_ref, kj, dk)
    _store_rows(dv_ref, kj, dv)


@jax.custom_vjp
def causal_attention(q, k, v):
    """softmax(q k^T / sqrt(d) + causal mask) v for q, k, v of one shape [t, d]."""
    return _attn_fwd(q, k, v)[0]


def _attn_fwd(q, k, v):
    t, d = q.shape
    kernel = functools.partial(_fwd_kernel, scale=1.0 / math.sqrt(d), width=pl.next_power_of_2(d))
    o, lse = pl.pallas_call(
        kernel,
        grid=(pl.cdiv(t, BQ),),
        out_shape=[jax.ShapeDtypeStruct(q.shape, q.dtype), jax.ShapeDtypeStruct((t,), q.dtype)],
        interpret=INTERPRET,
    )(q, k, v)
    return o, (q, k, v, o, lse)


def _attn_bwd(res, do):
    q, k, v, o, lse = res
    t, d = q.shape
    delta = jnp.sum(do * o, axis=-1)
    opts = dict(scale=1.0 / math.sqrt(d), width=pl.next_power_of_2(d))
    like = jax.ShapeDtypeStruct(q.shape, q.dtype)
    dq = pl.pallas_call(
        functools.partial(_dq_kernel, **opts), grid=(pl.cdiv(t, BQ),), out_shape=like, interpret=INTERPRET,
    )(q, k, v, do, lse, delta)
    dk, dv = pl.pallas_call(
        functools.partial(_dkv_kernel, **opts), grid=(pl.cdiv(t, BK),), out_shape=[like, like], interpret=INTERPRET,
    )(q, k, v, do, lse, delta)
    return dq, dk, dv


causal_attention.defvjp(_attn_fwd, _attn_bwd)
