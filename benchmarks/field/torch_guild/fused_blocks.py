"""Memory-lean building blocks for sequence models.

Each block keeps only what its backward pass needs and recomputes the rest.
"""
from __future__ import annotations

from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = [
    "DynamicTanhFunction",
    "ModulatedRMSNormFunction",
    "LoRALinearFunction",
    "ClippedLSTMCellFunction",
    "SimPOLossFunction",
    "DynamicTanh",
    "ModulatedRMSNorm",
    "LoRALinear",
    "ClippedLSTM",
    "simpo_loss",
]


def _flatten_rows(t: Tensor) -> Tensor:
    return t.reshape(-1, t.shape[-1])


class DynamicTanhFunction(torch.autograd.Function):
    """Elementwise replacement of layer norm: ``gamma * tanh(alpha * x) + beta``.

    Args:
        x: Tensor of shape ``(..., dim)``.
        alpha: Scalar steepness, a tensor with a single element.
        gamma: Gain of shape ``(dim,)``.
        beta: Offset of shape ``(dim,)`` or ``None``.
    """

    @staticmethod
    def forward(ctx, x: Tensor, alpha: Tensor, gamma: Tensor, beta: Optional[Tensor] = None) -> Tensor:
        t = torch.tanh(alpha * x)
        ctx.save_for_backward(x, alpha, gamma)
        ctx.has_beta = beta is not None
        y = t * gamma
        return y + beta if beta is not None else y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, alpha, gamma = ctx.saved_tensors
        t = torch.tanh(alpha * x)
        du = dy * gamma * (1.0 - t * t)
        dx = du * alpha
        dalpha = (du * x).sum().reshape(alpha.shape)
        dgamma = _flatten_rows(dy * t).sum(0)
        dbeta = _flatten_rows(dy).sum(0) if ctx.has_beta else None
        return dx, dalpha, dgamma, dbeta


class DynamicTanh(nn.Module):
    def __init__(self, dim: int, init_alpha: float = 0.5, bias: bool = True):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), init_alpha))
        self.gamma = nn.Parameter(torch.ones(dim))
        self.beta = nn.Parameter(torch.zeros(dim)) if bias else None

    def forward(self, x):
        return DynamicTanhFunction.apply(x, self.alpha, self.gamma, self.beta)


class ModulatedRMSNormFunction(torch.autograd.Function):
    """RMS norm followed by the per-sample modulation of adaptive transformers.

    ``y = x / rms(x) * (offset + weight) * (1 + scale) + shift``

    Args:
        x (Tensor): activations ``(batch, ..., dim)``.
        weight (Tensor): gain ``(dim,)``.
        scale (Tensor): per-sample scale ``(batch, dim)``.
        shift (Tensor): per-sample shift ``(batch, dim)``.
        eps (float): added to the mean square.
        offset (float): 0.0 for Llama-like gains, 1.0 for gains that are stored
            around zero as Gemma does.
    """

    @staticmethod
    def _expand(mod: Tensor, ndim: int) -> Tensor:
        return mod.reshape(mod.shape[0], *([1] * (ndim - 2)), mod.shape[-1])

    @staticmethod
    def forward(ctx, x, weight, scale, shift, eps=1e-6, offset=0.0):
        rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        s = ModulatedRMSNormFunction._expand(scale, x.dim())
        b = ModulatedRMSNormFunction._expand(shift, x.dim())
        ctx.save_for_backward(x, weight, scale, rstd)
        ctx.offset = offset
        return x * rstd * (weight + offset) * (1 + s) + b

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, weight, scale, rstd = ctx.saved_tensors
        s = ModulatedRMSNormFunction._expand(scale, x.dim())
        xhat = x * rstd
        dmod = dy * (1 + s)

        dxhat = dmod * weight
        dx = rstd * (dxhat - xhat * (dxhat * xhat).mean(-1, keepdim=True))

        dweight = _flatten_rows(dmod * xhat).sum(0)
        middle = tuple(range(1, x.dim() - 1))
        dscale = dy * xhat * (weight + ctx.offset)
        dshift = dy
        if middle:
            dscale = dscale.sum(middle)
            dshift = dshift.sum(middle)
        return dx, dweight, dscale, dshift, None, None


class ModulatedRMSNorm(nn.Module):
    def __init__(self, dim: int, cond_dim: int, eps: float = 1e-6, zero_centered: bool = False):
        super().__init__()
        self.eps = eps
        self.offset = 1.0 if zero_centered else 0.0
        self.weight = nn.Parameter(torch.zeros(dim) if zero_centered else torch.ones(dim))
        self.to_mod = nn.Linear(cond_dim, 2 * dim)

    def forward(self, x, cond):
        scale, shift = self.to_mod(cond).chunk(2, dim=-1)
        return ModulatedRMSNormFunction.apply(x, self.weight, scale, shift, self.eps, self.offset)


class LoRALinearFunction(torch.autograd.Function):

    @staticmethod
    def forward(x, weight, bias, lora_a, lora_b, scaling):
        y = F.linear(x, weight, bias)
        return y + scaling * F.linear(F.linear(x, lora_a), lora_b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias, lora_a, lora_b, scaling = inputs
        ctx.save_for_backward(x, weight, lora_a, lora_b)
        ctx.scaling = scaling

    @staticmethod
    def backward(ctx, grad):
        x, weight, lora_a, lora_b = ctx.saved_tensors
        need_x, need_w, need_bias, need_a, need_b, _ = ctx.needs_input_grad
        gx = gw = gbias = ga = gb = None
        g2 = _flatten_rows(grad)
        x2 = _flatten_rows(x)
        g_low = ctx.scaling * (g2 @ lora_b)
        if need_x:
            gx = (g2 @ weight + g_low @ lora_a).reshape(x.shape)
        if need_w:
            gw = g2.t() @ x2
        if need_bias:
            gbias = g2.sum(0)
        if need_a:
            ga = g_low.t() @ x2
        if need_b:
            gb = ctx.scaling * (g2.t() @ (x2 @ lora_a.t()))
        return gx, gw, gbias, ga, gb, None


class LoRALinear(nn.Module):
    """A linear layer with a frozen base weight and a trainable low-rank update."""

    def __init__(self, in_features, out_features, r=8, lora_alpha=16.0, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None
        self.lora_a = nn.Parameter(torch.empty(r, in_features))
        self.lora_b = nn.Parameter(torch.zeros(out_features, r))
        self.scaling = lora_alpha / r
        nn.init.xavier_uniform_(self.weight)
        nn.init.kaiming_uniform_(self.lora_a)

    def forward(self, x):
        return LoRALinearFunction.apply(
            x, self.weight, self.bias, self.lora_a, self.lora_b, self.scaling
        )


class ClippedLSTMCellFunction(torch.autograd.Function):
    """Pointwise part of an LSTM cell.

    :param gates: pre-activations ``(batch, 4 * hidden)`` in the order input,
        forget, candidate, output
    :param cell: previous cell state ``(batch, hidden)``
    :param forget_bias: constant added to the forget pre-activation
    :param cell_clip: if given, the new cell state is clamped to
        ``[-cell_clip, cell_clip]`` before it is used and returned
    :returns: ``(hidden, new_cell)``
    """

    @staticmethod
    def forward(ctx, gates: Tensor, cell: Tensor, forget_bias: float = 0.0,
                cell_clip: Optional[float] = None) -> Tuple[Tensor, Tensor]:
        i, f, g, o = gates.chunk(4, dim=-1)
        i, f = torch.sigmoid(i), torch.sigmoid(f + forget_bias)
        g, o = torch.tanh(g), torch.sigmoid(o)
        raw = f * cell + i * g
        new_cell = raw if cell_clip is None else raw.clamp(-cell_clip, cell_clip)
        ctx.save_for_backward(i, f, g, o, cell, raw)
        ctx.cell_clip = cell_clip
        return o * torch.tanh(new_cell), new_cell

    @staticmethod
    @once_differentiable
    def backward(ctx, dh, dc):
        i, f, g, o, cell, raw = ctx.saved_tensors
        clip = ctx.cell_clip
        new_cell = raw if clip is None else raw.clamp(-clip, clip)
        t = torch.tanh(new_cell)
        dcell = dc + dh * o * (1 - t * t)
        if clip is not None:
            dcell = dcell * (raw.abs() <= clip).to(dcell.dtype)
        dgates = torch.cat(
            (
                dcell * g * i * (1 - i),
                dcell * cell * f * (1 - f),
                dcell * i * (1 - g * g),
                dh * t * o * (1 - o),
            ),
            dim=-1,
        )
        return dgates, dcell * f, None, None


class ClippedLSTM(nn.Module):
    def __init__(self, input_size, hidden_size, cell_clip=None, forget_bias=1.0):
        super().__init__()
        self.wx = nn.Linear(input_size, 4 * hidden_size)
        self.wh = nn.Linear(hidden_size, 4 * hidden_size, bias=False)
        self.hidden_size = hidden_size
        self.cell_clip = cell_clip
        self.forget_bias = forget_bias

    def forward(self, x):
        h = c = x.new_zeros(x.shape[1], self.hidden_size)
        outs = []
        for step in self.wx(x):
            h, c = ClippedLSTMCellFunction.apply(
                step + self.wh(h), c, self.forget_bias, self.cell_clip
            )
            outs.append(h)
        return torch.stack(outs), (h, c)


class SimPOLossFunction(torch.autograd.Function):
    """Reference-free preference loss on length-normalised log-probabilities.

    Args:
        chosen_logps: Summed token log-probabilities of the preferred answers, ``(batch,)``.
        rejected_logps: The same for the other answers, ``(batch,)``.
        chosen_len: Number of answer tokens, ``(batch,)``.
        rejected_len: Number of answer tokens, ``(batch,)``.
        beta: Inverse temperature.
        gamma: Target margin.
        label_smoothing: Probability that a preference label is flipped.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    @staticmethod
    def forward(ctx, chosen_logps, rejected_logps, chosen_len, rejected_len,
                beta=2.0, gamma=0.5, label_smoothing=0.0, reduction="mean"):
        margin = chosen_logps / chosen_len - rejected_logps / rejected_len
        logits = beta * margin - gamma
        loss = -(1 - label_smoothing) * F.logsigmoid(logits) - label_smoothing * F.logsigmoid(-logits)
        dlogits = label_smoothing * torch.sigmoid(logits) - (1 - label_smoothing) * torch.sigmoid(-logits)
        if reduction == "mean":
            loss = loss.mean()
            dlogits = dlogits / logits.numel()
        elif reduction == "sum":
            loss = loss.sum()
        elif reduction != "none":
            raise ValueError(f"unknown reduction {reduction!r}")
        ctx.save_for_backward(beta * dlogits / chosen_len)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (dlogps,) = ctx.saved_tensors
        dlogps = dlogps * grad_output
        return dlogps, -dlogps, None, None, None, None, None, None


def simpo_loss(token_logps_w, mask_w, token_logps_l, mask_l, *, beta=2.0, gamma=0.5,
               label_smoothing=0.0, reduction="mean"):
    """Masks per-token log-probabilities and applies :class:`SimPOLossFunction`."""
    return SimPOLossFunction.apply(
        (token_logps_w * mask_w).sum(-1),
        (token_logps_l * mask_l).sum(-1),
        mask_w.sum(-1),
        mask_l.sum(-1),
        beta,
        gamma,
        label_smoothing,
        reduction,
    )
