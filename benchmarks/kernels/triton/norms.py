"""RMSNorm (weight gradient by partial sums) and LayerNorm (weight and bias gradients by atomics)."""
import torch
import triton
import triton.language as tl

ROWS_PER_PROGRAM = 4


@triton.jit
def _rms_fwd(X, W, Y, RSTD, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    m = cols < N
    x = tl.load(X + row * N + cols, mask=m, other=0.0)
    w = tl.load(W + cols, mask=m, other=0.0)
    rstd = 1 / tl.sqrt(tl.sum(x * x, axis=0) / N + eps)
    tl.store(RSTD + row, rstd)
    tl.store(Y + row * N + cols, x * rstd * w, mask=m)


@triton.jit
def _rms_bwd(DY, X, W, RSTD, DX, PARTIAL, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    m = cols < N
    w = tl.load(W + cols, mask=m, other=0.0)
    dw = tl.zeros((BLOCK,), W.dtype.element_ty)
    for i in range(ROWS):
        row = pid * ROWS + i
        offs = row * N + cols
        ok = m & (offs < M * N)
        x = tl.load(X + offs, mask=ok, other=0.0)
        dy = tl.load(DY + offs, mask=ok, other=0.0)
        rstd = tl.load(RSTD + row, mask=row < M, other=0.0)
        xhat = x * rstd
        wdy = w * dy
        c = tl.sum(xhat * wdy, axis=0) / N
        tl.store(DX + offs, rstd * (wdy - xhat * c), mask=ok)
        dw += dy * xhat
    tl.store(PARTIAL + pid * N + cols, dw, mask=m)


@triton.jit
def _sum_rows(P, OUT, R, N, BR: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BR, BN), P.dtype.element_ty)
    for r0 in range(0, R, BR):
        rows = r0 + tl.arange(0, BR)
        keep = (rows[:, None] < R) & (cols[None, :] < N)
        acc += tl.load(P + rows[:, None] * N + cols[None, :], mask=keep, other=0.0)
    tl.store(OUT + cols, tl.sum(acc, axis=0), mask=cols < N)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        x, weight = x.contiguous(), weight.contiguous()
        M, N = x.shape
        y = torch.empty_like(x)
        rstd = x.new_empty(M)
        ctx.block = triton.next_power_of_2(N)
        _rms_fwd[(M,)](x, weight, y, rstd, N, eps, BLOCK=ctx.block)
        ctx.save_for_backward(x, weight, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, rstd = ctx.saved_tensors
        M, N = x.shape
        dy = dy.contiguous()
        programs = triton.cdiv(M, ROWS_PER_PROGRAM)
        dx = torch.empty_like(x)
        partial = x.new_empty(programs, N)
        dw = torch.empty_like(weight)
        _rms_bwd[(programs,)](dy, x, weight, rstd, dx, partial, M, N, ROWS=ROWS_PER_PROGRAM, BLOCK=ctx.block)
        _sum_rows[(triton.cdiv(N, 16),)](partial, dw, programs, N, BR=2, BN=16)
        return dx, dw, None


def rms_norm(x, weight, eps=1e-6):
    """x / sqrt(mean(x**2) + eps) * weight, x (M, N), weight (N,)."""
    return RMSNorm.apply(x, weight, eps)


@triton.jit
def _ln_fwd(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    live = col < n
    x = tl.load(x_ptr + row * n + col, mask=live, other=0.0)
    mean = tl.sum(x, axis=0) / n
    centred = tl.where(live, x - mean, 0.0)
    var = tl.sum(centred * centred, axis=0) / n
    rstd = 1 / tl.sqrt(var + eps)
    weight = tl.load(w_ptr + col, mask=live, other=0.0)
    bias = tl.load(b_ptr + col, mask=live, other=0.0)
    tl.store(y_ptr + row * n + col, centred * rstd * weight + bias, mask=live)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def _ln_bwd(g_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    live = col < n
    g = tl.load(g_ptr + row * n + col, mask=live, other=0.0)
    x = tl.load(x_ptr + row * n + col, mask=live, other=0.0)
    weight = tl.load(w_ptr + col, mask=live, other=0.0)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    xhat = tl.where(live, (x - mean) * rstd, 0.0)
    gw = g * weight
    c1 = tl.sum(gw, axis=0) / n
    c2 = tl.sum(gw * xhat, axis=0) / n
    dx = rstd * (gw - c1 - xhat * c2)
    tl.store(dx_ptr + row * n + col, dx, mask=live)
    tl.atomic_add(dw_ptr + col, g * xhat, mask=live)
    tl.atomic_add(db_ptr + col, g, mask=live)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        shape, n = x.shape, x.shape[-1]
        x2 = x.reshape(-1, n).contiguous()
        weight, bias = weight.contiguous(), bias.contiguous()
        y = torch.empty_like(x2)
        mean, rstd = x2.new_empty(len(x2)), x2.new_empty(len(x2))
        _ln_fwd[(len(x2),)](x2, weight, bias, y, mean, rstd, n, eps, BLOCK=triton.next_power_of_2(n))
        ctx.save_for_backward(x2, weight, mean, rstd)
        return y.view(shape)

    @staticmethod
    def backward(ctx, g):
        x2, weight, mean, rstd = ctx.saved_tensors
        n = x2.shape[1]
        dx = torch.empty_like(x2)
        dw, db = torch.zeros_like(weight), torch.zeros_like(weight)
        g2 = g.reshape(-1, n).contiguous()
        block = triton.next_power_of_2(n)
        _ln_bwd[(x2.shape[0],)](g2, x2, weight, mean, rstd, dx, dw, db, n, BLOCK=block)
        return dx.view(g.shape), dw, db, None


def layer_norm(x, weight, bias, eps=1e-5):
    """Layer norm over the last dimension of x (..., n), with weight (n,) and bias (n,)."""
    return LayerNorm.apply(x, weight, bias, eps)
