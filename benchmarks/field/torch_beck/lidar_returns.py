from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Geometry:
    first: float = 15.0
    step: float = 7.5

    def ranges(self, n, like):
        return self.first + self.step * torch.arange(n, dtype=like.dtype, device=like.device)


class BackgroundRemove(torch.autograd.Function):
    """Subtracts the sky background (mean of the valid bins among the last ``tail``) and range-corrects.

    counts ``[..., bins]``; valid: bool of the same shape (saturated or flagged bins are False, and come out as zero).
    """

    @staticmethod
    def forward(ctx, counts, valid, ranges, tail=50):
        w = valid.to(counts.dtype)
        wt = w[..., -tail:]
        sky = (counts[..., -tail:] * wt).sum(-1, keepdim=True) / wt.sum(-1, keepdim=True).clamp(
            min=1
        )
        ctx.save_for_backward(w, ranges)
        ctx.tail = tail
        return (counts - sky) * w * ranges**2

    @staticmethod
    def backward(ctx, grad):
        w, ranges = ctx.saved_tensors
        g = grad * w * ranges**2
        d_sky = -g.sum(-1, keepdim=True)
        spread = torch.zeros_like(g)
        spread[..., -ctx.tail :] = d_sky / spread[..., -ctx.tail :].shape[-1]
        return g + spread * w, None, None, None


class OverlapCorrect(torch.autograd.Function):
    @staticmethod
    def forward(signal, centre, width, ranges, blind, floor):
        o = torch.sigmoid((ranges - centre[:, None]) / width[:, None]).clamp(min=floor)
        return torch.where(ranges >= blind, signal / o, torch.zeros_like(signal))

    @staticmethod
    def setup_context(ctx, inputs, output):
        signal, centre, width, ranges, ctx.blind, ctx.floor = inputs
        ctx.save_for_backward(signal, centre, width, ranges)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad):
        if grad is None:
            return (None,) * 6
        signal, centre, width, ranges = ctx.saved_tensors
        z = (ranges - centre[:, None]) / width[:, None]
        raw = torch.sigmoid(z)
        o = raw.clamp(min=ctx.floor)
        grad = torch.where(ranges >= ctx.blind, grad, torch.zeros_like(grad))
        d_signal = grad / o
        d_o = -d_signal * signal / o
        d_z = (d_o * raw * (1 - raw) * (raw > ctx.floor)).sum(0)
        d_centre = -(d_z / width[:, None]).sum(-1)
        d_width = -(d_z * z / width[:, None]).sum(-1)
        return d_signal, d_centre, d_width, None, None, None


class KlettInversion(torch.autograd.Function):
    """Elastic backscatter retrieval from a range-corrected signal.

        beta_i = X_i / (X_ref / beta_ref + 2 * integral_{r_i}^{r_ref} L X dr)

    with the trapezoid rule on equally spaced bins. Bins beyond the reference are retrieved too (their integral is negative).

    Args:
        x: ``[profiles, bins]`` range-corrected signal, positive.
        ratio: lidar ratio L, ``[profiles, bins]``.
        beta_ref: ``[profiles]`` backscatter in the reference bin.
        step: bin spacing.
        ref: reference bin, negative values count from the far end.
    """

    @staticmethod
    def forward(x, ratio, beta_ref, step, ref=-1):
        y = ratio * x
        seg = 0.5 * step * (y[:, 1:] + y[:, :-1])
        cum = torch.cat([torch.zeros_like(x[:, :1]), seg.cumsum(1)], 1)
        inner = cum[:, ref].unsqueeze(1) - cum
        den = (x[:, ref] / beta_ref).unsqueeze(1) + 2 * inner
        return x / den, den

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ratio, beta_ref, ctx.step, ctx.ref = inputs
        beta, den = output
        ctx.mark_non_differentiable(den)
        ctx.save_for_backward(x, ratio, beta_ref, den)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g_beta, _):
        x, ratio, beta_ref, den = ctx.saved_tensors
        g_x = g_beta / den
        g_den = -g_beta * x / den**2
        total = g_den.sum(1)
        g_x[:, ctx.ref] += total / beta_ref
        g_ref = -total * x[:, ctx.ref] / beta_ref**2
        # a trapezoid between bins j and j + 1 belongs to the integral of every bin up to j
        g_seg = (2 * g_den).cumsum(1)[:, :-1] * (0.5 * ctx.step)
        g_y = torch.zeros_like(x)
        g_y[:, 1:] += g_seg
        g_y[:, :-1] += g_seg
        return g_x + g_y * ratio, g_y * x, g_ref, None, None


class Ceilometer(nn.Module):
    def __init__(self, channels=1, geometry=Geometry(), tail=50, blind=60.0):
        super().__init__()
        self.geometry, self.tail, self.blind = geometry, tail, blind
        self.centre = nn.Parameter(torch.full((channels,), 150.0))
        self.log_width = nn.Parameter(torch.full((channels,), 3.5))

    def forward(self, counts, valid=None):
        r = self.geometry.ranges(counts.shape[-1], counts)
        if valid is None:
            valid = torch.ones_like(counts, dtype=torch.bool)
        x = BackgroundRemove.apply(counts, valid, r, self.tail)
        return OverlapCorrect.apply(x, self.centre, self.log_width.exp(), r, self.blind, 0.02)

    def retrieve(self, x, ratio, beta_ref, ref=-1):
        ratio = torch.as_tensor(ratio, dtype=x.dtype, device=x.device).expand_as(x)
        return KlettInversion.apply(x, ratio, beta_ref, self.geometry.step, ref)[0]
