"""Audio blocks for differentiable synthesis and enhancement."""

from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def _full(x: Tensor, taps: Tensor) -> Tensor:
    """Full convolution of the rows of x with taps."""
    return F.conv_transpose1d(x.unsqueeze(1), taps.view(1, 1, -1)).squeeze(1)


def _match(x: Tensor, taps: Tensor) -> Tensor:
    """Adjoint of _full: valid correlation."""
    return F.conv1d(x.unsqueeze(1), taps.view(1, 1, -1)).squeeze(1)


class ZeroPhaseFIR(torch.autograd.Function):
    """Filter forwards and backwards, so that nothing is delayed.

    Silence is assumed around the signal, the tail of the first pass is kept for the second
    one. The response is ``|H|^2``.

    Args:
        signal: ``(..., time)``.
        taps: ``(order + 1,)``, any impulse response.
        unit_dc: divide by ``taps.sum() ** 2`` (the sum must not vanish).
    """

    @staticmethod
    def forward(ctx, signal: Tensor, taps: Tensor, unit_dc: bool = False) -> Tensor:
        ctx.save_for_backward(signal, taps)
        ctx.unit_dc = unit_dc
        rows = signal.reshape(-1, signal.shape[-1])
        out = _match(_full(rows, taps), taps)
        if unit_dc:
            out = out / taps.sum() ** 2
        return out.reshape(signal.shape)

    @staticmethod
    def backward(ctx, grad_out: Tensor):
        signal, taps = ctx.saved_tensors
        rows = signal.reshape(-1, signal.shape[-1])
        grad = grad_out.reshape(rows.shape)
        gain = taps.sum()
        if ctx.unit_dc:
            grad = grad / gain ** 2
        # the operator A^T A is its own adjoint
        once = _full(grad, taps)
        twice = _match(once, taps)
        grad_taps = None
        if ctx.needs_input_grad[1]:
            time = rows.shape[-1]
            through = _full(rows, taps)
            grad_taps = torch.einsum("bkt,bt->k", through.unfold(-1, time, 1), grad)
            grad_taps = grad_taps + torch.einsum("bkt,bt->k", once.unfold(-1, time, 1), rows)
            if ctx.unit_dc:
                grad_taps = grad_taps - 2 * (twice * rows).sum() / gain
        return twice.reshape(signal.shape), grad_taps, None


class PluckedLoop(torch.autograd.Function):
    """Karplus-Strong string.

    ``y[n] = x[n] + decay * ((1 - blend) * y[n - period] + blend * y[n - period - 1])``
    with silence before the first sample.

    Args:
        excitation: ``(batch, time)``.
        decay: ``(batch, 1)``.
        blend: ``(batch, 1)``, between 0 and 1; 0.5 is the classic string.
        period: samples per turn of the loop, at least 1.
    """

    @staticmethod
    def forward(ctx, excitation, decay, blend, period: int):
        time = excitation.shape[-1]
        # leading silence stands for everything before the start
        lead = period + 1
        buffer = F.pad(excitation, (lead, 0))
        for begin in range(lead, lead + time, period):
            end = min(begin + period, lead + time)
            near = buffer[:, begin - period:end - period]
            far = buffer[:, begin - period - 1:end - period - 1]
            buffer[:, begin:end] += decay * ((1 - blend) * near + blend * far)
        out = buffer[:, lead:].clone()
        ctx.save_for_backward(out, decay, blend)
        ctx.period = period
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        out, decay, blend = ctx.saved_tensors
        period = ctx.period
        time = out.shape[-1]
        adjoint = F.pad(grad_out, (0, period + 1))
        for begin in reversed(range(0, time, period)):
            end = min(begin + period, time)
            near = adjoint[:, begin + period:end + period]
            far = adjoint[:, begin + period + 1:end + period + 1]
            adjoint[:, begin:end] += decay * ((1 - blend) * near + blend * far)
        adjoint = adjoint[:, :time]

        near = out.roll(period, -1)
        far = out.roll(period + 1, -1)
        near[:, :period] = 0
        far[:, :period] = 0
        grad_decay = (adjoint * ((1 - blend) * near + blend * far)).sum(-1, keepdim=True)
        grad_blend = (adjoint * decay * (far - near)).sum(-1, keepdim=True)
        return adjoint, grad_decay, grad_blend, None


class String(nn.Module):
    def __init__(self, period: int, decay: float = 0.99):
        super().__init__()
        self.period = period
        self.decay_logit = nn.Parameter(torch.logit(torch.tensor(decay)))
        self.blend_logit = nn.Parameter(torch.zeros(()))

    def forward(self, excitation: Tensor) -> Tensor:
        shape = (excitation.shape[0], 1)
        decay = torch.sigmoid(self.decay_logit).expand(shape)
        blend = torch.sigmoid(self.blend_logit).expand(shape)
        return PluckedLoop.apply(excitation, decay, blend, self.period)


def a_law(x: Tensor, a: float) -> Tensor:
    a = torch.as_tensor(a, dtype=x.dtype, device=x.device)
    size = x.abs()
    inner = a * size
    outer = 1 + torch.log(inner.clamp(min=1.0))
    return torch.sign(x) * torch.where(inner < 1, inner, outer) / (1 + torch.log(a))


def a_law_inverse(y: Tensor, a: float) -> Tensor:
    a = torch.as_tensor(a, dtype=y.dtype, device=y.device)
    level = y.abs() * (1 + torch.log(a))
    return torch.sign(y) * torch.where(level < 1, level, torch.exp(level - 1)) / a


class ALawQuantize(torch.autograd.Function):
    """A-law telephone codec: compress, round to ``2 ** bits - 1`` levels, expand.

    The staircase has no useful derivative. The backward pass is a straight-through
    estimator on purpose: the incoming gradient goes through unchanged where the
    sample is within [-1, 1] and is set to zero where the codec saturates.
    """

    @staticmethod
    def forward(ctx, x, bits=8, a=87.6):
        ctx.save_for_backward(x)
        half = 2 ** (bits - 1) - 1
        code = torch.round(a_law(x.clamp(-1, 1), a) * half) / half
        return a_law_inverse(code, a)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1), None, None


class MaskedSNRLoss(torch.autograd.Function):
    """Negative signal-to-noise ratio in decibels for a padded batch.

    Args:
        estimate, reference: ``(batch, time)``.
        lengths: ``(batch,)`` integer, samples that count in each row. Zero is allowed
            (filler rows of the last batch of an epoch): such a row has the loss 0 and
            is left out of the mean.
        reduction: 'mean', 'sum' or 'none'.
        eps: added to both energies.
    """

    @staticmethod
    def forward(ctx, estimate, reference, lengths, reduction="mean", eps=1e-8):
        frame = torch.arange(estimate.shape[-1], device=estimate.device)
        mask = frame < lengths.unsqueeze(-1)
        noise = (estimate - reference) * mask
        clean = reference * mask
        ctx.save_for_backward(estimate, reference, mask)
        ctx.reduction, ctx.eps = reduction, eps
        ratio = (clean.square().sum(-1) + eps) / (noise.square().sum(-1) + eps)
        loss = -10 * torch.log10(ratio)
        if reduction == "none":
            return loss
        if reduction == "sum":
            return loss.sum()
        return loss.sum() / (lengths > 0).sum().clamp(min=1)

    @staticmethod
    def backward(ctx, grad):
        estimate, reference, mask = ctx.saved_tensors
        noise = (estimate - reference) * mask
        clean = reference * mask
        decibel = 10 / torch.log(torch.tensor(10.0, dtype=noise.dtype, device=noise.device))
        if ctx.reduction == "mean":
            grad = grad / estimate.shape[0]
        if ctx.reduction != "none":
            grad = grad.expand(estimate.shape[0])
        scale = 2 * decibel * grad.unsqueeze(-1)
        by_noise = scale * noise / (noise.square().sum(-1, keepdim=True) + ctx.eps)
        by_clean = scale * clean / (clean.square().sum(-1, keepdim=True) + ctx.eps)
        return by_noise, -by_noise - by_clean, None, None, None


def enhancement_loss(
    estimate: Tensor, reference: Tensor, lengths: Optional[Tensor] = None, reduction: str = "mean"
) -> Tensor:
    if lengths is None:
        lengths = torch.full(estimate.shape[:1], estimate.shape[-1], device=estimate.device)
    return MaskedSNRLoss.apply(estimate, reference, lengths, reduction)
