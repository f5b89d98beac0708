"""Reference (pure PyTorch) versions of the fused kernels used by the decoder blocks.

These are what we fall back to when Triton is missing.
"""
import math
from typing import Optional

import torch
from torch import nn, Tensor
import torch.nn.functional as F


def _gelu_and_grad(x: Tensor):
    cdf = 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
    pdf = torch.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return x * cdf, cdf + x * pdf


class RMSNormFunction(torch.autograd.Function):
    """
    y = x / rms(x) * (offset + w)

    `offset` is 0 for LLaMA-type checkpoints and 1 for Gemma-type ones, whose weights are stored
    around zero.
    """

    @staticmethod
    def forward(ctx, X: Tensor, W: Tensor, eps: float, offset: float = 0.0):
        shape = X.shape
        X = X.reshape(-1, shape[-1])
        rstd = torch.rsqrt(X.pow(2).mean(dim=-1, keepdim=True) + eps)
        Y = X * rstd * (offset + W)
        ctx.offset = offset
        ctx.save_for_backward(X, W, rstd)
        return Y.view(shape)

    @staticmethod
    def backward(ctx, dY: Tensor):
        X, W, rstd = ctx.saved_tensors
        shape = dY.shape
        dY = dY.reshape(-1, shape[-1])
        x_hat = X * rstd
        m = dY * W
        dX = rstd * (m - x_hat * (m * x_hat).mean(dim=-1, keepdim=True))
        dW = (dY * x_hat).sum(dim=0)
        return dX.view(shape), dW, None, None


class RMSNorm(nn.Module):
    def __init__(self, hidden_size: int, eps: float = 1e-6, offset: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((hidden_size,), 1.0 - offset))
        self.eps = eps
        self.offset = offset

    def forward(self, x: Tensor) -> Tensor:
        return RMSNormFunction.apply(x, self.weight, self.eps, self.offset)

    def extra_repr(self):
        return f"{tuple(self.weight.shape)}, eps={self.eps}, offset={self.offset}"


class FusedSwiGLU(torch.autograd.Function):
    """w_down( silu(x w_gate) * (x w_up) ), nothing of the hidden width is kept for backward."""

    @staticmethod
    def forward(x, w_gate, w_up, w_down):
        # x [..., d]; w_gate, w_up [f, d]; w_down [d_out, f]
        return F.linear(F.silu(F.linear(x, w_gate)) * F.linear(x, w_up), w_down)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, w_gate, w_up, w_down = ctx.saved_tensors
        x2 = x.reshape(-1, x.shape[-1])
        g2 = grad.reshape(-1, grad.shape[-1])
        gate = x2 @ w_gate.t()
        up = x2 @ w_up.t()
        sig = torch.sigmoid(gate)
        act = gate * sig
        d_hidden = g2 @ w_down
        d_up = d_hidden * act
        d_gate = d_hidden * up * (sig + act * (1 - sig))
        dx = d_gate @ w_gate + d_up @ w_up
        return dx.view_as(x), d_gate.t() @ x2, d_up.t() @ x2, g2.t() @ (act * up)


class BiasGeGLU(torch.autograd.Function):
    # value half first, gate half second (T5 v1.1 order)

    @staticmethod
    def forward(ctx, x: Tensor, bias: Tensor) -> Tensor:
        value, gate = (x + bias).chunk(2, dim=-1)
        ctx.save_for_backward(x, bias)
        return value * F.gelu(gate)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        x, bias = ctx.saved_tensors
        value, gate = x.chunk(2, dim=-1)
        act, dact = _gelu_and_grad(gate)
        grad_x = torch.cat([grad_output * act, grad_output * value * dact], dim=-1)
        grad_bias = grad_x.reshape(-1, bias.numel()).sum(0)
        return grad_x, grad_bias


def bias_geglu(x, bias):
    return BiasGeGLU.apply(x, bias)


def _cos_sin(positions, dim, base, dtype):
    inv_freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=positions.device) / dim)
    angle = positions.to(torch.float64)[..., None] * inv_freq
    # [T, 1, dim/2] or [B, T, 1, dim/2]
    return angle.cos().to(dtype).unsqueeze(-2), angle.sin().to(dtype).unsqueeze(-2)


def _rotate(x, cos, sin, interleaved):
    if interleaved:
        x1, x2 = x[..., ::2], x[..., 1::2]
        return torch.stack([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1).flatten(-2)
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


class ApplyRotary(torch.autograd.Function):
    """Rotary position embedding.

    Parameters
    ----------
    x : Tensor, shape (batch, seq, heads, head_dim)
    positions : LongTensor, shape (seq,) or (batch, seq)
    rotary_dim : int, optional
        Only the leading `rotary_dim` features are rotated (GPT-J, phi). All of them if None.
    base : float
    interleaved : bool
        Pair features (0, 1), (2, 3) ... instead of (0, d/2), (1, d/2 + 1) ...
    """

    @staticmethod
    def forward(ctx, x, positions, rotary_dim: Optional[int] = None, base=10000.0, interleaved=False):
        rotary_dim = x.shape[-1] if rotary_dim is None else rotary_dim
        cos, sin = _cos_sin(positions, rotary_dim, base, x.dtype)
        ctx.save_for_backward(cos, sin)
        ctx.rotary_dim = rotary_dim
        ctx.interleaved = interleaved
        rot = _rotate(x[..., :rotary_dim], cos, sin, interleaved)
        return torch.cat([rot, x[..., rotary_dim:]], dim=-1)

    @staticmethod
    def backward(ctx, do):
        cos, sin = ctx.saved_tensors
        r = ctx.rotary_dim
        rot = _rotate(do[..., :r], cos, -sin, ctx.interleaved)
        return torch.cat([rot, do[..., r:]], dim=-1), None, None, None, None


class MLP(nn.Module):
    def __init__(self, d, f):
        super().__init__()
        self.norm = RMSNorm(d, offset=1.0)
        self.w_gate = nn.Parameter(torch.randn(f, d) / d ** 0.5)
        self.w_up = nn.Parameter(torch.randn(f, d) / d ** 0.5)
        self.w_down = nn.Parameter(torch.randn(d, f) / f ** 0.5)

    def forward(self, x):
        return x + FusedSwiGLU.apply(self.norm(x), self.w_gate, self.w_up, self.w_down)


if __name__ == "__main__":
    torch.manual_seed(0)
    blk = MLP(16, 40)
    h = blk(torch.randn(2, 5, 16))
    h = ApplyRotary.apply(h.view(2, 5, 2, 8), torch.arange(5), 4)
    print(bias_geglu(h, torch.zeros(8)).shape)
