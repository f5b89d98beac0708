"""Differentiable front end for wrist pulse oximetry.

Light of two colours passes the tissue; the pulsating share of each gives the
oxygen saturation. Movement is removed beforehand with an adaptive filter fed
by the accelerometer.
"""
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.autograd import Function


@dataclass(frozen=True)
class OximeterConfig:
    """Settings of the chain.

    Attributes:
        taps: Length of the adaptive filter.
        rule: Step rule of the canceller.
        eps: Guard of the normalised step.
        offset: Calibration intercept (percent).
        slope: Calibration slope (percent per unit ratio).
    """

    taps: int = 8
    rule: Literal["lms", "nlms"] = "lms"
    eps: float = 1e-3
    offset: float = 110.0
    slope: float = -25.0


class RatioOfRatios(Function):
    """Pulsatile fraction of red light over that of infrared light.

    Args:
        red: Intensities, shape (batch, time), positive.
        infrared: Intensities, shape (batch, time), positive.
        good: Boolean, shape (batch, time); samples of good quality. At least
            two in every row.

    Returns:
        Ratio, shape (batch,).
    """

    @staticmethod
    def forward(ctx, red: Tensor, infrared: Tensor, good: Tensor) -> Tensor:
        w = good.to(red.dtype)
        count = w.sum(-1, keepdim=True)
        w = w / count

        def split(light):
            dc = (w * light).sum(-1, keepdim=True)
            ac = (w * (light - dc) ** 2).sum(-1, keepdim=True).sqrt()
            return dc, ac

        dc_r, ac_r = split(red)
        dc_i, ac_i = split(infrared)
        ratio = (ac_r / dc_r) / (ac_i / dc_i)
        ctx.save_for_backward(red, infrared, w, dc_r, ac_r, dc_i, ac_i, ratio)
        return ratio.squeeze(-1)

    @staticmethod
    def backward(ctx, grad: Tensor):
        red, infrared, w, dc_r, ac_r, dc_i, ac_i, ratio = ctx.saved_tensors
        seen = (w > 0).to(w.dtype)
        n = red.shape[-1]

        def log_slope(light, dc, ac):
            pulsatile = w * (light - dc) / ac**2
            steady = seen / (n * dc)
            return pulsatile - steady

        scale = grad.unsqueeze(-1) * ratio
        return (
            scale * log_slope(red, dc_r, ac_r),
            -scale * log_slope(infrared, dc_i, ac_i),
            None,
        )


class BeatTemplateScore(Function):
    """Correlation of a window of each record with a common beat shape.

    Args:
        record: Signals, shape (batch, time).
        template: Beat shape, shape (length,).
        onset: Integer start of the window in every record, shape (batch,).
            Windows may reach over either end, where the record's first or
            last sample is held.
        eps: Floor of the energies, which keeps flat windows at score zero.

    Returns:
        Scores, shape (batch,).
    """

    @staticmethod
    def forward(ctx, record, template, onset, eps=1e-8):
        index = onset[:, None] + torch.arange(template.shape[0], device=onset.device)
        index = index.clamp(0, record.shape[1] - 1)
        window = record.gather(1, index)
        window = window - window.mean(1, keepdim=True)
        shape = template - template.mean()
        norm_w = (window.square().sum(1, keepdim=True) + eps).sqrt()
        norm_s = (shape.square().sum() + eps).sqrt()
        score = (window @ shape)[:, None] / (norm_w * norm_s)
        ctx.save_for_backward(window, shape, norm_w, norm_s, score, index)
        ctx.record_shape = record.shape
        return score.squeeze(1)

    @staticmethod
    def backward(ctx, grad):
        window, shape, norm_w, norm_s, score, index = ctx.saved_tensors
        g = grad[:, None]
        a, b = window / norm_w, shape / norm_s
        d_window = g * (b - score * a) / norm_w
        d_template = (g * (a - score * b)).sum(0) / norm_s
        d_record = torch.zeros(ctx.record_shape, dtype=window.dtype, device=window.device)
        d_record.scatter_add_(1, index, d_window)
        return d_record, d_template, None, None


class AdaptiveCanceller(Function):
    """Error signal of a transversal filter that learns on line.

    Args:
        primary: Disturbed signals, shape (batch, time).
        reference: Movement signal, shape (batch, time).
        step: Step sizes, shape (batch,).
        taps: Number of filter taps.
        rule: ``"lms"``, or ``"nlms"`` where the step is divided by the energy
            of the reference in the filter.
        eps: Added to that energy.

    Returns:
        Cleaned signals, shape (batch, time).
    """

    @staticmethod
    def forward(ctx, primary, reference, step, taps, rule="lms", eps=1e-3):
        if rule not in ("lms", "nlms"):
            raise ValueError(rule)
        steps = primary.shape[1]
        padded = torch.nn.functional.pad(reference, (taps - 1, 0))
        lines = padded.unfold(1, taps, 1)
        coef = torch.zeros_like(lines[:, 0])
        history, errors = [], []
        for t in range(steps):
            u = lines[:, t]
            e = primary[:, t] - (coef * u).sum(1)
            history.append(coef)
            errors.append(e)
            rate = step / (eps + u.square().sum(1)) if rule == "nlms" else step
            coef = coef + (rate * e)[:, None] * u
        errors = torch.stack(errors, 1)
        ctx.save_for_backward(lines, torch.stack(history, 1), errors, step)
        ctx.normalised, ctx.eps = rule == "nlms", eps
        return errors

    @staticmethod
    def backward(ctx, grad):
        lines, history, errors, step = ctx.saved_tensors
        batch, steps, taps = lines.shape
        lam = torch.zeros_like(history[:, 0])
        d_primary = torch.empty_like(grad)
        d_padded = grad.new_zeros(batch, steps + taps - 1)
        d_step = torch.zeros_like(step)
        for t in reversed(range(steps)):
            u, e = lines[:, t], errors[:, t]
            inv = 1 / (ctx.eps + u.square().sum(1)) if ctx.normalised else torch.ones_like(e)
            along = (lam * u).sum(1) * inv
            d_e = grad[:, t] + step * along
            d_step = d_step + e * along
            d_u = (step * inv * e)[:, None] * lam - d_e[:, None] * history[:, t]
            d_primary[:, t] = d_e
            d_padded[:, t : t + taps] += d_u
            lam = lam - d_e[:, None] * u
        return d_primary, d_padded[:, taps - 1 :], d_step, None, None, None


def saturation(red, infrared, movement, step, good, cfg: OximeterConfig = OximeterConfig()):
    """Oxygen saturation in percent, shape (batch,)."""
    clean = []
    for light in (red, infrared):
        base = light.mean(1, keepdim=True)
        error = AdaptiveCanceller.apply(light - base, movement, step, cfg.taps, cfg.rule, cfg.eps)
        clean.append(error + base)
    return cfg.offset + cfg.slope * RatioOfRatios.apply(clean[0], clean[1], good)


def learn_template(records, onsets, template, steps=100, lr=1e-2):
    """Sharpen a beat template by raising its mean score."""
    template = template.clone().requires_grad_(True)
    opt = torch.optim.SGD([template], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        loss = -BeatTemplateScore.apply(records, template, onsets).mean()
        loss.backward()
        opt.step()
    return template.detach()
