"""Causal attention in the flash style (no matrix of scores is kept) and rotary position embedding."""
import math

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def _attn_fwd(Q, K, V, O, LSE, T, D, scale, B: tl.constexpr, DP: tl.constexpr):
    start, head = tl.program_id(0) * B, tl.program_id(1)
    base = head * T * D
    rows = start + tl.arange(0, B)
    d = tl.arange(0, DP)
    qm = (rows[:, None] < T) & (d[None, :] < D)
    q = tl.load(Q + base + rows[:, None] * D + d[None, :], mask=qm, other=0.0)
    m = tl.full((B,), float("-inf"), Q.dtype.element_ty)
    l = tl.zeros((B,), Q.dtype.element_ty)
    acc = tl.zeros((B, DP), Q.dtype.element_ty)
    for j in range(0, start + B, B):
        cols = j + tl.arange(0, B)
        km = (cols[:, None] < T) & (d[None, :] < D)
        k = tl.load(K + base + cols[:, None] * D + d[None, :], mask=km, other=0.0)
        v = tl.load(V + base + cols[:, None] * D + d[None, :], mask=km, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee", out_dtype=Q.dtype.element_ty) * scale
        s = tl.where((rows[:, None] >= cols[None, :]) & (cols[None, :] < T), s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, axis=1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        l = l * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None] + tl.dot(p, v, input_precision="ieee", out_dtype=Q.dtype.element_ty)
        m = m_new
    tl.store(O + base + rows[:, None] * D + d[None, :], acc / l[:, None], mask=qm)
    tl.store(LSE + head * T + rows, m + tl.log(l), mask=rows < T)


@triton.jit
def _attn_delta(O, DO, DELTA, n_rows, D, B: tl.constexpr, DP: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    d = tl.arange(0, DP)
    ok = (r[:, None] < n_rows) & (d[None, :] < D)
    o = tl.load(O + r[:, None] * D + d[None, :], mask=ok, other=0.0)
    do = tl.load(DO + r[:, None] * D + d[None, :], mask=ok, other=0.0)
    tl.store(DELTA + r, tl.sum(o * do, axis=1), mask=r < n_rows)


@triton.jit
def _attn_dkdv(Q, K, V, DO, LSE, DELTA, DK, DV, T, D, scale, B: tl.constexpr, DP: tl.constexpr):
    start, head = tl.program_id(0) * B, tl.program_id(1)
    base = head * T * D
    cols = start + tl.arange(0, B)
    d = tl.arange(0, DP)
    km = (cols[:, None] < T) & (d[None, :] < D)
    k = tl.load(K + base + cols[:, None] * D + d[None, :], mask=km, other=0.0)
    v = tl.load(V + base + cols[:, None] * D + d[None, :], mask=km, other=0.0)
    dk = tl.zeros((B, DP), Q.dtype.element_ty)
    dv = tl.zeros((B, DP), Q.dtype.element_ty)
    for i in range(start, T, B):
        rows = i + tl.arange(0, B)
        qm = (rows[:, None] < T) & (d[None, :] < D)
        q = tl.load(Q + base + rows[:, None] * D + d[None, :], mask=qm, other=0.0)
        do = tl.load(DO + base + rows[:, None] * D + d[None, :], mask=qm, other=0.0)
        lse = tl.load(LSE + head * T + rows, mask=rows < T, other=float("inf"))
        delta = tl.load(DELTA + head * T + rows, mask=rows < T, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee", out_dtype=Q.dtype.element_ty) * scale
        p = tl.where(rows[:, None] >= cols[None, :], tl.exp(s - lse[:, None]), 0.0)
        dv += tl.dot(tl.trans(p), do, input_precision="ieee", out_dtype=Q.dtype.element_ty)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee", out_dtype=Q.dtype.element_ty)
        ds = p * (dp - delta[:, None])
        dk += tl.dot(tl.trans(ds), q, input_precision="ieee", out_dtype=Q.dtype.element_ty)
    tl.store(DK + base + cols[:, None] * D + d[None, :], dk * scale, mask=km)
    tl.store(DV + base + cols[:, None] * D + d[None, :], dv, mask=km)


@triton.jit
def _attn_dq(Q, K, V, DO, LSE, DELTA, DQ, T, D, scale, B: tl.constexpr, DP: tl.constexpr):
    start, head = tl.program_id(0) * B, tl.program_id(1)
    base = head * T * D
    r = start + tl.arange(0, B)
    d = tl.arange(0, DP)
    ok = (r[:, None] < T) & (d[None, :] < D)
    q = tl.load(Q + base + r[:, None] * D + d[None, :], mask=ok, other=0.0)
    do = tl.load(DO + base + r[:, None] * D + d[None, :], mask=ok, other=0.0)
    lse = tl.load(LSE + head * T + r, mask=r < T, other=0.0)
    delta = tl.load(DELTA + head * T + r, mask=r < T, other=0.0)
    dq = tl.zeros((B, DP), Q.dtype.element_ty)
    for j in range(0, start + B, B):
        c = j + tl.arange(0, B)
        kvm = (c[:, None] < T) & (d[None, :] < D)
        k = tl.load(K + base + c[:, None] * D + d[None, :], mask=kvm, other=0.0)
        v = tl.load(V + base + c[:, None] * D + d[None, :], mask=kvm, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee", out_dtype=Q.dtype.element_ty) * scale
        p = tl.where((r[:, None] >= c[None, :]) & (r[:, None] < T), tl.exp(s - lse[:, None]), 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee", out_dtype=Q.dtype.element_ty)
        dq += tl.dot(p * (dp - delta[:, None]), k, input_precision="ieee", out_dtype=Q.dtype.element_ty)
    tl.store(DQ + base + r[:, None] * D + d[None, :], dq * scale, mask=ok)


class CausalAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        H, T, D = q.shape
        o, lse = torch.empty_like(q), q.new_empty(H, T)
        dp = max(16, triton.next_power_of_2(D))
        _attn_fwd[(triton.cdiv(T, BLOCK), H)](q, k, v, o, lse, T, D, 1 / math.sqrt(D), B=BLOCK, DP=dp)
        ctx.save_for_backward(q, k, v, o, lse)
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        H, T, D = q.shape
        do = do.contiguous()
        delta = torch.empty_like(lse)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        meta = dict(B=BLOCK, DP=max(16, triton.next_power_of_2(D)))
        grid = (triton.cdiv(T, BLOCK), H)
        _attn_delta[(triton.cdiv(H * T, BLOCK),)](o, do, delta, H * T, D, **meta)
        _attn_dkdv[grid](q, k, v, do, lse, delta, dk, dv, T, D, D ** -0.5, **meta)
        _attn_dq[grid](q, k, v, do, lse, delta, dq, T, D, D ** -0.5, **meta)
        return dq, dk, dv


def causal_attention(q, k, v):
    """softmax(causal(q @ k.T / sqrt(D))) @ v for q, k, v of one shape (heads, T, D)."""
    return CausalAttention.apply(q, k, v)


@triton.jit
def _rope_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, H, half, sx_t, sx_h, INVERSE: tl.constexpr,
                 BH: tl.constexpr, HALF: tl.constexpr):
    t = tl.program_id(0)
    h = tl.program_id(1) * BH + tl.arange(0, BH)
    i = tl.arange(0, HALF)
    mask = (h[:, None] < H) & (i[None, :] < half)
    cos = tl.load(cos_ptr + t * half + i, mask=i < half, other=1.0)[None, :]
    sin = tl.load(sin_ptr + t * half + i, mask=i < half, other=0.0)[None, :]
    src = x_ptr + t * sx_t + h[:, None] * sx_h + i[None, :]
    x1 = tl.load(src, mask=mask, other=0.0)
    x2 = tl.load(src + half, mask=mask, other=0.0)
    if INVERSE:
        y1 = x1 * cos + x2 * sin
        y2 = x2 * cos - x1 * sin
    else:
        y1 = cos * x1 - sin * x2
        y2 = cos * x2 + sin * x1
    dst = out_ptr + (t * H + h[:, None]) * 2 * half + i[None, :]
    tl.store(dst, y1, mask=mask)
    tl.store(dst + half, y2, mask=mask)


def _rope(x, cos, sin, inverse):
    if x.stride(-1) != 1:
        x = x.contiguous()
    T, H, D = x.shape
    out = torch.empty((T, H, D), dtype=x.dtype, device=x.device)
    grid = (T, triton.cdiv(H, 4))
    _rope_kernel[grid](x, cos, sin, out, H, D // 2, x.stride(0), x.stride(1), INVERSE=inverse,
                       BH=4, HALF=triton.next_power_of_2(D // 2))
    return out


class Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        cos, sin = cos.contiguous(), sin.contiguous()
        ctx.save_for_backward(cos, sin)
        return _rope(x, cos, sin, False)

    @staticmethod
    def backward(ctx, dy):
        cos, sin = ctx.saved_tensors
        return _rope(dy, cos, sin, True), None, None


def rotary(x, cos, sin):
    """Rotates the pairs (x[t, h, i], x[t, h, i + D / 2]) of x (T, H, D), D even, by angles given as cos, sin
    (T, D / 2), which are constants."""
    return Rotary.apply(x, cos, sin)
