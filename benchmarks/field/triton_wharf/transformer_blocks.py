"""Fused pieces of a pre-norm decoder block: norms, residual add, gated MLP activation."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def _rows(x):
    x = x.reshape(-1, x.shape[-1])
    return x if x.stride(-1) == 1 else x.contiguous()


@triton.jit
def _rms_fwd(X, sx, W, Y, sy, R, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(X + row * sx + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(R + row, rstd)
    tl.store(Y + row * sy + cols, x * rstd * (1.0 + w), mask=mask)


@triton.jit
def _rms_bwd(
    DY, sdy, X, sx, W, R, DX, sdx, DWP, n_rows, n_cols, rows_per_prog, BLOCK: tl.constexpr
):
    pid = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    w = 1.0 + tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(pid * rows_per_prog, tl.minimum((pid + 1) * rows_per_prog, n_rows)):
        x = tl.load(X + row * sx + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(DY + row * sdy + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(R + row)
        xhat, g = x * rstd, dy * w
        dx = rstd * (g - xhat * (tl.sum(g * xhat, axis=0) / n_cols))
        tl.store(DX + row * sdx + cols, dx, mask=mask)
        dw += dy * xhat
    tl.store(DWP + pid * n_cols + cols, dw, mask=mask)


class GemmaRMSNorm(torch.autograd.Function):
    """y = x / rms(x) * (1 + weight)."""

    @staticmethod
    def forward(ctx, x, weight, eps=1e-6):
        x2 = _rows(x)
        M, N = x2.shape
        y = torch.empty((M, N), dtype=x.dtype, device=x.device)
        rstd = torch.empty(M, dtype=torch.float32, device=x.device)
        weight = weight.contiguous()
        ctx.shape, ctx.BLOCK = x.shape, triton.next_power_of_2(N)
        _rms_fwd[(M,)](x2, x2.stride(0), weight, y, y.stride(0), rstd, N, eps, BLOCK=ctx.BLOCK)
        ctx.save_for_backward(x2, weight, rstd)
        return y.view(x.shape)

    @staticmethod
    def backward(ctx, dy):
        x2, weight, rstd = ctx.saved_tensors
        (M, N), dy = x2.shape, _rows(dy)
        dx = torch.empty((M, N), dtype=x2.dtype, device=x2.device)
        n_prog = min(M, 24)
        dwp = torch.empty((n_prog, N), dtype=torch.float32, device=x2.device)
        _rms_bwd[(n_prog,)](
            dy,
            dy.stride(0),
            x2,
            x2.stride(0),
            weight,
            rstd,
            dx,
            dx.stride(0),
            dwp,
            M,
            N,
            triton.cdiv(M, n_prog),
            BLOCK=ctx.BLOCK,
        )
        return dx.view(ctx.shape), dwp.sum(0).to(weight.dtype), None


@triton.jit
def _add_ln_fwd(X, R, W, B, S, Y, MEAN, RSTD, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    s = tl.load(X + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    s += tl.load(R + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(s, axis=0) / n_cols
    d = tl.where(mask, s - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(d * d, axis=0) / n_cols + eps)
    w, b = tl.load(W + cols, mask=mask, other=0.0), tl.load(B + cols, mask=mask, other=0.0)
    tl.store(S + row * n_cols + cols, s, mask=mask)
    tl.store(Y + row * n_cols + cols, d * rstd * w + b, mask=mask)
    tl.store(MEAN + row, mean)
    tl.store(RSTD + row, rstd)


@triton.jit
def _add_ln_bwd(
    DY, DS, S, W, MEAN, RSTD, DX, PW, PB, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    pid = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    cmask = cols < n_cols
    w = tl.load(W + cols, mask=cmask, other=0.0).to(tl.float32)
    acc_w, acc_b = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(pid * ROWS, tl.minimum((pid + 1) * ROWS, n_rows)):
        s = tl.load(S + row * n_cols + cols, mask=cmask, other=0.0).to(tl.float32)
        dy = tl.load(DY + row * n_cols + cols, mask=cmask, other=0.0).to(tl.float32)
        ds = tl.load(DS + row * n_cols + cols, mask=cmask, other=0.0).to(tl.float32)
        rstd = tl.load(RSTD + row)
        xhat, g = (s - tl.load(MEAN + row)) * rstd, dy * w
        dx = rstd * (g - (tl.sum(g, axis=0) + xhat * tl.sum(g * xhat, axis=0)) / n_cols) + ds
        tl.store(DX + row * n_cols + cols, dx, mask=cmask)
        acc_w, acc_b = acc_w + dy * xhat, acc_b + dy
    tl.store(PW + pid * n_cols + cols, acc_w, mask=cmask)
    tl.store(PB + pid * n_cols + cols, acc_b, mask=cmask)


@triton.jit
def _colsum(PW, PB, DW, DB, n_part, n_cols, BP: tl.constexpr, BC: tl.constexpr):
    cols = tl.program_id(0) * BC + tl.arange(0, BC)
    parts = tl.arange(0, BP)
    mask = (parts[:, None] < n_part) & (cols[None, :] < n_cols)
    offs = parts[:, None] * n_cols + cols[None, :]
    tl.store(
        DW + cols, tl.sum(tl.load(PW + offs, mask=mask, other=0.0), axis=0), mask=cols < n_cols
    )
    tl.store(
        DB + cols, tl.sum(tl.load(PB + offs, mask=mask, other=0.0), axis=0), mask=cols < n_cols
    )


class AddLayerNorm(torch.autograd.Function):
    """s = x + residual;  y = LayerNorm(s) * weight + bias.  Returns ``(y, s)``."""

    @staticmethod
    def forward(ctx, x, residual, weight, bias, eps=1e-5):
        x, residual, weight, bias = (t.contiguous() for t in (x, residual, weight, bias))
        M, N = x.numel() // x.shape[-1], x.shape[-1]
        s, y = torch.empty_like(x), torch.empty_like(x)
        mean, rstd = torch.empty((2, M), dtype=torch.float32, device=x.device).unbind(0)
        ctx.BLOCK = triton.next_power_of_2(N)
        _add_ln_fwd[(M,)](x, residual, weight, bias, s, y, mean, rstd, N, eps, BLOCK=ctx.BLOCK)
        ctx.save_for_backward(s, weight, mean, rstd)
        return y, s

    @staticmethod
    def backward(ctx, dy, ds):
        s, weight, mean, rstd = ctx.saved_tensors
        M, N, ROWS = mean.numel(), s.shape[-1], 4
        dy, ds = dy.contiguous(), ds.contiguous()
        n_part = triton.cdiv(M, ROWS)
        pw = torch.empty((n_part, N), dtype=torch.float32, device=s.device)
        pb, dx = torch.empty_like(pw), torch.empty_like(s)
        _add_ln_bwd[(n_part,)](
            dy, ds, s, weight, mean, rstd, dx, pw, pb, M, N, ROWS=ROWS, BLOCK=ctx.BLOCK
        )
        dw, db = torch.empty_like(weight), torch.empty_like(weight)
        _colsum[lambda meta: (triton.cdiv(N, meta["BC"]),)](pw, pb, dw, db, n_part, N, BP=16, BC=64)
        return dx, dx, dw, db, None


@triton.jit
def _swiglu_drop(
    G,
    sg,
    U,
    su,
    DO,
    OUT,
    DG,
    DU,
    n_cols,
    seed,
    p,
    BACKWARD: tl.constexpr,
    DROP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    flat = row * n_cols + cols
    g = tl.load(G + row * sg + cols, mask=mask, other=0.0).to(tl.float32)
    u = tl.load(U + row * su + cols, mask=mask, other=0.0).to(tl.float32)
    sig, scale = tl.sigmoid(g), tl.full((BLOCK,), 1.0, dtype=tl.float32)
    if DROP:
        scale = tl.where(tl.rand(seed, flat.to(tl.int32)) > p, 1.0 / (1.0 - p), 0.0)
    if BACKWARD:
        do = tl.load(DO + flat, mask=mask, other=0.0).to(tl.float32) * scale
        tl.store(DU + flat, do * g * sig, mask=mask)
        tl.store(DG + flat, do * u * sig * (1.0 + g * (1.0 - sig)), mask=mask)
    else:
        tl.store(OUT + flat, g * sig * u * scale, mask=mask)


class SwiGLUDropout(torch.autograd.Function):
    """dropout(silu(gate) * up); the keep mask is a function of ``seed`` and is drawn again in backward."""

    @staticmethod
    def forward(ctx, gate, up, p, seed):
        g, u = _rows(gate), _rows(up)
        out = torch.empty(g.shape, dtype=gate.dtype, device=gate.device)
        ctx.save_for_backward(g, u)
        ctx.cfg = (gate.shape, p, seed)
        grid = lambda meta: (g.shape[0], triton.cdiv(g.shape[1], meta["BLOCK"]))
        _swiglu_drop[grid](
            g,
            g.stride(0),
            u,
            u.stride(0),
            out,
            out,
            out,
            out,
            g.shape[1],
            seed,
            p,
            BACKWARD=False,
            DROP=p > 0,
            BLOCK=128,
        )
        return out.view(gate.shape)

    @staticmethod
    def backward(ctx, do):
        (g, u), (shape, p, seed), do = ctx.saved_tensors, ctx.cfg, do.contiguous()
        dg, du = torch.empty_like(do, dtype=g.dtype), torch.empty_like(do, dtype=u.dtype)
        grid = lambda meta: (g.shape[0], triton.cdiv(g.shape[1], meta["BLOCK"]))
        _swiglu_drop[grid](
            g,
            g.stride(0),
            u,
            u.stride(0),
            do,
            do,
            dg,
            du,
            g.shape[1],
            seed,
            p,
            BACKWARD=True,
            DROP=p > 0,
            BLOCK=128,
        )
        return dg.view(shape), du.view(shape), None, None


class GatedBlock(nn.Module):
    def __init__(self, dim, hidden, p=0.0):
        super().__init__()
        self.p, self.n1 = p, nn.Parameter(torch.zeros(dim))
        self.w, self.b = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.wi, self.wo = (
            nn.Linear(dim, 2 * hidden, bias=False),
            nn.Linear(hidden, dim, bias=False),
        )

    def forward(self, x, residual, seed=0):
        h, residual = AddLayerNorm.apply(x, residual, self.w, self.b, 1e-5)
        gate, up = self.wi(GemmaRMSNorm.apply(h, self.n1, 1e-6)).chunk(2, dim=-1)
        return self.wo(
            SwiGLUDropout.apply(gate, up, self.p if self.training else 0.0, seed)
        ), residual
