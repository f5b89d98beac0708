# Low-bit weights and auxiliary-loss plumbing.
import torch
from torch import nn
from torch.autograd import Function


def _levels(bits):
    return float(2 ** bits - 1)


class DoReFaWeightFn(Function):
    """k-bit weight quantiser with a straight-through rounding step.

    ``t = tanh(w)`` is scaled by its largest magnitude into [0, 1], rounded to
    ``2**bits - 1`` steps and mapped back to [-1, 1]. The backward pass treats the
    rounding as the identity (straight-through estimator) and differentiates
    everything else, the scaling by the maximum included.
    """

    @staticmethod
    def forward(w, bits: int = 4):
        t = torch.tanh(w)
        peak = t.abs().amax().clamp_min(torch.finfo(w.dtype).tiny)
        n = _levels(bits)
        unit = 0.5 * t / peak + 0.5
        return 2.0 * torch.round(unit * n) / n - 1.0

    @staticmethod
    def setup_context(ctx, inputs, output):
        (w, _bits) = inputs
        ctx.save_for_backward(w)

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        t = torch.tanh(w)
        mag = t.abs()
        peak = mag.amax().clamp_min(torch.finfo(w.dtype).tiny)
        at_peak = (mag == peak).to(w.dtype)
        share = at_peak / at_peak.sum().clamp_min(1.0)
        g_peak = -(g * (t / peak)).sum() / peak
        g_t = g / peak + g_peak * share * torch.sign(t)
        return g_t * (1.0 - t * t), None


class DoReFaLinear(nn.Linear):
    def __init__(self, in_features, out_features, bits=4, bias=True):
        super().__init__(in_features, out_features, bias)
        self.bits = bits

    def forward(self, x):
        return nn.functional.linear(x, DoReFaWeightFn.apply(self.weight, self.bits), self.bias)


class AuxLossScaler(Function):
    """Attach an auxiliary loss to an activation.

    The forward pass returns ``hidden`` unchanged. The backward pass deliberately
    injects the constant ``scale`` as the gradient of ``aux_loss``, whatever the
    incoming gradient is, so that the auxiliary loss trains beside the main one
    without being added to it; ``hidden`` receives its gradient as is.
    """

    @classmethod
    def forward(cls, ctx, hidden: torch.Tensor, aux_loss: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        ctx.save_for_backward(aux_loss)
        ctx.scale = scale
        return hidden.view_as(hidden)

    @classmethod
    def backward(cls, ctx, grad_hidden):
        (aux_loss,) = ctx.saved_tensors
        return grad_hidden, torch.full_like(aux_loss, ctx.scale), None


class GroupDequantLinearFunction(Function):
    """``y = x @ W.T + bias`` with ``W`` held as group-wise affine integer codes.

    Args:
        x: ``(..., in_features)`` activations.
        codes: ``(out_features, in_features)`` integer codes, constant.
        scales: ``(out_features, in_features // group_size)`` trainable scales.
        zeros: zero points shaped like ``scales`` (zero for symmetric codes), trainable.
        bias: ``(out_features,)`` or ``None``.
        group_size: number of input columns that share a scale.
    """

    @staticmethod
    def forward(ctx, x, codes, scales, zeros, bias=None, group_size=32):
        out_f, in_f = codes.shape
        q = codes.to(x.dtype).view(out_f, in_f // group_size, group_size)
        weight = ((q - zeros.unsqueeze(-1)) * scales.unsqueeze(-1)).reshape(out_f, in_f)
        ctx.save_for_backward(x, codes, scales, zeros)
        ctx.group_size = group_size
        ctx.has_bias = bias is not None
        y = x @ weight.t()
        return y if bias is None else y + bias

    @staticmethod
    def backward(ctx, grad_y):
        x, codes, scales, zeros = ctx.saved_tensors
        out_f, in_f = codes.shape
        grouped = (out_f, in_f // ctx.group_size, ctx.group_size)
        q = codes.to(x.dtype).view(grouped)

        gx = gs = gz = gb = None
        if ctx.needs_input_grad[0]:
            weight = ((q - zeros.unsqueeze(-1)) * scales.unsqueeze(-1)).reshape(out_f, in_f)
            gx = grad_y @ weight
        if ctx.needs_input_grad[2] or ctx.needs_input_grad[3]:
            gw = grad_y.reshape(-1, out_f).t() @ x.reshape(-1, in_f)
            gw = gw.view(grouped)
            gs = (gw * q).sum(-1)
            gz = -(gw.sum(-1) * scales)
        if ctx.has_bias and ctx.needs_input_grad[4]:
            gb = grad_y.reshape(-1, out_f).sum(0)
        return gx, None, gs, gz, gb, None


class GroupDequantLinear(nn.Module):
    def __init__(self, codes, scales, zeros=None, bias=None, group_size=32):
        super().__init__()
        self.register_buffer("codes", codes)
        self.scales = nn.Parameter(scales)
        self.zeros = nn.Parameter(torch.zeros_like(scales) if zeros is None else zeros)
        self.bias = None if bias is None else nn.Parameter(bias)
        self.group_size = group_size

    def forward(self, x):
        return GroupDequantLinearFunction.apply(x, self.codes, self.scales, self.zeros, self.bias, self.group_size)
