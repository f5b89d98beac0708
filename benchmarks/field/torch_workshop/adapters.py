"""Fused feed-forward blocks and low-rank adapters.

Naming follows the PEFT code base: ``A`` is (r, in), ``B`` is (out, r), base weights
are (out, in), activations are (..., in).
"""
import math
from typing import List, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _flat(t: torch.Tensor) -> torch.Tensor:
    return t.reshape(-1, t.shape[-1])


class LoRAMatmul(Function):
    """``x W^T + bias + scaling * (x A^T) B^T`` without materialising the merged weight."""

    @staticmethod
    def forward(ctx, x, W, A, B, bias: Optional[torch.Tensor], scaling: float = 1.0):
        low = x @ A.t()
        ctx.save_for_backward(x, W, A, B, low)
        ctx.scaling = scaling
        y = torch.addmm(_flat(x @ W.t()), _flat(low), B.t(), alpha=scaling)
        y = y.reshape(*x.shape[:-1], -1)
        return y if bias is None else y + bias

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, W, A, B, low = ctx.saved_tensors
        s = ctx.scaling
        dx = dW = dA = dB = dbias = None
        d_low = dy @ B
        if ctx.needs_input_grad[0]:
            dx = dy @ W + s * (d_low @ A)
        if ctx.needs_input_grad[1]:
            dW = _flat(dy).t() @ _flat(x)
        if ctx.needs_input_grad[2]:
            dA = _flat(d_low).t() @ _flat(x)
        if ctx.needs_input_grad[3]:
            dB = s * (_flat(dy).t() @ _flat(low))
        if ctx.needs_input_grad[4]:
            dbias = _flat(dy).sum(0)
        return dx, dW, dA, dB, dbias, None


class GatedActivation(Function):
    """``act(gate) * up`` from a packed (..., 2h) projection, gate half first.

    act: "silu" (SwiGLU), "quick_gelu" (``g * sigmoid(1.702 g)``, as in CLIP) or
    "relu2" (squared ReLU).
    """

    @staticmethod
    def forward(ctx, packed, act="silu"):
        gate, up = packed.chunk(2, dim=-1)
        ctx.save_for_backward(gate, up)
        ctx.act = act
        if act == "silu":
            return F.silu(gate) * up
        if act == "quick_gelu":
            return gate * torch.sigmoid(1.702 * gate) * up
        if act == "relu2":
            return gate.relu().square() * up
        raise ValueError(act)

    @staticmethod
    def backward(ctx, dy):
        gate, up = ctx.saved_tensors
        if ctx.act == "relu2":
            r = gate.relu()
            value, slope = r * r, 2 * r
        else:
            s = torch.sigmoid(gate if ctx.act == "silu" else 1.702 * gate)
            value, slope = gate * s, s * (1 + gate * (1 - s))
        return torch.cat([dy * up * slope, dy * value], dim=-1), None


class TanhMLP(Function):
    """A whole tanh network in one node: ``apply(x, skip, W1, b1, W2, b2, ...)``.

    x is (n, d0), W_l is (d_l, d_{l-1}); the last layer is linear. With ``skip`` the
    input is added to the output (d_last == d0). Only the activations are stored.
    """

    @staticmethod
    def forward(ctx, x, skip: bool, *params):
        acts: List[torch.Tensor] = [x]
        layers = len(params) // 2
        for l in range(layers):
            z = torch.addmm(params[2 * l + 1], acts[-1], params[2 * l].t())
            acts.append(z if l == layers - 1 else torch.tanh(z))
        ctx.skip, ctx.layers = skip, layers
        ctx.save_for_backward(*acts[:-1], *params[::2])
        return acts[-1] + x if skip else acts[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        acts, weights = ctx.saved_tensors[: ctx.layers], ctx.saved_tensors[ctx.layers:]
        grads: List[Optional[torch.Tensor]] = [None] * (2 * ctx.layers)
        delta = dy
        for l in reversed(range(ctx.layers)):
            grads[2 * l] = delta.t() @ acts[l]
            grads[2 * l + 1] = delta.sum(0)
            delta = delta @ weights[l]
            if l > 0:
                delta = delta * (1 - acts[l] ** 2)
        dx = delta + dy if ctx.skip else delta
        return (dx, None, *grads)


def make_norm_linear(eps: float = 1e-6, unit_offset: bool = False):
    """RMSNorm followed by a projection, ``eps`` baked in.

    With ``unit_offset`` the learned gain is ``1 + gamma`` (Gemma style).
    """

    class NormLinear(Function):
        @staticmethod
        def forward(x, gamma, weight):
            rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
            gain = 1 + gamma if unit_offset else gamma
            return (x * rstd * gain) @ weight.t(), rstd

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, rstd = output
            ctx.mark_non_differentiable(rstd)
            ctx.save_for_backward(*inputs, rstd)

        @staticmethod
        @once_differentiable
        def backward(ctx, dy, _):
            x, gamma, weight, rstd = ctx.saved_tensors
            gain = 1 + gamma if unit_offset else gamma
            xhat = x * rstd
            dn = dy @ weight
            d_weight = _flat(dy).t() @ _flat(xhat * gain)
            d_gamma = _flat(dn * xhat).sum(0)
            d_xhat = dn * gain
            dx = rstd * (d_xhat - xhat * (d_xhat * xhat).mean(-1, keepdim=True))
            return dx, d_gamma, d_weight

    return NormLinear


class DoRAWeight(Function):
    """Weight-decomposed adapter: ``m * V / |V|`` with ``V = W + scaling * B A``, row norms.

    The norm is differentiated (the paper's cheaper variant treats it as a constant).
    """

    @staticmethod
    def forward(ctx, W, A, B, m, scaling):
        V = W + scaling * (B @ A)
        norm = V.norm(dim=1, keepdim=True)
        unit = V / norm
        ctx.save_for_backward(A, B, m, unit, norm)
        ctx.scaling = scaling
        return m[:, None] * unit

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        A, B, m, unit, norm = ctx.saved_tensors
        along = (g * unit).sum(1)
        dV = (m[:, None] / norm) * (g - along[:, None] * unit)
        dA = ctx.scaling * (B.t() @ dV)
        dB = ctx.scaling * (dV @ A.t())
        return dV, dA, dB, along, None


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r: int = 8, alpha: float = 16.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.A = nn.Parameter(torch.randn(r, base.in_features) / math.sqrt(base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        self.scaling = alpha / r

    def forward(self, x):
        return LoRAMatmul.apply(x, self.base.weight, self.A, self.B, self.base.bias, self.scaling)


class DoRALinear(LoRALinear):
    def __init__(self, base, r=8, alpha=16.0):
        super().__init__(base, r, alpha)
        self.m = nn.Parameter(base.weight.detach().norm(dim=1))

    def forward(self, x):
        weight = DoRAWeight.apply(self.base.weight, self.A, self.B, self.m, self.scaling)
        return F.linear(x, weight, self.base.bias)


class FeedForward(nn.Module):
    """Pre-norm gated block: norm + packed projection, gate, down projection."""

    def __init__(self, width: int, hidden: int, act: str = "silu", unit_offset: bool = False):
        super().__init__()
        self.act = act
        self.gamma = nn.Parameter(torch.zeros(width) if unit_offset else torch.ones(width))
        self.packed = nn.Parameter(torch.randn(2 * hidden, width) / math.sqrt(width))
        self.down = LoRALinear(nn.Linear(hidden, width, bias=False))
        self._norm_linear = make_norm_linear(unit_offset=unit_offset)

    def forward(self, x):
        packed, _ = self._norm_linear.apply(x, self.gamma, self.packed)
        return x + self.down(GatedActivation.apply(packed, self.act))


class ResidualTanhNet(nn.Module):
    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.skip = widths[0] == widths[-1]

    def forward(self, x):
        return TanhMLP.apply(x, self.skip, *[p for l in self.layers for p in (l.weight, l.bias)])
