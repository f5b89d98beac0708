import torch
import triton
import triton.language as tl


@triton.jit
def _cumsum_kernel(x_ptr, y_ptr, N: tl.constexpr, REVERSE: tl.constexpr, EXCLUSIVE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, N, BLOCK):
        i = start + tl.arange(0, BLOCK)
        mask = i < N
        if REVERSE:
            pos = N - 1 - i
        else:
            pos = i
        x = tl.load(x_ptr + row * N + pos, mask=mask, other=0.0).to(tl.float32)
        y = tl.cumsum(x, axis=0) + carry
        if EXCLUSIVE:
            y = y - x
        tl.store(y_ptr + row * N + pos, y, mask=mask)
        carry += tl.sum(x, axis=0)


class CumSum(torch.autograd.Function):
    """Running sum along the last axis, inclusive or exclusive, in either direction."""

    @staticmethod
    def forward(ctx, x, exclusive=False, reverse=False):
        x = x.contiguous()
        N = x.shape[-1]
        y = torch.empty_like(x)
        _cumsum_kernel[(x.numel() // N,)](x, y, N, REVERSE=reverse, EXCLUSIVE=exclusive, BLOCK=64)
        ctx.exclusive, ctx.reverse = exclusive, reverse
        return y

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        N = g.shape[-1]
        dx = torch.empty_like(g)
        _cumsum_kernel[(g.numel() // N,)](g, dx, N, REVERSE=not ctx.reverse, EXCLUSIVE=ctx.exclusive, BLOCK=64)
        return dx, None, None


@triton.jit
def _gather_rows(table_ptr, idx_ptr, out_ptr, N, D, BN: tl.constexpr, BD: tl.constexpr):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rd = tl.program_id(1) * BD + tl.arange(0, BD)
    mask = (rn[:, None] < N) & (rd[None, :] < D)
    idx = tl.load(idx_ptr + rn, mask=rn < N, other=0)
    v = tl.load(table_ptr + idx[:, None] * D + rd[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + rn[:, None] * D + rd[None, :], v, mask=mask)


@triton.jit
def _scatter_rows(g_ptr, idx_ptr, dtable_ptr, N, D, BN: tl.constexpr, BD: tl.constexpr):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rd = tl.program_id(1) * BD + tl.arange(0, BD)
    mask = (rn[:, None] < N) & (rd[None, :] < D)
    idx = tl.load(idx_ptr + rn, mask=rn < N, other=0)
    g = tl.load(g_ptr + rn[:, None] * D + rd[None, :], mask=mask, other=0.0)
    dst = dtable_ptr + idx[:, None] * D + rd[None, :]
    cur = tl.load(dst, mask=mask, other=0.0)
    tl.store(dst, cur + g, mask=mask)


class EmbeddingLookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, idx):
        table = table.contiguous()
        flat = idx.contiguous().view(-1)
        N, D = flat.numel(), table.shape[1]
        out = torch.empty((N, D), dtype=table.dtype, device=table.device)
        _gather_rows[(triton.cdiv(N, 16), triton.cdiv(D, 32))](table, flat, out, N, D, BN=16, BD=32)
        ctx.save_for_backward(flat)
        ctx.rows = table.shape[0]
        return out.view(*idx.shape, D)

    @staticmethod
    def backward(ctx, g):
        (flat,) = ctx.saved_tensors
        N, D = flat.numel(), g.shape[-1]
        g = g.contiguous()
        dtable = torch.zeros((ctx.rows, D), dtype=g.dtype, device=g.device)
        _scatter_rows[(triton.cdiv(N, 16), triton.cdiv(D, 32))](g, flat, dtable, N, D, BN=16, BD=32)
        return dtable, None


@triton.jit
def _sqdist_fwd(x_ptr, y_ptr, o_ptr, N, M, D: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rm = tl.program_id(1) * BM + tl.arange(0, BM)
    xy = tl.zeros([BN, BM], tl.float32)
    xx = tl.zeros([BN], tl.float32)
    yy = tl.zeros([BM], tl.float32)
    for d0 in range(0, D, BD):
        rd = d0 + tl.arange(0, BD)
        x = tl.load(x_ptr + rn[:, None] * D + rd[None, :], mask=(rn[:, None] < N) & (rd[None, :] < D), other=0.0)
        y = tl.load(y_ptr + rm[:, None] * D + rd[None, :], mask=(rm[:, None] < M) & (rd[None, :] < D), other=0.0)
        xy += tl.dot(x, tl.trans(y), input_precision="ieee")
        xx += tl.sum(x * x, axis=1)
        yy += tl.sum(y * y, axis=1)
    out = xx[:, None] + yy[None, :] - 2.0 * xy
    tl.store(o_ptr + rn[:, None] * M + rm[None, :], out, mask=(rn[:, None] < N) & (rm[None, :] < M))


@triton.jit
def _sqdist_bwd(g_ptr, x_ptr, y_ptr, dx_ptr, N, M: tl.constexpr, D, sgn, sgm,
                BN: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rd = tl.program_id(1) * BD + tl.arange(0, BD)
    xmask = (rn[:, None] < N) & (rd[None, :] < D)
    x = tl.load(x_ptr + rn[:, None] * D + rd[None, :], mask=xmask, other=0.0)
    gy = tl.zeros([BN, BD], tl.float32)
    gs = tl.zeros([BN], tl.float32)
    for m0 in range(0, M, BM):
        rm = m0 + tl.arange(0, BM)
        g = tl.load(g_ptr + rn[:, None] * sgn + rm[None, :] * sgm, mask=(rn[:, None] < N) & (rm[None, :] < M), other=0.0)
        y = tl.load(y_ptr + rm[:, None] * D + rd[None, :], mask=(rm[:, None] < M) & (rd[None, :] < D), other=0.0)
        gy += tl.dot(g, y, input_precision="ieee")
        gs += tl.sum(g, axis=1)
    tl.store(dx_ptr + rn[:, None] * D + rd[None, :], 2.0 * (x * gs[:, None] - gy), mask=xmask)


class PairwiseSquaredDistance(torch.autograd.Function):
    """out[i, j] = ||x_i - y_j||^2"""

    @staticmethod
    def forward(ctx, x, y):
        x, y = x.contiguous(), y.contiguous()
        N, D = x.shape
        M = y.shape[0]
        out = torch.empty((N, M), dtype=x.dtype, device=x.device)
        _sqdist_fwd[(triton.cdiv(N, 32), triton.cdiv(M, 32))](x, y, out, N, M, D, BN=32, BM=32, BD=16)
        ctx.save_for_backward(x, y)
        return out

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        N, D = x.shape
        M = y.shape[0]
        g = g.contiguous()
        dx, dy = torch.empty_like(x), torch.empty_like(y)
        _sqdist_bwd[(triton.cdiv(N, 32), triton.cdiv(D, 16))](g, x, y, dx, N, M, D, M, 1, BN=32, BM=32, BD=16)
        _sqdist_bwd[(triton.cdiv(M, 32), triton.cdiv(D, 16))](g, y, x, dy, M, N, D, N, 1, BN=32, BM=32, BD=16)
        return dx, dy


@triton.jit
def _maxpool_fwd(x_ptr, y_ptr, arg_ptr, L, LO, stride, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = o < LO
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    arg = tl.zeros([BLOCK], tl.int32)
    for k in range(0, K):
        pos = o * stride + k
        v = tl.load(x_ptr + row * L + pos, mask=mask, other=float("-inf"))
        better = v > best
        best = tl.where(better, v, best)
        arg = tl.where(better, pos, arg)
    tl.store(y_ptr + row * LO + o, best, mask=mask)
    tl.store(arg_ptr + row * LO + o, arg, mask=mask)


@triton.jit
def _maxpool_bwd(g_ptr, arg_ptr, dx_ptr, L, LO, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = o < LO
    g = tl.load(g_ptr + row * LO + o, mask=mask, other=0.0)
    arg = tl.load(arg_ptr + row * LO + o, mask=mask, other=0)
    tl.atomic_add(dx_ptr + row * L + arg, g, mask=mask)


class MaxPool1d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kernel_size, stride):
        B, C, L = x.shape
        x = x.contiguous()
        LO = (L - kernel_size) // stride + 1
        y = torch.empty((B, C, LO), dtype=x.dtype, device=x.device)
        arg = torch.empty((B, C, LO), dtype=torch.int32, device=x.device)
        _maxpool_fwd[(B * C, triton.cdiv(LO, 64))](x, y, arg, L, LO, stride, K=kernel_size, BLOCK=64)
        ctx.save_for_backward(arg)
        ctx.shape = x.shape
        return y

    @staticmethod
    def backward(ctx, g):
        (arg,) = ctx.saved_tensors
        B, C, L = ctx.shape
        LO = arg.shape[-1]
        dx = torch.empty(ctx.shape, dtype=g.dtype, device=g.device)
        _maxpool_bwd[(B * C, triton.cdiv(LO, 64))](g.contiguous(), arg, dx, L, LO, BLOCK=64)
        return dx, None, None
