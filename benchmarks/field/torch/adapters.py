"""Linear layers for adapters and weight-only quantisation.

Everything here takes inputs with any number of leading axes, the features come last.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function


class LoRALinearFn(Function):
    """y = x W^T + b + scaling * (x A^T) B^T"""

    @staticmethod
    def forward(ctx, x, weight, bias, lora_a, lora_b, scaling):
        # weight (out, in), lora_a (r, in), lora_b (out, r)
        out = F.linear(x, weight, bias)
        h = x @ lora_a.t()
        out = out + scaling * (h @ lora_b.t())
        ctx.save_for_backward(x, weight, lora_a, lora_b)
        ctx.scaling = scaling
        return out

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, lora_a, lora_b = ctx.saved_tensors
        g = grad_output.reshape(-1, grad_output.shape[-1])
        x2 = x.reshape(-1, x.shape[-1])

        grad_weight = grad_bias = None
        if ctx.needs_input_grad[1]:
            grad_weight = g.t() @ x2
        if ctx.needs_input_grad[2]:
            grad_bias = g.sum(0)
        gb = g @ lora_b                                     # (n, r)
        grad_x = g @ weight + ctx.scaling * (gb @ lora_a)
        grad_a = gb.t() @ x2
        grad_b = ctx.scaling * (g.t() @ (x2 @ lora_a.t()))
        return grad_x.view_as(x), grad_weight, grad_bias, grad_a, grad_b, None


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r: int = 8, alpha: int = 16):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(r, base.in_features) / base.in_features ** 0.5)
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, r))
        self.scaling = alpha / r

    def forward(self, x):
        return LoRALinearFn.apply(x, self.base.weight, self.base.bias,
                                  self.lora_a, self.lora_b, self.scaling)


class StandardizedLinearFn(Function):
    """Linear layer with scaled weight standardisation (NF-nets).

    Each row of the weight is brought to mean 0 and variance 1/fan_in, then multiplied by its gain.

    Parameters
    ----------
    x : (..., n_in)
    weight : (n_out, n_in)
    gain : (n_out,)
    bias : (n_out,)
    eps : float
        floor for fan_in * variance
    """

    @staticmethod
    def forward(ctx, x, weight, gain, bias, eps):
        n = weight.shape[1]
        centred = weight - weight.mean(1, keepdim=True)
        inv = torch.rsqrt(centred.pow(2).sum(1, keepdim=True) + eps)
        w_std = centred * inv
        ctx.save_for_backward(x, w_std, inv, gain)
        return F.linear(x, gain[:, None] * w_std, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gy):
        x, w_std, inv, gain = ctx.saved_tensors
        gx = gy @ (gain[:, None] * w_std)
        gy2 = gy.flatten(0, -2) if gy.dim() > 1 else gy[None]
        x2 = x.flatten(0, -2) if x.dim() > 1 else x[None]
        gw_eff = gy2.t() @ x2
        g_gain = (gw_eff * w_std).sum(1)
        gw = gw_eff * gain[:, None]
        gw = inv * (gw - w_std * (gw * w_std).sum(1, keepdim=True))
        gw = gw - gw.mean(1, keepdim=True)
        return gx, gw, g_gain, gy2.sum(0), None


class GroupedLinearFn(Function):

    @staticmethod
    def forward(ctx, x, weight, bias):
        """x: (..., groups * n_in), weight: (groups, n_out, n_in), bias: (groups * n_out,) or None"""
        groups, n_out, n_in = weight.shape
        xg = x.reshape(-1, groups, n_in)
        y = torch.einsum("bgi,goi->bgo", xg, weight).reshape(*x.shape[:-1], groups * n_out)
        ctx.save_for_backward(x, weight)
        ctx.with_bias = bias is not None
        return y if bias is None else y + bias

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        groups, n_out, n_in = weight.shape
        gg = grad.reshape(-1, groups, n_out)
        xg = x.reshape(-1, groups, n_in)
        dx = torch.einsum("bgo,goi->bgi", gg, weight).reshape(x.shape)
        dw = torch.einsum("bgo,bgi->goi", gg, xg)
        db = gg.sum(0).flatten() if ctx.with_bias else None
        return dx, dw, db


class GroupedLinear(nn.Module):
    def __init__(self, n_in, n_out, groups, bias=True):
        super().__init__()
        if n_in % groups or n_out % groups:
            raise ValueError("groups must divide n_in and n_out")
        self.weight = nn.Parameter(torch.empty(groups, n_out // groups, n_in // groups))
        nn.init.normal_(self.weight, std=(groups / n_in) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(n_out)) if bias else None

    def forward(self, x):
        return GroupedLinearFn.apply(x, self.weight, self.bias)


class DequantLinearFn(Function):
    """Linear with int8 weight and one trainable scale per output channel.

    The output is kept for the scale's gradient instead of the (larger) input.
    """

    @staticmethod
    def forward(ctx, x, qweight, scale, bias=None):
        y = (x @ qweight.to(x.dtype).t()) * scale
        if bias is not None:
            y = y + bias
        ctx.save_for_backward(qweight, scale, y)
        ctx.has_bias = bias is not None
        return y

    @staticmethod
    def backward(ctx, grad_y):
        qweight, scale, y = ctx.saved_tensors
        lead = tuple(range(grad_y.dim() - 1))
        grad_x = (grad_y * scale) @ qweight.to(grad_y.dtype)
        grad_scale = (grad_y * y).sum(lead) / scale
        grad_bias = grad_y.sum(lead) if ctx.has_bias else None
        return grad_x, None, grad_scale, grad_bias


@torch.no_grad()
def quantize_rows(weight, bits=8):
    top = 2 ** (bits - 1) - 1
    scale = weight.abs().amax(1).clamp(min=1e-8) / top
    q = torch.round(weight / scale[:, None]).clamp(-top, top).to(torch.int8)
    return q, scale


class W8Linear(nn.Module):
    def __init__(self, linear: nn.Linear):
        super().__init__()
        q, s = quantize_rows(linear.weight)
        self.register_buffer("qweight", q)
        self.scale = nn.Parameter(s)
        self.bias = linear.bias

    def forward(self, x):
        return DequantLinearFn.apply(x, self.qweight, self.scale, self.bias)


if __name__ == "__main__":
    m = nn.Sequential(LoRALinear(nn.Linear(12, 8)), GroupedLinear(8, 6, 2), W8Linear(nn.Linear(6, 3)))
    m(torch.randn(4, 12)).sum().backward()
