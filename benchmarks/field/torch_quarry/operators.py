"""Aggregation, convolution, look-up, quantisation and sampling operators."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable


class SoftAggregateFunction(torch.autograd.Function):
    """Softmax-weighted aggregation of messages at their target nodes.

    Args:
        messages: ``(E, C)`` edge messages.
        index: ``(E,)`` target node of every edge.
        temperature: scalar or ``(C,)``, inverse temperature of the softmax.
        num_nodes: number of output rows; nodes without edges get zeros.
    """

    @staticmethod
    def forward(ctx, messages, index, temperature, num_nodes):
        logits = messages * temperature
        ids = index.unsqueeze(-1).expand_as(logits)
        shape = (num_nodes, messages.shape[1])
        peak = logits.new_full(shape, float("-inf")).scatter_reduce(0, ids, logits, "amax")
        weights = torch.exp(logits - peak[index])
        norm = logits.new_zeros(shape).index_add(0, index, weights)
        weights = weights / norm[index]
        out = logits.new_zeros(shape).index_add(0, index, weights * messages)
        ctx.save_for_backward(messages, index, temperature, weights, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        messages, index, temperature, weights, out = ctx.saved_tensors
        g = grad[index] * weights
        spread = messages - out[index]
        g_messages = g * (1 + spread)
        g_temperature = (g * messages * spread).sum_to_size(temperature.shape)
        return g_messages, None, g_temperature, None


class SoftAggregate(nn.Module):
    """Learnable aggregation, between the mean and the maximum."""

    def __init__(self, channels=None, init=1.0):
        super().__init__()
        size = () if channels is None else (channels,)
        self.temperature = nn.Parameter(torch.full(size, float(init)))

    def forward(self, messages, index, num_nodes):
        return SoftAggregateFunction.apply(messages, index, self.temperature, num_nodes)


class ReflectConv1dFunction(torch.autograd.Function):
    """Convolution of a signal that is mirrored at both ends.

    Parameters
    ----------
    x : (batch, in_channels, length)
    weight : (out_channels, in_channels // groups, taps), an odd number of taps
    bias : (out_channels,) or None
    stride, dilation, groups : int
    """

    @staticmethod
    def forward(ctx, x, weight, bias=None, stride=1, dilation=1, groups=1):
        pad = dilation * (weight.shape[-1] - 1) // 2
        padded = F.pad(x, (pad, pad), mode="reflect")
        ctx.save_for_backward(padded, weight)
        ctx.pad, ctx.has_bias = pad, bias is not None
        ctx.conv = dict(stride=stride, dilation=dilation, groups=groups)
        return F.conv1d(padded, weight, bias, **ctx.conv)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        padded, weight = ctx.saved_tensors
        grad = grad.contiguous()
        g_padded = nn.grad.conv1d_input(padded.shape, weight, grad, **ctx.conv)
        g_x = g_padded[..., ctx.pad : g_padded.shape[-1] - ctx.pad]
        g_weight = nn.grad.conv1d_weight(padded, weight.shape, grad, **ctx.conv)
        g_bias = grad.sum((0, 2)) if ctx.has_bias else None
        return g_x, g_weight, g_bias, None, None, None


class PiecewiseLinearTableFunction(torch.autograd.Function):
    """Read a table by linear interpolation, constant beyond its ends.

    :param x: queries of any shape
    :param knots: increasing abscissae, ``(K,)``
    :param values: ordinates, ``(K,)`` or ``(K, D)``
    :return: ``x.shape`` or ``x.shape + (D,)``
    """

    @staticmethod
    def forward(x, knots, values):
        low, share, _, _ = _locate(x, knots)
        if values.dim() == 2:
            share = share.unsqueeze(-1)
        return torch.lerp(values[low], values[low + 1], share.expand(values[low].shape))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, knots, values = ctx.saved_tensors
        low, share, width, inside = _locate(x, knots)
        rise = grad * (values[low + 1] - values[low])
        if values.dim() == 2:
            rise = rise.sum(-1)
        slope = torch.where(inside, rise / width, torch.zeros_like(rise))

        at = low.reshape(-1)
        s = slope.reshape(-1)
        u = share.reshape(-1)
        g_knots = torch.zeros_like(knots)
        g_knots = g_knots.index_add(0, at, -s * (1 - u)).index_add(0, at + 1, -s * u)

        rows = grad.reshape((-1,) + values.shape[1:])
        u = u.reshape((-1,) + (1,) * (values.dim() - 1))
        g_values = torch.zeros_like(values)
        g_values = g_values.index_add(0, at, rows * (1 - u)).index_add(0, at + 1, rows * u)
        return slope, g_knots, g_values


def _locate(x, knots):
    low = torch.searchsorted(knots, x.contiguous(), right=True) - 1
    low = low.clamp(0, knots.numel() - 2)
    width = knots[low + 1] - knots[low]
    raw = (x - knots[low]) / width
    return low, raw.clamp(0.0, 1.0), width, (raw >= 0) & (raw <= 1)


class BlockFloatSteFn(torch.autograd.Function):
    """Round to block floating point, straight-through.

    Blocks of ``block_size`` neighbours on the last axis share an exponent. The
    gradient passes through the rounding unchanged.
    """

    @staticmethod
    def forward(ctx, x, block_size=16, mantissa_bits=4):
        size = x.shape[-1]
        padded = F.pad(x, (0, -size % block_size))
        blocks = padded.unflatten(-1, (-1, block_size))
        peak = blocks.abs().amax(-1, keepdim=True)
        peak = torch.where(peak > 0, peak, torch.ones_like(peak))
        step = torch.exp2(torch.floor(torch.log2(peak)) - (mantissa_bits - 1))
        return (torch.round(blocks / step) * step).flatten(-2)[..., :size]

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


def _growth(s):
    tiny = s.abs() < 0.2
    safe = torch.where(tiny, torch.ones_like(s), s)
    value = torch.where(tiny, _series(s, _VALUE), torch.expm1(safe) / safe)
    slope = torch.where(
        tiny, _series(s, _SLOPE), (safe * torch.exp(safe) - torch.expm1(safe)) / safe.square()
    )
    return value, slope


_VALUE = (1.0, 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040, 1 / 40320, 1 / 362880, 1 / 3628800)
_SLOPE = (1 / 2, 1 / 3, 1 / 8, 1 / 30, 1 / 144, 1 / 840, 1 / 5760, 1 / 45360, 1 / 403200)


def _series(s, coefficients):
    total = torch.zeros_like(s)
    for c in reversed(coefficients):
        total = total * s + c
    return total


class GeneralizedParetoFromUniformFunction(torch.autograd.Function):

    @staticmethod
    def forward(ctx, u, loc, scale, shape):
        ctx.save_for_backward(u, loc, scale, shape)
        excess = -torch.log1p(-u)
        return loc + scale * excess * _growth(shape * excess)[0]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        u, loc, scale, shape = ctx.saved_tensors
        excess = -torch.log1p(-u)
        growth, growth_slope = _growth(shape * excess)
        g_u = grad * scale * torch.exp((shape + 1) * excess)
        g_scale = grad * excess * growth
        g_shape = grad * scale * excess.square() * growth_slope
        return (
            g_u.sum_to_size(u.shape),
            grad.sum_to_size(loc.shape),
            g_scale.sum_to_size(scale.shape),
            g_shape.sum_to_size(shape.shape),
        )
