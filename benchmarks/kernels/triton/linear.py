"""silu(x @ w.T + b) by a tiled matmul; one strided matmul kernel serves the forward and both backward products."""
import torch
import triton
import triton.language as tl


@triton.jit
def _matmul(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, T: tl.constexpr):
    rm = tl.program_id(0) * T + tl.arange(0, T)
    rn = tl.program_id(1) * T + tl.arange(0, T)
    acc = tl.zeros((T, T), c_ptr.dtype.element_ty)
    for k0 in range(0, K, T):
        rk = k0 + tl.arange(0, T)
        a = tl.load(a_ptr + rm[:, None] * sam + rk[None, :] * sak,
                    mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * sbk + rn[None, :] * sbn,
                    mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee", out_dtype=c_ptr.dtype.element_ty)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def _bias_silu(z_ptr, bias_ptr, y_ptr, M, N, T: tl.constexpr):
    r = tl.program_id(0) * T + tl.arange(0, T)[:, None]
    c = tl.program_id(1) * T + tl.arange(0, T)[None, :]
    m = (r < M) & (c < N)
    z = tl.load(z_ptr + r * N + c, mask=m, other=0.0) + tl.load(bias_ptr + c, mask=c < N, other=0.0)
    tl.store(z_ptr + r * N + c, z, mask=m)
    tl.store(y_ptr + r * N + c, z * tl.sigmoid(z), mask=m)


@triton.jit
def _silu_bias_grad(dy_ptr, z_ptr, dz_ptr, db_ptr, M, N, T: tl.constexpr):
    """One program for T columns: dz for all rows, and the sum over rows as the bias gradient."""
    cols = tl.program_id(0) * T + tl.arange(0, T)
    db = tl.zeros((T,), dz_ptr.dtype.element_ty)
    for r0 in range(0, M, T):
        rows = r0 + tl.arange(0, T)
        m = (rows[:, None] < M) & (cols[None, :] < N)
        at = rows[:, None] * N + cols[None, :]
        z = tl.load(z_ptr + at, mask=m, other=0.0)
        dy = tl.load(dy_ptr + at, mask=m, other=0.0)
        s = tl.sigmoid(z)
        dz = dy * s * (1 + z * (1 - s))
        tl.store(dz_ptr + at, dz, mask=m)
        db += tl.sum(dz, axis=0)
    tl.store(db_ptr + cols, db, mask=cols < N)


def _mm(a, b):
    """a @ b for matrices of any strides."""
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    _matmul[(triton.cdiv(M, 16), triton.cdiv(N, 16))](
        a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), T=16)
    return c


class LinearSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        z = _mm(x, weight.t())
        y = torch.empty_like(z)
        M, N = z.shape
        _bias_silu[(triton.cdiv(M, 16), triton.cdiv(N, 16))](z, bias.contiguous(), y, M, N, T=16)
        ctx.save_for_backward(x, weight, z)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, z = ctx.saved_tensors
        M, N = z.shape
        dz, db = torch.empty_like(z), z.new_empty(N)
        _silu_bias_grad[(triton.cdiv(N, 16),)](dy.contiguous(), z, dz, db, M, N, T=16)
        dx = _mm(dz, weight)
        dw = _mm(dz.t(), x)
        return dx, dw, db


def linear_silu(x, weight, bias):
    """silu(x @ weight.T + bias): x (M, K), weight (N, K), bias (N,), any strides."""
    return LinearSilu.apply(x, weight, bias)
