"""Calibration of a radio interferometer.

Complex numbers are held as a last axis of length 2 (real, imaginary), since the
solver's optimiser and the exporters know only real tensors.
"""
import math

import torch
from torch.autograd import Function


def all_baselines(antennas, device=None):
    """ids of the two antennas of each cross-correlation, [2, A (A - 1) / 2]."""
    return torch.triu_indices(antennas, antennas, offset=1, device=device)


def cmul(a, b):
    return torch.stack(
        [a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1], a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0]], -1
    )


def conj(a):
    return torch.stack([a[..., 0], -a[..., 1]], -1)


class CorruptModel(Function):
    """g_i conj(g_j) M_ij for gains [..., A, 2] and model [..., Q, 2]; flagged baselines give 0."""

    @staticmethod
    def forward(ctx, gains, model, pairs, flags=None):
        first, second = gains[..., pairs[0], :], gains[..., pairs[1], :]
        out = cmul(cmul(first, conj(second)), model)
        if flags is not None:
            out = out.masked_fill(flags[..., None], 0.0)
        ctx.save_for_backward(gains, model, pairs)
        ctx.flags = flags
        return out

    @staticmethod
    def backward(ctx, grad):
        gains, model, pairs = ctx.saved_tensors
        if ctx.flags is not None:
            grad = grad.masked_fill(ctx.flags[..., None], 0.0)
        first, second = gains[..., pairs[0], :], gains[..., pairs[1], :]
        g_gains = g_model = None
        if ctx.needs_input_grad[0]:
            g_first = cmul(grad, conj(cmul(conj(second), model)))
            g_second = conj(cmul(grad, conj(cmul(first, model))))
            g_gains = grad.new_zeros(*grad.shape[:-2], *gains.shape[-2:])
            g_gains.index_add_(-2, pairs[0], g_first)
            g_gains.index_add_(-2, pairs[1], g_second)
            g_gains = g_gains.sum_to_size(gains.shape)
        if ctx.needs_input_grad[1]:
            g_model = cmul(grad, conj(cmul(first, conj(second)))).sum_to_size(model.shape)
        return g_gains, g_model, None, None


class UVCellAverage(Function):
    """Weighted mean of visibilities that fall in the same uv cell.

    Args:
        vis: ``[Q, 2]``
        weight: ``[Q]``, positive
        cell: long ids ``[Q]`` in ``[0, cells)``, in any order
        flags: bool ``[Q]``; flagged samples count for nothing
        cells: number of cells

    Returns:
        (mean ``[cells, 2]``, sum of weights ``[cells]``); cells without data hold 0.
    """

    @staticmethod
    def forward(vis, weight, cell, flags, cells):
        used = weight.masked_fill(flags, 0.0)
        total = vis.new_zeros(cells).index_add(0, cell, used)
        summed = vis.new_zeros(cells, 2).index_add(0, cell, vis * used[:, None])
        safe = total.masked_fill(total == 0, 1.0)
        return summed / safe[:, None], total

    @staticmethod
    def setup_context(ctx, inputs, output):
        vis, weight, cell, flags, _ = inputs
        mean, total = output
        ctx.save_for_backward(vis, weight, cell, flags, mean, total)

    @staticmethod
    def backward(ctx, grad_mean, grad_total):
        vis, weight, cell, flags, mean, total = ctx.saved_tensors
        safe = total.masked_fill(total == 0, 1.0)
        per = (grad_mean / safe[:, None])[cell]
        used = weight.masked_fill(flags, 0.0)
        g_vis = per * used[:, None]
        g_weight = (per * (vis - mean[cell])).sum(-1) + grad_total[cell]
        return g_vis, g_weight.masked_fill(flags, 0.0), None, None, None


class FringeLoss(Function):
    """Misfit of antenna phases and delays to observed baseline phases.

    ``sum w (1 - cos(phi_i - phi_j + 2 pi nu (tau_i - tau_j) - obs))``, divided by
    the sum of the weights when ``reduction="mean"``.

    phase, delay [A] (rad, ns); freq [F] in GHz; observed, weight [Q, F].
    The weights and frequencies are data: no gradient.
    """

    @staticmethod
    def forward(ctx, phase, delay, freq, observed, weight, pairs, reduction="mean"):
        i, j = pairs
        turn = 2.0 * math.pi * freq
        residual = (phase[i] - phase[j])[:, None] + (delay[i] - delay[j])[:, None] * turn - observed
        loss = weight * 2.0 * torch.sin(0.5 * residual) ** 2
        ctx.save_for_backward(phase, turn, residual, weight, pairs)
        ctx.reduction = reduction
        if reduction == "none":
            return loss
        if reduction == "sum":
            return loss.sum()
        return loss.sum() / weight.sum()

    @staticmethod
    def backward(ctx, grad):
        phase, turn, residual, weight, pairs = ctx.saved_tensors
        g = grad * weight * torch.sin(residual)
        if ctx.reduction == "mean":
            g = g / residual.numel()
        g_bl, g_rate = g.sum(1), (g * turn).sum(1)
        g_phase = torch.zeros_like(phase)
        g_delay = torch.zeros_like(phase)
        for ids, sign in ((pairs[0], 1.0), (pairs[1], -1.0)):
            g_phase.index_add_(0, ids, sign * g_bl)
            g_delay.index_add_(0, ids, sign * g_rate)
        return g_phase, g_delay, None, -g, None, None, None


class GainSolver(torch.nn.Module):
    def __init__(self, antennas):
        super().__init__()
        self.phase = torch.nn.Parameter(torch.zeros(antennas))
        self.delay = torch.nn.Parameter(torch.zeros(antennas))
        self.register_buffer("pairs", all_baselines(antennas))

    def forward(self, freq, observed, weight):
        return FringeLoss.apply(self.phase, self.delay, freq, observed, weight, self.pairs)
