"""Point-cloud encoder layers and a box regression loss."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _linear_gelu_fwd(X, W, B, Z, Y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    xm, wn = om % M, on % N
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        ok = k + tl.arange(0, BK)
        x = tl.load(X + xm[:, None] * K + ok[None, :], mask=(ok < K)[None, :], other=0.0).to(
            tl.float32
        )
        w = tl.load(W + wn[None, :] * K + ok[:, None], mask=(ok < K)[:, None], other=0.0).to(
            tl.float32
        )
        acc += tl.dot(x, w, input_precision="ieee")
    z = acc + tl.load(B + wn).to(tl.float32)[None, :]
    mask = (om < M)[:, None] & (on < N)[None, :]
    offs = om[:, None] * N + on[None, :]
    tl.store(Z + offs, z, mask=mask)
    tl.store(Y + offs, 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476)), mask=mask)


@triton.jit
def _gelu_bwd(DY, Z, DZ, numel, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < numel
    dy = tl.load(DY + offs, mask=mask, other=0.0).to(tl.float32)
    z = tl.load(Z + offs, mask=mask, other=0.0)
    cdf = 0.5 * (1.0 + tl.erf(z * 0.7071067811865476))
    pdf = 0.3989422804014327 * tl.exp(-0.5 * z * z)
    tl.store(DZ + offs, dy * (cdf + z * pdf), mask=mask)


@triton.jit
def _dw_kernel(DZ, X, DW, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    ok = tl.program_id(1) * BK + tl.arange(0, BK)
    zn, xk = on % N, ok % K
    acc = tl.zeros((BN, BK), dtype=tl.float32)
    for m in range(0, M, BM):
        om = (m + tl.arange(0, BM)) % M
        dz = tl.load(DZ + om[None, :] * N + zn[:, None])
        x = tl.load(X + om[:, None] * K + xk[None, :]).to(tl.float32)
        acc += tl.dot(dz, x, input_precision="ieee")
    tl.store(DW + on[:, None] * K + ok[None, :], acc, mask=(on < N)[:, None] & (ok < K)[None, :])


class LinearGelu(torch.autograd.Function):
    """gelu(x @ weight.T + bias) for x (M, K), weight (N, K)."""

    TILE = dict(BM=32, BN=32, BK=32)

    @staticmethod
    def forward(ctx, x, weight, bias):
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        (M, K), N = x.shape, weight.shape[0]
        z = torch.empty((M, N), dtype=torch.float32, device=x.device)
        y = torch.empty((M, N), dtype=x.dtype, device=x.device)
        grid = lambda meta: (triton.cdiv(M, meta["BM"]), triton.cdiv(N, meta["BN"]))
        _linear_gelu_fwd[grid](x, weight, bias, z, y, M, N, K, **LinearGelu.TILE)
        ctx.save_for_backward(x, weight, z)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, z = ctx.saved_tensors
        (M, K), N = x.shape, weight.shape[0]
        dz = torch.empty_like(z)
        _gelu_bwd[(triton.cdiv(z.numel(), 512),)](dy.contiguous(), z, dz, z.numel(), BLOCK=512)
        dw = torch.empty_like(weight)
        grid = lambda meta: (triton.cdiv(N, meta["BN"]), triton.cdiv(K, meta["BK"]))
        _dw_kernel[grid](dz, x, dw, M, N, K, **LinearGelu.TILE)
        return (dz @ weight.float()).to(x.dtype), dw, dz.sum(0).to(x.dtype)


@triton.jit
def _seg_max_fwd(X, OFF, OUT, ARG, n_ch, arg_stride, BLOCK: tl.constexpr):
    s = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = c < n_ch
    best = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    arg = tl.full((BLOCK,), -1, dtype=tl.int32)
    for p in range(tl.load(OFF + s), tl.load(OFF + s + 1)):
        x = tl.load(X + p * n_ch + c, mask=mask, other=float("-inf")).to(tl.float32)
        arg = tl.where(x > best, p, arg).to(tl.int32)
        best = tl.maximum(x, best)
    tl.store(OUT + s * n_ch + c, tl.where(arg >= 0, best, 0.0), mask=mask)
    tl.store(ARG + s * arg_stride + c, arg, mask=mask)


@triton.jit
def _seg_max_bwd(DO, ARG, DX, n_ch, BLOCK: tl.constexpr):
    s = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = c < n_ch
    arg = tl.load(ARG + s * n_ch + c, mask=mask, other=-1)
    do = tl.load(DO + s * n_ch + c, mask=mask, other=0.0)
    tl.store(DX + arg.to(tl.int64) * n_ch + c, do, mask=mask & (arg >= 0))


class JaggedMaxPool(torch.autograd.Function):
    """Channel-wise max over each segment ``x[offsets[s]:offsets[s + 1]]``; empty segments give 0.

    x: (P, C); offsets: (S + 1,) int64.  Argmax rows are padded to 16 entries (64 B stores)."""

    @staticmethod
    def forward(ctx, x, offsets):
        x, offsets = x.contiguous(), offsets.contiguous()
        S, C = offsets.numel() - 1, x.shape[1]
        out = x.new_empty((S, C))
        arg = torch.full((S, triton.cdiv(C, 16) * 16), -1, dtype=torch.int32, device=x.device)
        ctx.BLOCK = min(128, triton.next_power_of_2(C))
        _seg_max_fwd[(S, triton.cdiv(C, ctx.BLOCK))](
            x, offsets, out, arg, C, arg.stride(0), BLOCK=ctx.BLOCK
        )
        ctx.save_for_backward(arg)
        ctx.n_points = x.shape[0]
        return out

    @staticmethod
    def backward(ctx, do):
        (arg,), (S, C) = ctx.saved_tensors, do.shape
        dx = torch.zeros((ctx.n_points, C), dtype=do.dtype, device=do.device)
        _seg_max_bwd[(S, triton.cdiv(C, ctx.BLOCK))](do.contiguous(), arg, dx, C, BLOCK=ctx.BLOCK)
        return dx, None


@triton.jit
def _lt(a, b):
    return tl.where(a < b, 1.0, tl.where(a == b, 0.5, 0.0))


@triton.jit
def _put(DP, DT, at, m, s, g_in, g_out, gp, gt):
    tl.store(DP + at, g_in * s + g_out * (1.0 - s) + gp, mask=m)
    tl.store(DT + at, g_in * (1.0 - s) + g_out * s + gt, mask=m)


@triton.jit
def _giou(P, T, GO, LOSS, DP, DT, n, eps, BACKWARD: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    px1, py1 = tl.load(P + i * 4, mask=m, other=0.0), tl.load(P + i * 4 + 1, mask=m, other=0.0)
    px2, py2 = tl.load(P + i * 4 + 2, mask=m, other=1.0), tl.load(P + i * 4 + 3, mask=m, other=1.0)
    tx1, ty1 = tl.load(T + i * 4, mask=m, other=0.0), tl.load(T + i * 4 + 1, mask=m, other=0.0)
    tx2, ty2 = tl.load(T + i * 4 + 2, mask=m, other=1.0), tl.load(T + i * 4 + 3, mask=m, other=1.0)
    pw, ph, tw, th = px2 - px1, py2 - py1, tx2 - tx1, ty2 - ty1
    iw = tl.maximum(tl.minimum(px2, tx2) - tl.maximum(px1, tx1), 0.0)
    ih = tl.maximum(tl.minimum(py2, ty2) - tl.maximum(py1, ty1), 0.0)
    ew = tl.maximum(px2, tx2) - tl.minimum(px1, tx1)
    eh = tl.maximum(py2, ty2) - tl.minimum(py1, ty1)
    inter, enc = iw * ih, ew * eh
    union = pw * ph + tw * th - inter
    iu, ie = 1.0 / (union + eps), 1.0 / (enc + eps)
    if BACKWARD:
        go = -tl.load(GO + i, mask=m, other=0.0)
        gu = go * (ie - inter * iu * iu)
        gi = tl.where((iw > 0) & (ih > 0), go * iu - gu, 0.0)
        ge = go * ((enc - union) * ie * ie - ie)
        ax, ay = gi * ih, gi * iw
        bx, by = ge * eh, ge * ew
        _put(DP, DT, i * 4, m, _lt(tx1, px1), -ax, -bx, -gu * ph, -gu * th)
        _put(DP, DT, i * 4 + 1, m, _lt(ty1, py1), -ay, -by, -gu * pw, -gu * tw)
        _put(DP, DT, i * 4 + 2, m, _lt(px2, tx2), ax, bx, gu * ph, gu * th)
        _put(DP, DT, i * 4 + 3, m, _lt(py2, ty2), ay, by, gu * pw, gu * tw)
    else:
        tl.store(LOSS + i, 1.0 - inter * iu + (enc - union) * ie, mask=m)


class GIoULoss(torch.autograd.Function):
    """1 - GIoU of paired xyxy boxes, (N, 4) and (N, 4) -> (N,). Differentiable in both."""

    @staticmethod
    def forward(ctx, pred, target, eps=1e-7):
        pred, target = pred.contiguous(), target.contiguous()
        loss = torch.empty(pred.shape[0], dtype=pred.dtype, device=pred.device)
        ctx.save_for_backward(pred, target)
        ctx.eps, n = eps, pred.shape[0]
        _giou[(triton.cdiv(n, 128),)](
            pred, target, loss, loss, loss, loss, n, eps, BACKWARD=False, BLOCK=128
        )
        return loss

    @staticmethod
    def backward(ctx, go):
        pred, target = ctx.saved_tensors
        dp, dt, n = torch.empty_like(pred), torch.empty_like(target), pred.shape[0]
        _giou[(triton.cdiv(n, 128),)](
            pred, target, go.contiguous(), go, dp, dt, n, ctx.eps, BACKWARD=True, BLOCK=128
        )
        return dp, dt, None


class PillarEncoder(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.randn(c_out, c_in) * 0.1),
            nn.Parameter(torch.zeros(c_out)),
        )

    def forward(self, points, offsets):
        return JaggedMaxPool.apply(LinearGelu.apply(points, self.weight, self.bias), offsets)


def box_loss(pred, target, weight=None):
    loss = GIoULoss.apply(pred, target, 1e-7)
    return loss.mean() if weight is None else (loss * weight).sum() / weight.sum().clamp(min=1e-6)
