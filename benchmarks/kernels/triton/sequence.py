"""Along a sequence: a gated linear recurrence, embedding lookup, and average pooling."""
import torch
import triton
import triton.language as tl

BLOCK_C = 16


@triton.jit
def _scan_fwd(a_ptr, x_ptr, h0_ptr, h_ptr, T, C, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = c < C
    seq = tl.program_id(1) * T * C
    h = tl.load(h0_ptr + c, mask=live, other=0.0)
    for t in range(0, T):
        at = seq + t * C + c
        h = tl.load(a_ptr + at, mask=live, other=0.0) * h + tl.load(x_ptr + at, mask=live, other=0.0)
        tl.store(h_ptr + at, h, mask=live)


@triton.jit
def _scan_bwd(dh_ptr, a_ptr, h0_ptr, h_ptr, da_ptr, dx_ptr, dh0_ptr, T, C, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = c < C
    seq = tl.program_id(1) * T * C
    carry = tl.zeros((BLOCK,), dh_ptr.dtype.element_ty)
    for step in range(0, T):
        t = T - 1 - step
        now = t * C + c
        at = seq + now
        total = tl.load(dh_ptr + at, mask=live, other=0.0) + carry
        before = tl.load(h_ptr + at - C, mask=live & (now >= C), other=0.0)
        first = tl.load(h0_ptr + c, mask=live & (now < C), other=0.0)
        tl.store(dx_ptr + at, total, mask=live)
        tl.store(da_ptr + at, total * (before + first), mask=live)
        carry = total * tl.load(a_ptr + at, mask=live, other=0.0)
    tl.atomic_add(dh0_ptr + c, carry, mask=live)


class GatedScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, x, h0):
        a, x, h0 = a.contiguous(), x.contiguous(), h0.contiguous()
        B, T, C = x.shape
        h = torch.empty_like(x)
        _scan_fwd[(triton.cdiv(C, BLOCK_C), B)](a, x, h0, h, T, C, BLOCK=BLOCK_C)
        ctx.save_for_backward(a, h0, h)
        return h

    @staticmethod
    def backward(ctx, dh):
        a, h0, h = ctx.saved_tensors
        B, T, C = h.shape
        da, dx, dh0 = torch.empty_like(a), torch.empty_like(h), torch.zeros_like(h0)
        _scan_bwd[(triton.cdiv(C, BLOCK_C), B)](dh.contiguous(), a, h0, h, da, dx, dh0, T, C, BLOCK=BLOCK_C)
        return da, dx, dh0


def gated_scan(a, x, h0):
    """h[:, t] = a[:, t] * h[:, t - 1] + x[:, t] for a, x (B, T, C), from the state h0 (C,) shared by the batch."""
    return GatedScan.apply(a, x, h0)


@triton.jit
def _gather_rows(w_ptr, idx_ptr, out_ptr, N, D, BN: tl.constexpr, BD: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    idx = tl.load(idx_ptr + n, mask=n < N, other=-1)
    rows = tl.load(w_ptr + idx[:, None] * D + d[None, :],
                   mask=(idx[:, None] >= 0) & (d[None, :] < D), other=0.0)
    tl.store(out_ptr + n[:, None] * D + d[None, :], rows, mask=(n[:, None] < N) & (d[None, :] < D))


@triton.jit
def _scatter_rows(g_ptr, idx_ptr, dw_ptr, N, D, BN: tl.constexpr, BD: tl.constexpr):
    pos = tl.program_id(0) * BN + tl.arange(0, BN)
    col = tl.program_id(1) * BD + tl.arange(0, BD)
    tok = tl.load(idx_ptr + pos, mask=pos < N, other=-1)
    g = tl.load(g_ptr + pos[:, None] * D + col[None, :],
                mask=(pos[:, None] < N) & (col[None, :] < D), other=0.0)
    tl.atomic_add(dw_ptr + tok[:, None] * D + col[None, :], g,
                  mask=(tok[:, None] >= 0) & (col[None, :] < D))


class Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, idx):
        weight, flat = weight.contiguous(), idx.reshape(-1).contiguous()
        D = weight.shape[1]
        out = weight.new_empty(flat.numel(), D)
        _gather_rows[(triton.cdiv(flat.numel(), 8), triton.cdiv(D, 16))](weight, flat, out, flat.numel(), D, BN=8, BD=16)
        ctx.save_for_backward(flat)
        ctx.vocab = weight.shape[0]
        return out.view(*idx.shape, D)

    @staticmethod
    def backward(ctx, g):
        (flat,) = ctx.saved_tensors
        N, D = flat.numel(), g.shape[-1]
        dw = g.new_zeros(ctx.vocab, D)
        grid = (triton.cdiv(N, 8), triton.cdiv(D, 16))
        _scatter_rows[grid](g.contiguous(), flat, dw, N, D, BN=8, BD=16)
        return dw, None


def embedding(weight, idx):
    """weight[idx] for weight (V, D) and int64 idx of any shape; a negative index is padding and gives zeros."""
    return Embedding.apply(weight, idx)


@triton.jit
def _pool_fwd(x_ptr, y_ptr, L, LO, stride, pad, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), x_ptr.dtype.element_ty)
    for j in range(K):
        i = o * stride - pad + j
        acc += tl.load(x_ptr + row * L + i, mask=(i >= 0) & (i < L) & (o < LO), other=0.0)
    lo = tl.maximum(o * stride - pad, 0)
    hi = tl.minimum(o * stride - pad + K, L)
    tl.store(y_ptr + row * LO + o, acc / tl.maximum(hi - lo, 1), mask=o < LO)


@triton.jit
def _pool_bwd(dy_ptr, dx_ptr, L, LO, stride, pad, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    dx = tl.zeros((BLOCK,), dy_ptr.dtype.element_ty)
    for j in range(K):
        start = i + pad - j
        w = start // stride
        hit = (start >= 0) & (start % stride == 0) & (w < LO)
        dy = tl.load(dy_ptr + row * LO + w, mask=hit, other=0.0)
        size = tl.minimum(start - pad + K, L) - tl.maximum(start - pad, 0)
        dx += tl.where(hit, dy / tl.maximum(size, 1), 0.0)
    tl.store(dx_ptr + row * L + i, dx, mask=i < L)


class AvgPool1d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kernel, stride, pad):
        x = x.contiguous()
        R, L = x.shape
        LO = (L + 2 * pad - kernel) // stride + 1
        y = x.new_empty(R, LO)
        _pool_fwd[(R, triton.cdiv(LO, 16))](x, y, L, LO, stride, pad, K=kernel, BLOCK=16)
        ctx.conf = (L, LO, stride, pad, kernel)
        return y

    @staticmethod
    def backward(ctx, dy):
        L, LO, stride, pad, kernel = ctx.conf
        R = dy.shape[0]
        dx = dy.new_empty(R, L)
        _pool_bwd[(R, triton.cdiv(L, 16))](dy.contiguous(), dx, L, LO, stride, pad, K=kernel, BLOCK=16)
        return dx, None, None, None


def avg_pool1d(x, kernel, stride, pad=0):
    """Mean over windows along the rows of x (R, L), padding not counted; pad <= kernel / 2, kernel <= L + 2 * pad."""
    return AvgPool1d.apply(x, kernel, stride, pad)
