"""Road-noise screens: diffraction over a wall, the ground dip, and the day-evening-night level.

Coordinates are (x, z) in metres in the vertical plane through source and receiver. Levels in dB.
Used by the wall-height optimiser, which moves the screen's top edge downhill on the cost of complaints.
"""
import math

import torch

SOUND_SPEED = 340.0
OCTAVES = (63.0, 125.0, 250.0, 500.0, 1000.0, 2000.0, 4000.0)
DB = 10.0 / math.log(10.0)
CEILING = 24.0

# 0 day, 1 evening, 2 night
PERIOD_OF_HOUR = torch.tensor([2] * 7 + [0] * 12 + [1] * 4 + [2])


def default_penalties(dtype=torch.get_default_dtype()):
    return torch.tensor([0.0, 5.0, 10.0], dtype=dtype)


def _dist(a, b):
    return torch.sqrt(((a - b) ** 2).sum(-1))


def _above_sight_line(source, edge, receiver):
    """+1 where the edge interrupts the line of sight, -1 where the receiver sees the source over it."""
    t = (edge[..., 0] - source[..., 0]) / (receiver[..., 0] - source[..., 0])
    sight = source[..., 1] + t * (receiver[..., 1] - source[..., 1])
    return torch.where(edge[..., 1] >= sight, 1.0, -1.0).to(source.dtype)


class ScreenLoss(torch.autograd.Function):
    """Kurze-Anderson attenuation of a thin screen.

    Args:
        source, edge, receiver: points, shape (n, 2), with the edge between the other two in x.
        freq: (bands,) Hz, a constant.

    Returns:
        Attenuation (n, bands), between 0 and 24 dB. Receivers that see the source just over the edge still get
        a little of it: Fresnel numbers down to about -0.19 count, with the tangent form.
    """

    @staticmethod
    def forward(source, edge, receiver, freq):
        path = _dist(source, edge) + _dist(edge, receiver) - _dist(source, receiver)
        side = _above_sight_line(source, edge, receiver)
        n = 2.0 * (side * path)[:, None] * freq / SOUND_SPEED
        s = torch.sqrt(2.0 * math.pi * n.abs().clamp(min=1e-9))
        lit = n < 0
        s_lit = torch.where(lit, s, torch.full_like(s, 0.5)).clamp(max=1.2)
        s_dark = torch.where(lit, torch.full_like(s, 0.5), s)
        loss = torch.where(
            lit,
            5.0 + 2 * DB * torch.log(s_lit / torch.tan(s_lit)),
            5.0 + 2 * DB * torch.log(s_dark / torch.tanh(s_dark)),
        )
        return loss.clamp(0.0, CEILING)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad):
        source, edge, receiver, freq, loss = ctx.saved_tensors
        se, er, sr = _dist(source, edge), _dist(edge, receiver), _dist(source, receiver)
        side = _above_sight_line(source, edge, receiver)[:, None]
        n_abs = (2.0 * (se + er - sr)[:, None] * freq / SOUND_SPEED).clamp(min=1e-9)
        s = torch.sqrt(2.0 * math.pi * n_abs)
        dark = 1.0 / s - 2.0 / torch.sinh(2.0 * s)
        s_lit = s.clamp(max=1.2)
        lit = 2.0 / torch.sin(2.0 * s_lit) - 1.0 / s_lit
        d_n = 2 * DB * torch.where(side > 0, dark, lit) * math.pi / s
        inside = (loss > 0.0) & (loss < CEILING)
        d_path = (torch.where(inside, grad * d_n, torch.zeros_like(grad)) * 2.0 * freq / SOUND_SPEED).sum(1, keepdim=True)
        u_se = (edge - source) / se[:, None]
        u_er = (receiver - edge) / er[:, None]
        u_sr = (receiver - source) / sr[:, None]
        return d_path * (u_sr - u_se), d_path * (u_se - u_er), d_path * (u_er - u_sr), None


class GroundDip(torch.autograd.Function):
    """Level of direct plus ground-reflected sound relative to the direct sound alone.

    h_source, h_receiver, distance: (n,) metres;  reflect: (bands,) real pressure coefficient;  freq: (bands,) fixed, Hz
    """

    @staticmethod
    def forward(ctx, h_source, h_receiver, distance, reflect, freq):
        r1 = torch.sqrt(distance**2 + (h_source - h_receiver) ** 2)
        r2 = torch.sqrt(distance**2 + (h_source + h_receiver) ** 2)
        k = 2.0 * math.pi * freq / SOUND_SPEED
        amp = reflect * (r1 / r2)[:, None]
        phase = k * (r2 - r1)[:, None]
        power = 1.0 + amp**2 + 2.0 * amp * torch.cos(phase)
        ctx.save_for_backward(h_source, h_receiver, distance, reflect, r1, r2, k, amp, phase, power)
        return DB * torch.log(power)

    @staticmethod
    def backward(ctx, g):
        hs, hr, d, reflect, r1, r2, k, amp, phase, power = ctx.saved_tensors
        g = DB * g / power
        g_amp = g * (2.0 * amp + 2.0 * torch.cos(phase))
        g_phase = -g * 2.0 * amp * torch.sin(phase)
        ratio = (r1 / r2)[:, None]
        g_reflect = (g_amp * ratio).sum(0)
        g_ratio = (g_amp * reflect).sum(1)
        g_diff = (g_phase * k).sum(1)
        g_r1 = g_ratio / r2 - g_diff
        g_r2 = -g_ratio * r1 / r2**2 + g_diff
        slope = (hs - hr) / r1
        lift = (hs + hr) / r2
        g_hs = g_r1 * slope + g_r2 * lift
        g_hr = g_r1 * slope + g_r2 * lift
        g_d = g_r1 * d / r1 + g_r2 * d / r2
        return g_hs, g_hr, g_d, g_reflect, None


class DayEveningNight(torch.autograd.Function):
    """Energy mean of hourly levels (..., hours) with a penalty (periods,) for the period an hour falls in.

    `period` (hours,) int64 picks the penalty; `valid` (..., hours) bool leaves out hours without a measurement. A
    record without any valid hour is reported as 0 dB.
    """

    @staticmethod
    def forward(ctx, level, penalty, period, valid):
        shifted = (level + penalty[period]).masked_fill(~valid, -torch.inf)
        count = valid.sum(-1)
        some = count > 0
        peak = torch.where(some, shifted.amax(-1), torch.zeros_like(shifted[..., 0])).detach()
        energy = torch.where(valid, torch.exp((shifted - peak[..., None]).masked_fill(~valid, 0.0) / DB), 0.0)
        total = torch.where(some, energy.sum(-1), torch.ones_like(peak))
        ctx.save_for_backward(energy, total, period)
        ctx.periods = penalty.shape[0]
        mean = peak + DB * torch.log(total / count.clamp(min=1))
        return torch.where(some, mean, torch.zeros_like(mean))

    @staticmethod
    def backward(ctx, g):
        energy, total, period = ctx.saved_tensors
        g_level = (g / total)[..., None] * energy
        g_penalty = g.new_zeros(ctx.periods)
        g_penalty.index_add_(0, period, g_level.reshape(-1, g_level.shape[-1]).sum(0))
        return g_level, g_penalty, None, None


def lden(level, penalty=None, valid=None):
    if penalty is None:
        penalty = default_penalties(level.dtype)
    if valid is None:
        valid = torch.ones_like(level, dtype=torch.bool)
    return DayEveningNight.apply(level, penalty, PERIOD_OF_HOUR.to(level.device), valid)
