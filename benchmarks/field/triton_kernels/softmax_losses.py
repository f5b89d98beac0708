import torch
import triton
import triton.language as tl


@triton.jit
def _masked_softmax_fwd(x_ptr, m_ptr, y_ptr, scale, H, Q, K, BLOCK: tl.constexpr):
    q = tl.program_id(0)
    bh = tl.program_id(1)
    row = bh * Q + q
    mrow = (bh // H) * Q + q
    cols = tl.arange(0, BLOCK)
    inb = cols < K
    x = tl.load(x_ptr + row * K + cols, mask=inb, other=0.0).to(tl.float32) * scale
    dead = tl.load(m_ptr + mrow * K + cols, mask=inb, other=1)
    x = tl.where(dead != 0, -1.0e30, x)
    e = tl.exp(x - tl.max(x, axis=0))
    e = tl.where(dead != 0, 0.0, e)
    s = tl.sum(e, axis=0)
    y = e / tl.where(s > 0.0, s, 1.0)
    tl.store(y_ptr + row * K + cols, y, mask=inb)


@triton.jit
def _masked_softmax_bwd(g_ptr, y_ptr, dx_ptr, scale, Q, K, BLOCK: tl.constexpr):
    row = tl.program_id(1) * Q + tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inb = cols < K
    g = tl.load(g_ptr + row * K + cols, mask=inb, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + row * K + cols, mask=inb, other=0.0).to(tl.float32)
    d = tl.sum(g * y, axis=0)
    tl.store(dx_ptr + row * K + cols, scale * y * (g - d), mask=inb)


class ScaledMaskedSoftmax(torch.autograd.Function):
    """softmax(scale * x) over the last axis.

    x is [B, H, Q, K], mask is bool [B, 1, Q, K] and True where a key is hidden.
    Rows without any visible key give zeros.
    """

    @staticmethod
    def forward(ctx, x, mask, scale):
        B, H, Q, K = x.shape
        x = x.contiguous()
        m = mask.to(torch.uint8).contiguous()
        y = torch.empty_like(x)
        BLOCK = triton.next_power_of_2(K)
        _masked_softmax_fwd[(Q, B * H)](x, m, y, scale, H, Q, K, BLOCK=BLOCK)
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        B, H, Q, K = y.shape
        dx = torch.empty_like(y)
        _masked_softmax_bwd[(Q, B * H)](g.contiguous(), y, dx, ctx.scale, Q, K, BLOCK=triton.next_power_of_2(K))
        return dx, None, None


@triton.jit
def _log_softmax_fwd(x_ptr, y_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * N
    y_ptr += row * N
    m = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        m = tl.maximum(m, tl.load(x_ptr + cols, mask=cols < N, other=float("-inf")))
    mx = tl.max(m, axis=0)
    acc = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        acc += tl.exp(tl.load(x_ptr + cols, mask=cols < N, other=float("-inf")) - mx)
    lse = mx + tl.log(tl.sum(acc, axis=0))
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < N, other=0.0)
        tl.store(y_ptr + cols, x - lse, mask=cols < N)


@triton.jit
def _log_softmax_bwd(g_ptr, y_ptr, dx_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    g_ptr += row * N
    y_ptr += row * N
    dx_ptr += row * N
    acc = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < N
        g = tl.load(g_ptr + cols, mask=mask, other=0.0)
        y = tl.load(y_ptr + cols, mask=mask, other=0.0)
        acc += g
        gsum = tl.sum(acc, axis=0)
        tl.store(dx_ptr + cols, g - tl.exp(y) * gsum, mask=mask)


class LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        N = x.shape[-1]
        y = torch.empty_like(x)
        BLOCK = min(128, triton.next_power_of_2(N))
        _log_softmax_fwd[(x.numel() // N,)](x, y, N, BLOCK=BLOCK)
        ctx.save_for_backward(y)
        ctx.BLOCK = BLOCK
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        N = y.shape[-1]
        dx = torch.empty_like(y)
        _log_softmax_bwd[(y.numel() // N,)](g.contiguous(), y, dx, N, BLOCK=ctx.BLOCK)
        return dx


@triton.jit
def _ce_fwd(x_ptr, t_ptr, loss_ptr, lse_ptr, C, ignore_index, smoothing, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    t = tl.load(t_ptr + row)
    x_ptr += row * C
    cols = tl.arange(0, BLOCK)
    mask = cols < C
    x = tl.load(x_ptr + cols, mask=mask, other=float("-inf")).to(tl.float32)
    mx = tl.max(x, axis=0)
    lse = mx + tl.log(tl.sum(tl.exp(x - mx), axis=0))
    tl.store(lse_ptr + row, lse)
    xt = tl.sum(tl.where(cols == t, x, 0.0), axis=0)
    mean_x = tl.sum(tl.where(mask, x, 0.0), axis=0) / C
    loss = lse - (1.0 - smoothing) * xt - smoothing * mean_x
    loss = tl.where(t == ignore_index, 0.0, loss)
    tl.store(loss_ptr + row, loss)


@triton.jit
def _ce_bwd(g_ptr, x_ptr, t_ptr, lse_ptr, dx_ptr, n_valid_ptr, C, smoothing, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    g = tl.load(g_ptr) / tl.load(n_valid_ptr)
    t = tl.load(t_ptr + row)
    lse = tl.load(lse_ptr + row)
    cols = tl.arange(0, BLOCK)
    mask = cols < C
    x = tl.load(x_ptr + row * C + cols, mask=mask, other=float("-inf")).to(tl.float32)
    p = tl.exp(x - lse)
    d = p - smoothing / C
    d = tl.where(cols == t, d - (1.0 - smoothing), d)
    tl.store(dx_ptr + row * C + cols, d * g, mask=mask)


class CrossEntropySmoothed(torch.autograd.Function):
    """Mean cross entropy over the tokens whose label is not ``ignore_index``."""

    @staticmethod
    def forward(ctx, logits, target, ignore_index=-100, label_smoothing=0.0):
        N, C = logits.shape
        logits, target = logits.contiguous(), target.contiguous()
        loss = torch.empty(N, dtype=torch.float32, device=logits.device)
        lse = torch.empty(N, dtype=torch.float32, device=logits.device)
        BLOCK = triton.next_power_of_2(C)
        _ce_fwd[(N,)](logits, target, loss, lse, C, ignore_index, label_smoothing, BLOCK=BLOCK)
        n_valid = (target != ignore_index).sum().clamp(min=1).to(torch.float32)
        ctx.save_for_backward(logits, target, lse, n_valid)
        ctx.smoothing = label_smoothing
        ctx.BLOCK = BLOCK
        return loss.sum() / n_valid

    @staticmethod
    def backward(ctx, g):
        logits, target, lse, n_valid = ctx.saved_tensors
        N, C = logits.shape
        dx = torch.empty_like(logits)
        _ce_bwd[(N,)](g.contiguous(), logits, target, lse, dx, n_valid, C, ctx.smoothing, BLOCK=ctx.BLOCK)
        return dx, None, None, None


@triton.jit
def _zloss_fwd(x_ptr, t_ptr, w_ptr, loss_ptr, lse_ptr, C: tl.constexpr, ignore_index, z, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    t = tl.load(t_ptr + row)
    m = -1.0e30
    s = 0.0
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * C + cols, mask=cols < C, other=float("-inf"))
        m_new = tl.maximum(m, tl.max(x, axis=0))
        s = s * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    lse = m + tl.log(s)
    tl.store(lse_ptr + row, lse)
    valid = t != ignore_index
    xt = tl.load(x_ptr + row * C + t, mask=valid, other=0.0)
    w = tl.load(w_ptr + t, mask=valid, other=0.0)
    loss = w * (lse - xt) + z * lse * lse
    tl.store(loss_ptr + row, tl.where(valid, loss, 0.0))


@triton.jit
def _zloss_bwd(g_ptr, x_ptr, t_ptr, w_ptr, lse_ptr, dx_ptr, C, ignore_index, z, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < C
    t = tl.load(t_ptr + row)
    valid = t != ignore_index
    g = tl.load(g_ptr + row)
    g = tl.where(valid, g, 0.0)
    w = tl.load(w_ptr + t, mask=valid, other=0.0)
    lse = tl.load(lse_ptr + row)
    x = tl.load(x_ptr + row * C + cols, mask=mask, other=float("-inf"))
    d = tl.exp(x - lse) * (w + 2.0 * z * lse)
    d = tl.where(cols == t, d - w, d)
    tl.store(dx_ptr + row * C + cols, g * d, mask=mask)


class WeightedCrossEntropyZLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, weight, z_weight=1e-4, ignore_index=-100):
        N, C = logits.shape
        logits = logits.contiguous()
        target = target.contiguous()
        weight = weight.contiguous()
        loss = torch.empty(N, dtype=torch.float32, device=logits.device)
        lse = torch.empty_like(loss)
        _zloss_fwd[(N,)](logits, target, weight, loss, lse, C, ignore_index, z_weight, BLOCK=64)
        ctx.save_for_backward(logits, target, weight, lse)
        ctx.z_weight, ctx.ignore_index = z_weight, ignore_index
        return loss

    @staticmethod
    def backward(ctx, g):
        logits, target, weight, lse = ctx.saved_tensors
        N, C = logits.shape
        dx = torch.empty_like(logits)
        _zloss_bwd[(N, triton.cdiv(C, 64))](
            g.contiguous(), logits, target, weight, lse, dx, C, ctx.ignore_index, ctx.z_weight, BLOCK=64
        )
        return dx, None, None, None, None
