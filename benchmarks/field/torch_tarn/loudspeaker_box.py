"""Design terms for loudspeaker cabinets: alignment, port, crossover and in-room averaging.

All quantities are SI (metres, cubic metres, hertz, seconds), levels are decibels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.autograd import Function

SPEED_OF_SOUND = 343.0
DB_PER_NEPER = 20.0 / math.log(10.0)
_END_FREE = 0.614
_END_FLANGED = 0.85


def end_factor(flanged_ends: int) -> float:
    """Added length of a round port, in radii, for 0, 1 or 2 flanged ends."""
    return _END_FLANGED * flanged_ends + _END_FREE * (2 - flanged_ends)


def crowding(n_ports: int) -> float:
    """Extra end correction of ports that share a baffle."""
    return 1.0 + 0.25 * (n_ports - 1)


class SealedBoxGain(Function):
    """Second-order high-pass magnitude of a closed box.

    Parameters
    ----------
    freq : Tensor, (F,) or (B, F)
        Positive frequencies.
    fc : Tensor, (B,)
        System resonance.
    q : Tensor, (B,)
        Total system Q.
    decibels : bool
        Return ``20 log10 |H|`` rather than ``|H|``.
    """

    @staticmethod
    def forward(freq, fc, q, decibels=False):
        r = freq / fc[:, None]
        den2 = (r.square() - 1.0).square() + (r / q[:, None]).square()
        gain = r.square() / den2.sqrt()
        return DB_PER_NEPER * torch.log(gain) if decibels else gain

    @staticmethod
    def setup_context(ctx, inputs, output):
        freq, fc, q, ctx.decibels = inputs
        ctx.save_for_backward(freq, fc, q)

    @staticmethod
    def backward(ctx, grad_out):
        freq, fc, q = ctx.saved_tensors
        fc, q = fc[:, None], q[:, None]
        r = freq / fc
        r2 = r.square()
        den2 = (r2 - 1.0).square() + r2 / q.square()
        # everything goes through log|H|, which is what the two outputs share
        if ctx.decibels:
            g = DB_PER_NEPER * grad_out
        else:
            g = grad_out * r2 / den2.sqrt()
        g_r = g * (2.0 / r - r * (2.0 * (r2 - 1.0) + 1.0 / q.square()) / den2)
        g_q = g * r2 / (q.pow(3) * den2)
        grad_freq = (g_r / fc).sum_to_size(freq.shape)
        grad_fc = -(g_r * r / fc).sum(-1)
        return grad_freq, grad_fc, g_q.sum(-1), None


class PortTuning(Function):
    """Helmholtz frequency of a vented box with ``n_ports`` equal round ports.

    Parameters
    ----------
    radius, length, volume : Tensor, broadcastable
        Port radius, physical port length, net box volume.
    n_ports : int
    flanged_ends : int
        0, 1 or 2.
    """

    @staticmethod
    def forward(radius, length, volume, n_ports=1, flanged_ends=1):
        k = end_factor(flanged_ends) * crowding(n_ports)
        area = n_ports * math.pi * radius.square()
        return SPEED_OF_SOUND / (2 * math.pi) * torch.sqrt(area / (volume * (length + k * radius)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        radius, length, volume, ctx.n_ports, ctx.flanged_ends = inputs
        k = end_factor(ctx.flanged_ends) * crowding(ctx.n_ports)
        ctx.save_for_backward(radius, length, volume, length + k * radius, output)

    @staticmethod
    def backward(ctx, grad_out):
        radius, length, volume, effective, fb = ctx.saved_tensors
        k = end_factor(ctx.flanged_ends)
        g = grad_out * fb
        g_radius = g * (1.0 / radius - 0.5 * k / effective)
        g_length = -0.5 * g / effective
        g_volume = -0.5 * g / volume
        return (
            g_radius.sum_to_size(radius.shape),
            g_length.sum_to_size(length.shape),
            g_volume.sum_to_size(volume.shape),
            None,
            None,
        )


class CrossoverSum(Function):
    """Pressure magnitude on axis of several ways with delays.

    ``amp`` (B, D) are the amplitudes of the ways in each preset, ``delay`` (D,) their delays, ``freq`` (F,) the
    grid; ``polarity`` is a tuple of +1 / -1 and ``muted`` a boolean (B, D).  Gives (B, F).
    """

    @staticmethod
    def _phasors(amp, delay, freq, polarity, muted):
        signs = torch.as_tensor(polarity, dtype=amp.dtype, device=amp.device)
        live = signs * (~muted).to(amp.dtype)
        phase = 2 * math.pi * delay[:, None] * freq
        return live, phase.cos(), phase.sin()

    @staticmethod
    def forward(ctx, amp, delay, freq, polarity, muted):
        live, cos, sin = CrossoverSum._phasors(amp, delay, freq, polarity, muted)
        re, im = (amp * live) @ cos, (amp * live) @ sin
        mag = torch.hypot(re, im)
        ctx.polarity = polarity
        ctx.save_for_backward(amp, delay, freq, muted, re, im, mag)
        return mag

    @staticmethod
    def backward(ctx, grad_mag):
        amp, delay, freq, muted, re, im, mag = ctx.saved_tensors
        live, cos, sin = CrossoverSum._phasors(amp, delay, freq, ctx.polarity, muted)
        safe = torch.where(mag > 0, mag, torch.ones_like(mag))
        g_re, g_im = grad_mag * re / safe, grad_mag * im / safe
        g_amp = live * (g_re @ cos.T + g_im @ sin.T)
        a = amp * live
        g_phase = cos * (a.T @ g_im) - sin * (a.T @ g_re)
        g_delay = 2 * math.pi * (g_phase @ freq)
        g_freq = 2 * math.pi * (delay @ g_phase)
        return g_amp, g_delay, g_freq, None, None


class ListeningAverage(Function):
    """Energy average of band levels over microphone positions.

    ``levels`` is (rooms, mics, bands) in dB and ``weights`` (mics,) are relative, they need not sum to one.
    """

    @staticmethod
    def forward(ctx, levels, weights):
        peak = levels.amax(dim=1, keepdim=True)
        energy = torch.pow(10.0, (levels - peak) / 10.0)
        power = (weights[:, None] * energy).sum(dim=1)
        total = weights.sum()
        ctx.save_for_backward(weights, energy, power, total)
        return peak.squeeze(1) + 10.0 * torch.log10(power / total)

    @staticmethod
    def backward(ctx, grad_out):
        weights, energy, power, total = ctx.saved_tensors
        share = (grad_out / power)[:, None, :] * energy
        grad_levels = weights[:, None] * share
        pull = share.sum(dim=(0, 2))
        common = grad_out.sum(dim=-1).mean() / total
        grad_weights = 10.0 / math.log(10.0) * (pull - common)
        return grad_levels, grad_weights


@dataclass
class CabinetSpec:
    n_ports: int = 1
    flanged_ends: int = 1
    decibels: bool = True


class VentedCabinet(nn.Module):
    """Trainable port geometry (log-parametrised)."""

    def __init__(self, spec: CabinetSpec, radius: float = 0.03, length: float = 0.12):
        super().__init__()
        self.spec = spec
        self.log_radius = nn.Parameter(torch.tensor(math.log(radius)))
        self.log_length = nn.Parameter(torch.tensor(math.log(length)))

    def forward(self, volume):
        return PortTuning.apply(
            self.log_radius.exp(),
            self.log_length.exp(),
            volume,
            self.spec.n_ports,
            self.spec.flanged_ends,
        )


def room_curve(levels, weights):
    return ListeningAverage.apply(levels, weights)
