"""Two losses that return a mean: cross entropy with ignored rows and label smoothing, and Huber."""
import torch
import triton
import triton.language as tl

BLOCK_V = 16
BLOCK_H = 32


@triton.jit
def _xent_fwd(logits, labels, losses, lses, V, ignore, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    base = logits + row * V
    m = tl.full((1,), float("-inf"), logits.dtype.element_ty)
    s = tl.zeros((1,), logits.dtype.element_ty)
    xsum = tl.zeros((1,), logits.dtype.element_ty)
    for start in range(0, V, BLOCK):
        v = start + tl.arange(0, BLOCK)
        x = tl.load(base + v, mask=v < V, other=float("-inf"))
        m_new = tl.maximum(m, tl.max(x, axis=0))
        s = s * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)
        xsum += tl.sum(tl.where(v < V, x, 0.0), axis=0)
        m = m_new
    lse = m + tl.log(s)
    label = tl.load(labels + row)
    counted = label != ignore
    target = tl.load(base + label, mask=counted, other=0.0)
    loss = lse - (1 - eps) * target - eps * xsum / V
    one = tl.arange(0, 1)
    tl.store(losses + row + one, tl.where(counted, loss, 0.0))
    tl.store(lses + row + one, lse)


@triton.jit
def _xent_bwd(dloss, logits, labels, lses, count, dlogits, V, ignore, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    v = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = v < V
    label = tl.load(labels + row)
    lse = tl.load(lses + row)
    x = tl.load(logits + row * V + v, mask=inside, other=float("-inf"))
    g = tl.load(dloss) / tl.load(count)
    g = tl.where(label != ignore, g, 0.0)
    prob = tl.exp(x - lse)
    grad = prob - eps / V - tl.where(v == label, 1 - eps, 0.0)
    tl.store(dlogits + row * V + v, grad * g, mask=inside)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels, ignore_index, smoothing):
        logits, labels = logits.contiguous(), labels.contiguous()
        N, V = logits.shape
        losses, lses = logits.new_empty(N), logits.new_empty(N)
        _xent_fwd[(N,)](logits, labels, losses, lses, V, ignore_index, smoothing, BLOCK=BLOCK_V)
        count = (labels != ignore_index).sum().clamp(min=1).to(logits.dtype)
        ctx.save_for_backward(logits, labels, lses, count)
        ctx.ignore_index, ctx.smoothing = ignore_index, smoothing
        return losses.sum() / count

    @staticmethod
    def backward(ctx, dloss):
        logits, labels, lses, count = ctx.saved_tensors
        N, V = logits.shape
        dlogits = torch.empty_like(logits)
        _xent_bwd[(N, triton.cdiv(V, BLOCK_V))](
            dloss, logits, labels, lses, count, dlogits, V, ctx.ignore_index, ctx.smoothing, BLOCK=BLOCK_V)
        return dlogits, None, None, None


def cross_entropy(logits, labels, ignore_index=-100, smoothing=0.0):
    """Mean over rows whose label is not ignore_index (0 if there is none). logits (N, V), labels (N,) int64."""
    return CrossEntropy.apply(logits, labels, ignore_index, smoothing)


@triton.jit
def _huber_fwd(p_ptr, t_ptr, sums_ptr, n, delta, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(p_ptr + i, mask=i < n, other=0.0) - tl.load(t_ptr + i, mask=i < n, other=0.0)
    a = tl.abs(d)
    value = tl.where(a <= delta, 0.5 * d * d, delta * (a - 0.5 * delta))
    tl.store(sums_ptr + pid, tl.sum(value, axis=0))


@triton.jit
def _huber_bwd(g_ptr, p_ptr, t_ptr, dp_ptr, dt_ptr, n, delta, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = i < n
    diff = tl.load(p_ptr + i, mask=valid, other=0.0) - tl.load(t_ptr + i, mask=valid, other=0.0)
    slope = tl.minimum(tl.maximum(diff, -delta), delta)
    grad = tl.load(g_ptr) * slope / n
    tl.store(dp_ptr + i, grad, mask=valid)
    tl.store(dt_ptr + i, -grad, mask=valid)


class HuberMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, pred, target, delta):
        pred, target = pred.contiguous(), target.contiguous()
        n = pred.numel()
        blocks = triton.cdiv(n, BLOCK_H)
        sums = pred.new_empty(blocks)
        _huber_fwd[(blocks,)](pred, target, sums, n, delta, BLOCK=BLOCK_H)
        ctx.save_for_backward(pred, target)
        ctx.delta = delta
        return sums.sum() / n

    @staticmethod
    def backward(ctx, g):
        pred, target = ctx.saved_tensors
        dp, dt = torch.empty_like(pred), torch.empty_like(target)
        n = pred.numel()
        _huber_bwd[(triton.cdiv(n, BLOCK_H),)](g, pred, target, dp, dt, n, ctx.delta, BLOCK=BLOCK_H)
        return dp, dt, None


def huber_mean(pred, target, delta=1.0):
    """Mean Huber loss over all elements of two tensors of one shape; both are differentiable."""
    return HuberMean.apply(pred, target, float(delta))
