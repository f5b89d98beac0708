"""Prosody features with hand-written gradients (F0 contour generation, rhythm, speaker-relative pitch)."""

import math

import torch
from torch.autograd import Function

ACCENT_CEILING = 0.9


def _phrase(t, alpha):
    tp = t.clamp_min(0.0)
    return alpha**2 * tp * torch.exp(-alpha * tp)


def _accent(t, beta):
    tp = t.clamp_min(0.0)
    return 1.0 - (1.0 + beta * tp) * torch.exp(-beta * tp)


class FujisakiContour(Function):
    r"""Log-F0 by the command-response model of Fujisaki.

    .. math::
        \ln F_0(t) = b + \sum_i A^p_i G_p(t - T_i) + \sum_j A^a_j [G_a(t - T^1_j) - G_a(t - T^2_j)]

    with ``G_p(t) = alpha^2 t exp(-alpha t)`` and ``G_a(t) = min(1 - (1 + beta t) exp(-beta t), 0.9)`` for t >= 0,
    both zero before.

    Args:
        base: (B,) log of the base frequency.
        phrase_amp, phrase_on: (B, P).
        accent_amp, accent_on, accent_off: (B, A).
        alpha, beta: (B,) eigenfrequencies (1/s), positive.
        times: (N,) frame times in s, not differentiated.
    Returns:
        (B, N)
    """

    @staticmethod
    def forward(
        ctx, base, phrase_amp, phrase_on, accent_amp, accent_on, accent_off, alpha, beta, times
    ):
        tp = times - phrase_on[..., None]
        t1 = times - accent_on[..., None]
        t2 = times - accent_off[..., None]
        al, be = alpha[:, None, None], beta[:, None, None]
        gp = _phrase(tp, al)
        up, down = _accent(t1, be), _accent(t2, be)
        step = up.clamp_max(ACCENT_CEILING) - down.clamp_max(ACCENT_CEILING)
        ctx.save_for_backward(phrase_amp, accent_amp, alpha, beta, tp, t1, t2, gp, up, down, step)
        return (
            base[:, None]
            + (phrase_amp[..., None] * gp).sum(1)
            + (accent_amp[..., None] * step).sum(1)
        )

    @staticmethod
    def backward(ctx, g):
        phrase_amp, accent_amp, alpha, beta, tp, t1, t2, gp, up, down, step = ctx.saved_tensors
        al, be = alpha[:, None, None], beta[:, None, None]
        g = g[:, None, :]
        g_base = g.sum((1, 2))

        run = (tp > 0).to(g.dtype)
        tp = tp.clamp_min(0.0)
        decay = torch.exp(-al * tp) * run
        g_pa = (g * gp).sum(-1)
        g_gp = g * phrase_amp[..., None]
        g_pon = -(g_gp * al**2 * (1.0 - al * tp) * decay).sum(-1)
        g_alpha = (g_gp * (2.0 - al * tp) * al * tp * decay).sum((1, 2))

        g_aa = (g * step).sum(-1)
        g_step = g * accent_amp[..., None]

        def accent_terms(t, level):
            t = t.clamp_min(0.0)
            e = torch.exp(-be * t) * (level < ACCENT_CEILING)
            return be**2 * t * e, be * t**2 * e

        dt1, db1 = accent_terms(t1, up)
        dt2, db2 = accent_terms(t2, down)
        g_on = -(g_step * dt1).sum(-1)
        g_off = (g_step * dt2).sum(-1)
        g_beta = (g_step * (db1 - db2)).sum((1, 2))
        return g_base, g_pa, g_pon, g_aa, g_on, g_off, g_alpha, g_beta, None


class PairwiseVariability(Function):
    """nPVI of padded duration rows (B, N) with `lengths` (B,), each at least 2."""

    @staticmethod
    def forward(ctx, dur, lengths):
        a, b = dur[:, :-1], dur[:, 1:]
        valid = torch.arange(1, dur.shape[1], device=dur.device)[None] < lengths[:, None]
        total = torch.where(valid, a + b, torch.ones_like(a))
        ratio = torch.where(valid, 2.0 * (a - b).abs() / total, torch.zeros_like(a))
        ctx.save_for_backward(a, b, total, valid)
        return 100.0 * ratio.sum(1) / (lengths - 1).to(dur.dtype)

    @staticmethod
    def backward(ctx, g):
        a, b, total, valid = ctx.saved_tensors
        w = 100.0 * g[:, None] * valid / valid.shape[1]
        s = torch.sign(a - b) * w * 4.0 / total**2
        grad = g.new_zeros(a.shape[0], a.shape[1] + 1)
        grad[:, :-1] += s * b
        grad[:, 1:] -= s * a
        return grad, None


class SpeakerSemitones(Function):
    @staticmethod
    def forward(ctx, f0, voiced, speaker, n_speakers):
        v = voiced.to(f0.dtype)
        safe = torch.where(voiced, f0, torch.ones_like(f0))
        logf = safe.log() * v
        count = f0.new_zeros(n_speakers).index_add(0, speaker, v.sum(1)).clamp_min(1.0)
        mean = f0.new_zeros(n_speakers).index_add(0, speaker, logf.sum(1)) / count
        ctx.save_for_backward(safe, v, speaker, count)
        return (12.0 / math.log(2.0)) * (logf - mean[speaker][:, None]) * v

    @staticmethod
    def backward(ctx, g):
        safe, v, speaker, count = ctx.saved_tensors
        g = (12.0 / math.log(2.0)) * g * v
        pooled = torch.zeros_like(count).index_add(0, speaker, g.sum(1)) / count
        return v * (g - pooled[speaker][:, None]) / safe, None, None, None


def semitones(f0, speaker=None):
    """f0 (B, T) in Hz with 0 for unvoiced frames."""
    if speaker is None:
        speaker = torch.zeros(f0.shape[0], dtype=torch.long, device=f0.device)
    return SpeakerSemitones.apply(f0, f0 > 0, speaker, int(speaker.max()) + 1)
