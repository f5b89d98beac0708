"""Row softmax with a temperature, for matrices with any strides; rows of any length, block by block."""
import torch
import triton
import triton.language as tl


@triton.jit
def _softmax_kernel(x_ptr, y_ptr, scale, n_cols, stride_r, stride_c, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_row = x_ptr + row * stride_r
    y_row = y_ptr + row * n_cols
    top = tl.full((BLOCK,), float("-inf"), x_ptr.dtype.element_ty)
    for start in range(0, n_cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        top = tl.maximum(top, tl.load(x_row + c * stride_c, mask=c < n_cols, other=float("-inf")) * scale)
    peak = tl.max(top, axis=0)
    total = tl.zeros((BLOCK,), x_ptr.dtype.element_ty)
    for start in range(0, n_cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        e = tl.exp(tl.load(x_row + c * stride_c, mask=c < n_cols, other=float("-inf")) * scale - peak)
        total += e
        tl.store(y_row + c, e, mask=c < n_cols)
    denom = tl.sum(total, axis=0)
    for start in range(0, n_cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        tl.store(y_row + c, tl.load(y_row + c, mask=c < n_cols, other=0.0) / denom, mask=c < n_cols)


@triton.jit
def _softmax_grad_kernel(dy_ptr, y_ptr, dx_ptr, scale, n_cols, stride_gr, stride_gc, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    g_row = dy_ptr + row * stride_gr
    y_row = y_ptr + row * n_cols
    dot = tl.zeros((BLOCK,), y_ptr.dtype.element_ty)
    for start in range(0, n_cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        y = tl.load(y_row + c, mask=c < n_cols, other=0.0)
        g = tl.load(g_row + c * stride_gc, mask=c < n_cols, other=0.0)
        dot += y * g
    inner = tl.sum(dot, axis=0)
    for start in range(0, n_cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        live = c < n_cols
        p = tl.load(y_row + c, mask=live, other=0.0)
        dp = tl.load(g_row + c * stride_gc, mask=live, other=0.0)
        tl.store(dx_ptr + row * n_cols + c, scale * p * (dp - inner), mask=live)


class RowSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        rows, cols = x.shape
        y = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
        _softmax_kernel[(rows,)](x, y, scale, cols, x.stride(0), x.stride(1), BLOCK=16)
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        rows, cols = y.shape
        dx = torch.empty_like(y)
        _softmax_grad_kernel[(rows,)](dy, y, dx, ctx.scale, cols, dy.stride(0), dy.stride(1), BLOCK=16)
        return dx, None


def row_softmax(x, scale=1.0):
    """softmax(scale * x) along the rows of a (rows, cols) matrix, scale > 0; any strides."""
    return RowSoftmax.apply(x, float(scale))
