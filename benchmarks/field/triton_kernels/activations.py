import torch
import triton
import triton.language as tl


@triton.jit
def _swiglu_fwd_kernel(x_ptr, y_ptr, H, stride_x, stride_y, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < H
    gate = tl.load(x_ptr + row * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * stride_x + H + cols, mask=mask, other=0.0).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(y_ptr + row * stride_y + cols, y, mask=mask)


@triton.jit
def _swiglu_bwd_kernel(dy_ptr, x_ptr, dx_ptr, H, stride_dy, stride_x, stride_dx, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < H
    dy = tl.load(dy_ptr + row * stride_dy + cols, mask=mask, other=0.0).to(tl.float32)
    gate = tl.load(x_ptr + row * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * stride_x + H + cols, mask=mask, other=0.0).to(tl.float32)
    sig = tl.sigmoid(gate)
    d_up = dy * gate * sig
    d_gate = dy * up * sig * (1.0 + gate * (1.0 - sig))
    tl.store(dx_ptr + row * stride_dx + cols, d_up, mask=mask)
    tl.store(dx_ptr + row * stride_dx + H + cols, d_gate, mask=mask)


class SwiGLUFunction(torch.autograd.Function):
    """silu(gate) * up for a packed input ``[..., 2 * H]`` laid out as ``[gate | up]``."""

    @staticmethod
    def forward(ctx, x):
        H = x.shape[-1] // 2
        x2 = x.contiguous().view(-1, 2 * H)
        M = x2.shape[0]
        y = torch.empty((M, H), dtype=x.dtype, device=x.device)
        BLOCK = min(256, triton.next_power_of_2(H))
        _swiglu_fwd_kernel[(M, triton.cdiv(H, BLOCK))](x2, y, H, x2.stride(0), y.stride(0), BLOCK=BLOCK)
        ctx.save_for_backward(x2)
        ctx.BLOCK = BLOCK
        ctx.shape = x.shape
        return y.view(*x.shape[:-1], H)

    @staticmethod
    def backward(ctx, dy):
        (x2,) = ctx.saved_tensors
        M, H = x2.shape[0], x2.shape[1] // 2
        dy2 = dy.contiguous().view(M, H)
        dx = torch.empty_like(x2)
        _swiglu_bwd_kernel[(M, triton.cdiv(H, ctx.BLOCK))](
            dy2, x2, dx, H, dy2.stride(0), x2.stride(0), dx.stride(0), BLOCK=ctx.BLOCK
        )
        return dx.view(ctx.shape)


@triton.jit
def _gelu_tanh_fwd(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    u = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    t = 2.0 * tl.sigmoid(2.0 * u) - 1.0
    tl.store(y_ptr + offs, 0.5 * x * (1.0 + t), mask=mask)


@triton.jit
def _gelu_tanh_bwd(g_ptr, x_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    g = tl.load(g_ptr + offs, mask=mask)
    u = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    du = 0.7978845608028654 * (1.0 + 3.0 * 0.044715 * x * x)
    t = 2.0 * tl.sigmoid(2.0 * u) - 1.0
    dx = g * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * du)
    tl.store(dx_ptr + offs, dx, mask=mask)


class GeluTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        _gelu_tanh_fwd[(triton.cdiv(n, 512),)](x, y, n, BLOCK=512)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        g = g.contiguous()
        dx = torch.empty_like(x)
        n = x.numel()
        _gelu_tanh_bwd[(triton.cdiv(n, 512),)](g, x, dx, n, BLOCK=512)
        return dx


@triton.jit
def _dropout_add_fwd(x_ptr, r_ptr, keep_ptr, o_ptr, n, scale, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    r = tl.load(r_ptr + offs, mask=mask, other=0.0)
    keep = tl.load(keep_ptr + offs, mask=mask, other=0)
    out = tl.where(keep != 0, x * scale, 0.0) + r
    tl.store(o_ptr + offs, out, mask=mask)


@triton.jit
def _dropout_add_bwd(g_ptr, keep_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    g = tl.load(g_ptr + offs, mask=mask, other=0.0)
    keep = tl.load(keep_ptr + offs, mask=mask, other=0)
    tl.store(dx_ptr + offs, tl.where(keep != 0, g, 0.0), mask=mask)


class DropoutAdd(torch.autograd.Function):
    """residual + dropout(x), with the keep mask drawn by the caller (inverted dropout)."""

    @staticmethod
    def forward(ctx, x, residual, keep, p):
        x, residual = x.contiguous(), residual.contiguous()
        keep = keep.to(torch.uint8).contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        _dropout_add_fwd[(triton.cdiv(n, 1024),)](x, residual, keep, out, n, 1.0 / (1.0 - p), BLOCK=1024)
        ctx.save_for_backward(keep)
        return out

    @staticmethod
    def backward(ctx, g):
        (keep,) = ctx.saved_tensors
        g = g.contiguous()
        dx = torch.empty_like(g)
        n = g.numel()
        _dropout_add_bwd[(triton.cdiv(n, 1024),)](g, keep, dx, n, BLOCK=1024)
        return dx, g, None, None


@triton.jit
def _bias_silu_fwd(x_ptr, b_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    offs = rm[:, None] * N + rn[None, :]
    z = tl.load(x_ptr + offs, mask=mask, other=0.0) + tl.load(b_ptr + rn, mask=rn < N, other=0.0)[None, :]
    tl.store(y_ptr + offs, z * tl.sigmoid(z), mask=mask)


@triton.jit
def _bias_silu_bwd(g_ptr, x_ptr, b_ptr, dx_ptr, db_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    offs = rm[:, None] * N + rn[None, :]
    g = tl.load(g_ptr + offs, mask=mask, other=0.0)
    z = tl.load(x_ptr + offs, mask=mask, other=0.0) + tl.load(b_ptr + rn, mask=rn < N, other=0.0)[None, :]
    s = tl.sigmoid(z)
    dz = g * s * (1.0 + z * (1.0 - s))
    tl.store(dx_ptr + offs, dz, mask=mask)
    tl.atomic_add(db_ptr + rn, tl.sum(dz, axis=0), mask=rn < N)


class BiasSiLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        N = x.shape[-1]
        x2 = x.contiguous().view(-1, N)
        M = x2.shape[0]
        y = torch.empty_like(x2)
        grid = (triton.cdiv(M, 16), triton.cdiv(N, 64))
        _bias_silu_fwd[grid](x2, bias, y, M, N, BM=16, BN=64)
        ctx.save_for_backward(x2, bias)
        return y.view(x.shape)

    @staticmethod
    def backward(ctx, g):
        x2, bias = ctx.saved_tensors
        M, N = x2.shape
        shape = g.shape
        g = g.contiguous()
        dx = torch.empty_like(x2)
        db = torch.zeros(N, dtype=torch.float32, device=x2.device)
        grid = (triton.cdiv(M, 16), triton.cdiv(N, 64))
        _bias_silu_bwd[grid](g, x2, bias, dx, db, M, N, BM=16, BN=64)
        return dx.view(shape), db.to(bias.dtype)
