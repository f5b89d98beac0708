"""Token mixing kernels: gated recurrence, rotary positions, soft-capped causal attention weights."""

import math
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _compose(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def _scan_fwd(F, I, H0, H, T, D, CHUNK: tl.constexpr, BLOCK_D: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    dmask = d < D
    rows = tl.arange(0, CHUNK)
    carry = tl.load(H0 + b * D + d, mask=dmask, other=0.0).to(tl.float32)
    for c in range(0, tl.cdiv(T, CHUNK)):
        t = c * CHUNK + rows
        offs = b * T * D + t[:, None] * D + d[None, :]
        mask = (t < T)[:, None] & dmask[None, :]
        f = tl.load(F + offs, mask=mask, other=1.0).to(tl.float32)
        x = tl.load(I + offs, mask=mask, other=0.0).to(tl.float32)
        a, h = tl.associative_scan((f, x), 0, _compose)
        h = h + a * carry[None, :]
        tl.store(H + offs, h, mask=mask)
        carry = tl.sum(tl.where((rows == CHUNK - 1)[:, None], h, 0.0), axis=0)


@triton.jit
def _scan_bwd(DH, F, H0, H, DF, DI, DH0, T, D, CHUNK: tl.constexpr, BLOCK_D: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    dmask = d < D
    rows = tl.arange(0, CHUNK)
    h0 = tl.load(H0 + b * D + d, mask=dmask, other=0.0).to(tl.float32)
    carry = tl.zeros((BLOCK_D,), dtype=tl.float32)
    n_chunks = tl.cdiv(T, CHUNK)
    for k in range(0, n_chunks):
        c = n_chunks - 1 - k
        t = c * CHUNK + rows
        offs = b * T * D + t[:, None] * D + d[None, :]
        mask = (t < T)[:, None] & dmask[None, :]
        dh = tl.load(DH + offs, mask=mask, other=0.0).to(tl.float32)
        f_next = tl.load(F + offs + D, mask=(t + 1 < T)[:, None] & dmask[None, :], other=0.0).to(
            tl.float32
        )
        a, g = tl.associative_scan((f_next, dh), 0, _compose, reverse=True)
        g = g + a * carry[None, :]
        h_prev = tl.load(H + offs - D, mask=mask & (rows > 0)[:, None], other=0.0).to(tl.float32)
        h_prev = tl.where((rows == 0)[:, None], h0[None, :], h_prev)
        tl.store(DI + offs, g, mask=mask)
        tl.store(DF + offs, g * h_prev, mask=mask)
        carry = tl.sum(tl.where((rows == 0)[:, None], g, 0.0), axis=0)
    f0 = tl.load(F + b * T * D + d, mask=dmask, other=0.0).to(tl.float32)
    tl.store(DH0 + b * D + d, carry * f0, mask=dmask)


class GatedScan(torch.autograd.Function):
    """h[t] = f[t] * h[t-1] + i[t], h[-1] = h0.   f, i: (B, T, D); h0: (B, D)."""

    CHUNK = 16

    @staticmethod
    def forward(ctx, f, i, h0):
        f, i, h0 = f.contiguous(), i.contiguous(), h0.contiguous()
        B, T, D = f.shape
        h = torch.empty_like(i)
        BLOCK_D = min(64, triton.next_power_of_2(D))
        _scan_fwd[(B, triton.cdiv(D, BLOCK_D))](
            f, i, h0, h, T, D, CHUNK=GatedScan.CHUNK, BLOCK_D=BLOCK_D
        )
        ctx.save_for_backward(f, h0, h)
        ctx.BLOCK_D = BLOCK_D
        return h

    @staticmethod
    def backward(ctx, dh):
        f, h0, h = ctx.saved_tensors
        B, T, D = f.shape
        df, di, dh0 = torch.empty_like(f), torch.empty_like(h), torch.empty_like(h0)
        _scan_bwd[(B, triton.cdiv(D, ctx.BLOCK_D))](
            dh.contiguous(), f, h0, h, df, di, dh0, T, D, CHUNK=GatedScan.CHUNK, BLOCK_D=ctx.BLOCK_D
        )
        return df, di, dh0


@triton.jit
def _rope(
    X,
    sb,
    st,
    sh,
    sd,
    POS,
    Y,
    T,
    H,
    D,
    HALF,
    neg_log_base,
    INVERSE: tl.constexpr,
    BH: tl.constexpr,
    BD: tl.constexpr,
):
    pid = tl.program_id(0).to(tl.int64)
    b = pid // T
    t = pid % T
    h = tl.program_id(1) * BH + tl.arange(0, BH)
    d = tl.arange(0, BD)
    pos = tl.load(POS + pid).to(tl.float32)
    first = d < HALF
    second = (d >= HALF) & (d < 2 * HALF)
    j = tl.where(first, d, d - HALF)
    ang = pos * tl.exp(neg_log_base * j.to(tl.float32) / HALF)
    rot = first | second
    cos = tl.where(rot, tl.cos(ang), 1.0)
    sin = tl.where(rot, tl.sin(ang), 0.0)
    if INVERSE:
        sin = -sin
    partner = tl.where(first, d + HALF, tl.where(second, d - HALF, d))
    sign = tl.where(first, -1.0, 1.0)
    mask = (h < H)[:, None] & (d < D)[None, :]
    base = X + b * sb + t * st + h[:, None] * sh
    x = tl.load(base + d[None, :] * sd, mask=mask, other=0.0).to(tl.float32)
    xp = tl.load(base + partner[None, :] * sd, mask=mask, other=0.0).to(tl.float32)
    y = x * cos[None, :] + xp * (sin * sign)[None, :]
    tl.store(Y + (pid * H + h[:, None]) * D + d[None, :], y, mask=mask)


def _rope_launch(x, pos, rotary_dim, base, inverse):
    B, T, H, D = x.shape
    y = torch.empty((B, T, H, D), dtype=x.dtype, device=x.device)
    BH = min(8, triton.next_power_of_2(H))
    _rope[(B * T, triton.cdiv(H, BH))](
        x,
        *x.stride(),
        pos,
        y,
        T,
        H,
        D,
        rotary_dim // 2,
        -math.log(base),
        INVERSE=inverse,
        BH=BH,
        BD=triton.next_power_of_2(D),
    )
    return y


class RotaryQK(torch.autograd.Function):
    """NeoX-style rotary of q (B,T,Hq,D), k (B,T,Hk,D) in the first `rotary_dim` channels; pos (B,T) int."""

    @staticmethod
    def forward(ctx, q, k, pos, rotary_dim, base=10000.0):
        assert rotary_dim % 2 == 0 and rotary_dim <= q.shape[-1]
        pos = pos.contiguous()
        ctx.save_for_backward(pos)
        ctx.rotary_dim, ctx.base = rotary_dim, base
        return _rope_launch(q, pos, rotary_dim, base, False), _rope_launch(
            k, pos, rotary_dim, base, False
        )

    @staticmethod
    def backward(ctx, dq, dk):
        (pos,) = ctx.saved_tensors
        dq, dk = (_rope_launch(g, pos, ctx.rotary_dim, ctx.base, True) for g in (dq, dk))
        return dq, dk, None, None, None


@triton.jit
def _capped_softmax_fwd(S, P, Tq, Tk, scale, cap, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    last = row % Tq + Tk - Tq
    cols = tl.arange(0, BLOCK)
    mask = cols < Tk
    visible = mask & (cols <= last)
    s = tl.load(S + row * Tk + cols, mask=mask, other=0.0).to(tl.float32) * scale
    s = cap * (2.0 * tl.sigmoid(2.0 * s / cap) - 1.0)
    s = tl.where(visible, s, float("-inf"))
    e = tl.exp(s - tl.max(s, axis=0))
    tl.store(P + row * Tk + cols, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def _capped_softmax_bwd(DP, P, DS, Tk, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < Tk
    p = tl.load(P + row * Tk + cols, mask=mask, other=0.0).to(tl.float32)
    dp = tl.load(DP + row * Tk + cols, mask=mask, other=0.0).to(tl.float32)
    ds = p * (dp - tl.sum(p * dp, axis=0))
    tl.store(DS + row * Tk + cols, ds * scale, mask=mask)


class SoftcapCausalSoftmax(torch.autograd.Function):
    """softmax(cap * tanh(scale * scores / cap)) over visible keys; scores (..., Tq, Tk), Tk >= Tq."""

    @staticmethod
    def forward(ctx, scores, scale=1.0, cap=30.0):
        s = scores.contiguous()
        Tq, Tk = s.shape[-2:]
        p = torch.empty_like(s)
        ctx.scale, ctx.BLOCK = scale, triton.next_power_of_2(Tk)
        _capped_softmax_fwd[(s.numel() // Tk,)](s, p, Tq, Tk, scale, cap, BLOCK=ctx.BLOCK)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx, dp):
        (p,) = ctx.saved_tensors
        Tk, ds = p.shape[-1], torch.empty_like(p)
        _capped_softmax_bwd[(p.numel() // Tk,)](
            dp.contiguous(), p, ds, Tk, ctx.scale, BLOCK=ctx.BLOCK
        )
        return ds, None, None


class HybridMixer(nn.Module):
    def __init__(self, dim, heads, cap=30.0):
        super().__init__()
        self.heads, self.cap = heads, cap
        self.qkv, self.gate, self.out = (
            nn.Linear(dim, 3 * dim),
            nn.Linear(dim, dim),
            nn.Linear(dim, dim),
        )

    def forward(self, x, h0):
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        v = GatedScan.apply(torch.sigmoid(self.gate(x)), v, h0)
        q, k, v = (z.reshape(B, T, self.heads, C // self.heads) for z in (q, k, v))
        pos = torch.arange(T, device=x.device).expand(B, T)
        q, k = RotaryQK.apply(q, k, pos, q.shape[-1] // 2 * 2, 10000.0)
        p = SoftcapCausalSoftmax.apply(
            torch.einsum("bqhd,bkhd->bhqk", q, k), q.shape[-1] ** -0.5, self.cap
        )
        return self.out(torch.einsum("bhqk,bkhd->bqhd", p, v).reshape(B, T, C))
