"""Elementwise fusions: SwiGLU on a packed projection, and bias + dropout + residual with a given mask."""
import torch
import triton
import triton.language as tl

BLOCK = 32


@triton.jit
def _swiglu_fwd(x_ptr, y_ptr, numel, d, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < numel
    src = x_ptr + (offs // d) * 2 * d + offs % d
    gate = tl.load(src, mask=mask, other=0.0)
    up = tl.load(src + d, mask=mask, other=0.0)
    tl.store(y_ptr + offs, gate * tl.sigmoid(gate) * up, mask=mask)


@triton.jit
def _swiglu_bwd(dy_ptr, x_ptr, dx_ptr, numel, d, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < numel
    pos = (offs // d) * (2 * d) + offs % d
    gate = tl.load(x_ptr + pos, mask=mask, other=0.0)
    up = tl.load(x_ptr + pos + d, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + offs, mask=mask, other=0.0)
    sig = tl.sigmoid(gate)
    silu = gate * sig
    dgate = dy * up * (sig + silu * (1 - sig))
    dup = dy * silu
    tl.store(dx_ptr + pos, dgate, mask=mask)
    tl.store(dx_ptr + pos + d, dup, mask=mask)


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        d = x.shape[-1] // 2
        y = x.new_empty(*x.shape[:-1], d)
        _swiglu_fwd[(triton.cdiv(y.numel(), BLOCK),)](x, y, y.numel(), d, BLOCK=BLOCK)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dy = dy.contiguous()
        dx = torch.empty_like(x)
        grid = (triton.cdiv(dy.numel(), BLOCK),)
        _swiglu_bwd[grid](dy, x, dx, dy.numel(), dy.shape[-1], BLOCK=BLOCK)
        return dx


def swiglu(x):
    """silu(x[..., :d]) * x[..., d:] for x of shape (..., 2 * d), float32 or float64, any strides."""
    return SwiGLU.apply(x)


@triton.jit
def _bda_fwd(x_ptr, b_ptr, keep_ptr, res_ptr, out_ptr, scale, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    offs = rows[:, None] * N + cols[None, :]
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    b = tl.load(b_ptr + cols, mask=cols < N, other=0.0)
    keep = tl.load(keep_ptr + offs, mask=mask, other=0)
    res = tl.load(res_ptr + offs, mask=mask, other=0.0)
    tl.store(out_ptr + offs, res + tl.where(keep != 0, (x + b[None, :]) * scale, 0.0), mask=mask)


@triton.jit
def _bda_bwd(g_ptr, keep_ptr, dx_ptr, db_ptr, scale, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (r[:, None] < M) & (c[None, :] < N)
    at = r[:, None] * N + c[None, :]
    g = tl.load(g_ptr + at, mask=inside, other=0.0)
    keep = tl.load(keep_ptr + at, mask=inside, other=0)
    dx = tl.where(keep != 0, g * scale, 0.0)
    tl.store(dx_ptr + at, dx, mask=inside)
    tl.atomic_add(db_ptr + c, tl.sum(dx, axis=0), mask=c < N)


class BiasDropoutAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias, residual, keep, p):
        x, bias, residual = x.contiguous(), bias.contiguous(), residual.contiguous()
        keep = keep.to(torch.uint8).contiguous()
        M, N = x.shape
        out = torch.empty_like(x)
        inv = 1.0 / (1.0 - p)
        _bda_fwd[(triton.cdiv(M, 8), triton.cdiv(N, 16))](x, bias, keep, residual, out, inv, M, N, BM=8, BN=16)
        ctx.save_for_backward(keep)
        ctx.p = p
        return out

    @staticmethod
    def backward(ctx, g):
        (keep,) = ctx.saved_tensors
        g = g.contiguous()
        M, N = g.shape
        dx = torch.empty_like(g)
        db = g.new_zeros(N)
        grid = (triton.cdiv(M, 8), triton.cdiv(N, 16))
        _bda_bwd[grid](g, keep, dx, db, 1 / (1 - ctx.p), M, N, BM=8, BN=16)
        return dx, db, g.clone(), None, None


def bias_dropout_add(x, bias, residual, keep, p):
    """residual + keep * (x + bias) / (1 - p): x, residual (M, N), bias (N,), keep (M, N) of bools."""
    return BiasDropoutAdd.apply(x, bias, residual, keep, p)
