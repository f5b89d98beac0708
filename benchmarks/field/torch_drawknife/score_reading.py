"""Heads of an optical music recognition network.

A page of sheet music is cut into staff crops.  Each crop passes through a convolutional trunk whose
activations are normalised with gains looked up by instrument, the noteheads found on the page are put
into reading order, their written duration is read out as an expectation, and a small recurrence carries
accidentals forward until the next bar line cancels them.
"""
from __future__ import annotations

from typing import Optional

import torch
from torch import nn
from torch.autograd import Function

# quarter lengths of: sixteenth, eighth, dotted eighth, quarter, dotted quarter, half, whole
QUARTER_LENGTHS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)


def _reduce_to(grad: torch.Tensor, shape) -> torch.Tensor:
    return grad.sum_to_size(shape) if tuple(grad.shape) != tuple(shape) else grad


class StaffGainNorm(Function):
    """Normalise crops ``x`` (crop, channel, height, width), then scale by the instrument's row.

    pool = "channel": statistics of every channel by itself; pool = "staff": one mean and variance per crop.
    """

    @staticmethod
    def forward(ctx, x, gain_table, shift_table, instrument, pool="channel", eps=1e-5):
        dims = {"channel": (2, 3), "staff": (1, 2, 3)}[pool]
        centred = x - x.mean(dim=dims, keepdim=True)
        inv = (centred.square().mean(dim=dims, keepdim=True) + eps).rsqrt()
        xhat = centred * inv
        gain = gain_table[instrument][:, :, None, None]
        ctx.save_for_backward(xhat, inv, gain, instrument)
        ctx.dims, ctx.rows = dims, gain_table.shape[0]
        return xhat * gain + shift_table[instrument][:, :, None, None]

    @staticmethod
    def backward(ctx, g):
        xhat, inv, gain, instrument = ctx.saved_tensors
        per_crop_gain = (g * xhat).sum((2, 3))
        per_crop_shift = g.sum((2, 3))
        blank = g.new_zeros(ctx.rows, g.shape[1])
        g_gain = blank.index_add(0, instrument, per_crop_gain)
        g_shift = blank.index_add(0, instrument, per_crop_shift)
        gh = g * gain
        gx = inv * (gh - gh.mean(ctx.dims, keepdim=True)
                    - xhat * (gh * xhat).mean(ctx.dims, keepdim=True))
        return gx, g_gain, g_shift, None, None, None


class NoteOrderLoss(Function):
    """Pairwise logistic loss which asks that earlier notes get the higher score.

    Args:
        score: (pages, notes) reading-order scores, padded.
        onset: (pages, notes) integer ticks; notes of a chord share a tick and are not compared.
        present: (pages, notes) boolean, False for padding.
        reduction: "sum", "pair" (mean over all the compared pairs) or "page" (mean over a page's pairs first,
            then over the pages that have at least one pair; title pages and single notes do not count).
    """

    @staticmethod
    def forward(ctx, score, onset, present, reduction="page"):
        pair = (onset[:, :, None] < onset[:, None, :]) & present[:, :, None] & present[:, None, :]
        pair = pair.to(score.dtype)
        gap = score[:, :, None] - score[:, None, :]
        cost = nn.functional.softplus(-gap) * pair
        per_page = pair.sum((1, 2))
        ctx.save_for_backward(gap, pair, per_page)
        ctx.reduction = reduction
        if reduction == "sum":
            return cost.sum()
        if reduction == "pair":
            return cost.sum() / per_page.sum().clamp(min=1)
        if reduction == "page":
            used = (per_page > 0).sum().clamp(min=1)
            return (cost.sum((1, 2)) / per_page.clamp(min=1)).sum() / used
        raise ValueError(f"unknown reduction {reduction!r}")

    @staticmethod
    def backward(ctx, g):
        gap, pair, per_page = ctx.saved_tensors
        d_gap = -torch.sigmoid(-gap) * pair
        if ctx.reduction == "pair":
            d_gap = d_gap / per_page.sum().clamp(min=1)
        elif ctx.reduction == "page":
            d_gap = d_gap / per_page.clamp(min=1)[:, None, None]
            d_gap = d_gap / gap.shape[0]
        d_score = d_gap.sum(2) - d_gap.sum(1)
        return g * d_score, None, None, None


class DurationReadout(Function):
    """Expected quarter length and its variance under a tempered softmax over duration classes.

    logits (..., K); log_temperature broadcasts against logits (a scalar, or (..., 1) for one per note).
    lengths (K,) may be learned for swung rhythms.
    `allowed` (K,) or (..., K) boolean rules out durations that do not fit the metre; at least one fits.
    """

    @staticmethod
    def forward(ctx, logits, log_temperature, lengths, allowed):
        tau = log_temperature.exp()
        u = logits / tau
        p = torch.softmax(u.masked_fill(~allowed, float("-inf")), -1)
        mean = (p * lengths).sum(-1)
        off = lengths - mean.unsqueeze(-1)
        var = (p * off.square()).sum(-1)
        ctx.save_for_backward(p, u, tau, off, lengths)
        ctx.shapes = logits.shape, log_temperature.shape, lengths.shape
        return mean, var

    @staticmethod
    def backward(ctx, g_mean, g_var):
        p, u, tau, off, lengths = ctx.saved_tensors
        gp = g_mean.unsqueeze(-1) * lengths + g_var.unsqueeze(-1) * off.square()
        gu = p * (gp - (p * gp).sum(-1, keepdim=True))
        g_lengths = p * (g_mean.unsqueeze(-1) + 2 * g_var.unsqueeze(-1) * off)
        return (_reduce_to(gu / tau, ctx.shapes[0]), _reduce_to(-gu * u, ctx.shapes[1]),
                _reduce_to(g_lengths, ctx.shapes[2]), None)


class BarlineCarry(Function):
    """h[t] = decay[t] * h[t-1] + drive[t], where a bar line at t first forgets h[t-1].

    decay, drive: time x batch x features.  carry: batch x features, what the previous chunk of the
    system left over.  barline: time x batch, boolean.
    """

    @staticmethod
    def forward(ctx, decay, drive, carry, barline):
        keep = (~barline).to(decay.dtype).unsqueeze(-1)
        h, out = carry, []
        for t in range(decay.shape[0]):
            h = keep[t] * decay[t] * h + drive[t]
            out.append(h)
        out = torch.stack(out)
        ctx.save_for_backward(decay, keep, carry, out)
        return out

    @staticmethod
    def backward(ctx, g):
        decay, keep, carry, out = ctx.saved_tensors
        steps = decay.shape[0]
        g_decay, g_drive = torch.empty_like(decay), torch.empty_like(decay)
        acc = torch.zeros_like(carry)
        for t in reversed(range(steps)):
            acc = acc + g[t]
            before = out[t - 1] if t > 0 else carry
            g_drive[t] = acc
            g_decay[t] = acc * keep[t] * before
            if t > 0:
                acc = acc * keep[t] * decay[t]
        return g_decay, g_drive, acc * decay[0], None


class StaffTrunk(nn.Module):
    def __init__(self, channels: int, instruments: int, pool: str = "channel"):
        super().__init__()
        self.conv = nn.Conv2d(1, channels, 3, padding=1)
        self.gain = nn.Parameter(torch.ones(instruments, channels))
        self.shift = nn.Parameter(torch.zeros(instruments, channels))
        self.pool = pool

    def forward(self, crops, instrument):
        return torch.relu(StaffGainNorm.apply(self.conv(crops), self.gain, self.shift, instrument, self.pool))


class DurationHead(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.proj = nn.Linear(width, len(QUARTER_LENGTHS))
        self.log_temperature = nn.Parameter(torch.zeros(()))
        self.register_buffer("lengths", torch.tensor(QUARTER_LENGTHS))

    def forward(self, notes, allowed: Optional[torch.Tensor] = None):
        if allowed is None:
            allowed = torch.ones_like(self.lengths, dtype=torch.bool)
        return DurationReadout.apply(self.proj(notes), self.log_temperature, self.lengths, allowed)
