"""Layers for click streams that are cut into visits.

Events of all visitors lie in ``(batch, time, dim)`` tensors; a visit is a run of events.  ``visit_id`` counts visits
within a row from 0, is non-decreasing, and may skip numbers (a visit that was filtered away).
"""

import torch
from torch import nn
from torch.nn import Parameter


class VisitSoftMax(torch.autograd.Function):
    """Smooth maximum of the events of every visit.

    ``events`` (E, D) holds all events one after the other, ``offsets`` (V + 1,) where each visit begins.  The result
    (V, D) is ``log(mean(exp(sharpness * x))) / sharpness``, with ``mean`` replaced by ``sum`` for
    ``average=False``; visits without events give zeros.  ``sharpness`` is (D,), positive.
    """

    @staticmethod
    def forward(ctx, events, sharpness, offsets, average=True):
        lengths = offsets[1:] - offsets[:-1]
        visits = lengths.numel()
        owner = torch.repeat_interleave(torch.arange(visits, device=events.device), lengths)
        inside = events[offsets[0]:offsets[-1]]
        z = inside * sharpness
        index = owner[:, None].expand_as(z)
        top = z.new_full((visits, z.shape[1]), float("-inf")).scatter_reduce(0, index, z, "amax")
        top = torch.where(lengths[:, None] > 0, top, torch.zeros_like(top))
        mass = (z - top[owner]).exp()
        total = torch.zeros_like(top).index_add_(0, owner, mass)
        filled = (lengths > 0)[:, None]
        norm = torch.where(filled, total, torch.ones_like(total))
        lse = top + norm.log()
        if average:
            lse = lse - lengths.clamp_min(1).to(z.dtype).log()[:, None]
        out = torch.where(filled, lse / sharpness, torch.zeros_like(lse))
        ctx.save_for_backward(inside, sharpness, owner, mass / norm[owner], out)
        ctx.span = int(offsets[0]), events.shape
        return out

    @staticmethod
    def backward(ctx, grad):
        inside, sharpness, owner, share, out = ctx.saved_tensors
        begin, shape = ctx.span
        d_inside = grad[owner] * share
        d_events = grad.new_zeros(shape)
        d_events[begin:begin + inside.shape[0]] = d_inside
        d_sharp = ((d_inside * inside).sum(0) - (grad * out).sum(0)) / sharpness
        return d_events, d_sharp, None, None


class PreviousVisitContext(torch.autograd.Function):
    """Give each event the summary of the visit before its own.

    ``summary`` (B, V, D), ``newcomer`` (D,) stands in during the first visit, ``gain`` (D,) multiplies either;
    ``visit_id`` (B, T), where -1 marks the padding that may precede a row; its context is zero.
    """

    @staticmethod
    def forward(ctx, summary, newcomer, gain, visit_id):
        before = visit_id - 1
        index = before.clamp_min(0)[..., None].expand(-1, -1, summary.shape[-1])
        context = summary.gather(1, index)
        first = (visit_id == 0)[..., None]
        context = torch.where(first, newcomer, context)
        real = (visit_id >= 0)[..., None]
        ctx.save_for_backward(context, gain, visit_id)
        ctx.visits = summary.shape[1]
        return torch.where(real, context * gain, torch.zeros_like(context))

    @staticmethod
    def backward(ctx, grad):
        context, gain, visit_id = ctx.saved_tensors
        real = (visit_id >= 0)[..., None]
        g = torch.where(real, grad, torch.zeros_like(grad))
        d_gain = (g * context).sum((0, 1))
        g = g * gain
        later = (visit_id > 0)[..., None]
        index = (visit_id - 1).clamp_min(0)[..., None].expand_as(g)
        d_summary = g.new_zeros(g.shape[0], ctx.visits, g.shape[2])
        d_summary.scatter_add_(1, index, torch.where(later, g, torch.zeros_like(g)))
        opening = torch.where(visit_id[:, :1, None] == 0, g[:, :1], torch.zeros_like(g[:, :1]))
        d_newcomer = opening.sum((0, 1))
        return d_summary, d_newcomer, d_gain, None


class EventLagMix(torch.autograd.Function):
    """Blend every event with the one ``lag`` positions earlier.

    ``y[t] = mix * x[t] + (1 - mix) * x[t - lag]`` with ``carry`` (B, lag, D), the tail of the previous chunk, in the
    place of events before the chunk.  Where ``fresh`` (B, T) is True the event opens a visit and sees zeros instead of
    the past.
    """

    @staticmethod
    def forward(ctx, x, carry, mix, fresh, lag):
        past = torch.cat([carry, x], dim=1)[:, :x.shape[1]]
        keep = torch.ones_like(x[..., :1])
        if fresh is not None:
            keep = (~fresh)[..., None].to(x.dtype)
        past = past * keep
        ctx.save_for_backward(x, past, mix, keep)
        ctx.lag = lag
        return mix * x + (1.0 - mix) * past

    @staticmethod
    def backward(ctx, grad):
        x, past, mix, keep = ctx.saved_tensors
        lag, steps = ctx.lag, x.shape[1]
        d_mix = (grad * (x - past)).sum((0, 1))
        d_past = grad * (1.0 - mix)
        padded = torch.cat([d_past, d_past.new_zeros(x.shape[0], lag, x.shape[2])], dim=1)
        d_x = grad * mix + keep * padded[:, lag:lag + steps]
        d_carry = (keep * d_past)[:, :lag]
        if steps < lag:
            d_carry = torch.cat([d_carry, d_carry.new_zeros(x.shape[0], lag - steps, x.shape[2])], dim=1)
        return d_x, d_carry, d_mix, None, None


class LagMix(nn.Module):
    """Learned blend, one coefficient a channel."""

    def __init__(self, dim, lag=1):
        super().__init__()
        self.lag = lag
        self.mix = Parameter(torch.linspace(0.2, 0.9, dim))

    def forward(self, x, carry=None, fresh=None):
        if carry is None:
            carry = x.new_zeros(x.shape[0], self.lag, x.shape[2])
        return EventLagMix.apply(x, carry, self.mix, fresh, self.lag)


class VisitPool(nn.Module):
    def __init__(self, dim, average=True):
        super().__init__()
        self.log_sharpness = Parameter(torch.zeros(dim))
        self.average = average

    def forward(self, events, offsets):
        return VisitSoftMax.apply(events, self.log_sharpness.exp(), offsets, self.average)


class VisitContext(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.newcomer = Parameter(torch.randn(dim) * 0.02)
        self.gain = Parameter(torch.ones(dim))

    def forward(self, summary, visit_id):
        return PreviousVisitContext.apply(summary, self.newcomer, self.gain, visit_id)
