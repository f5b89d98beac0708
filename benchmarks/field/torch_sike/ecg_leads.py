"""Differentiable pieces of the surface ECG chain: lead derivation, QT correction, QRST cancellation."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd import Function

ELECTRODES = ("RA", "LA", "LL", "V1", "V2", "V3", "V4", "V5", "V6")
LIMB = torch.tensor([0, 1, 2])

# milliseconds are used nowhere in this package, everything below is in seconds
FRAMINGHAM_SLOPE = 0.154
HODGES_SLOPE = 0.00175 * 60.0


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=(-2, -1), keepdim=True)


class WilsonReference(Function):
    """Potentials against the Wilson central terminal.

    Parameters
    ----------
    potentials : Tensor, shape (records, electrodes, samples)
        Raw electrode potentials in mV.
    limb : LongTensor, shape (n_limb,)
        Rows that make up the central terminal.
    good : BoolTensor, shape (records, electrodes)
        False where the electrode fell off. A record that lost all its limb electrodes is left unreferenced.
    augmented : bool
        Goldberger's leads: a limb electrode is referred to the mean of the *other* usable limb electrodes.

    Returns
    -------
    Tensor, shape (records, electrodes, samples)
    """

    @staticmethod
    def forward(ctx, potentials, limb, good, augmented=False):
        member = torch.zeros_like(good)
        member[:, limb] = good[:, limb]
        count = member.sum(dim=1, keepdim=True).to(potentials.dtype)
        share = member.to(potentials.dtype) / count.clamp(min=1.0)
        terminal = torch.einsum("re,ret->rt", share, potentials)
        gain = torch.ones_like(share)
        if augmented:
            swell = count / (count - 1.0).clamp(min=1.0)
            gain = torch.where(member & (count > 1.0), swell.expand_as(share), gain)
        ctx.save_for_backward(share, gain)
        return (potentials - terminal.unsqueeze(1)) * gain.unsqueeze(-1)

    @staticmethod
    def backward(ctx, grad):
        share, gain = ctx.saved_tensors
        grad = grad * gain.unsqueeze(-1)
        lumped = grad.sum(dim=1, keepdim=True)
        return grad - share.unsqueeze(-1) * lumped, None, None, None


class CorrectedQT(Function):
    """Heart-rate corrected QT interval.

    Parameters
    ----------
    qt : Tensor, shape (records, beats)
        QT interval, s.
    rr : Tensor, shape (records, beats) or (records, 1)
        Preceding RR interval, s; one mean value per record is accepted.
    formula : {"bazett", "fridericia", "framingham", "hodges"}

    Returns
    -------
    Tensor, shape (records, beats)
        QTc, s.
    """

    @staticmethod
    def forward(ctx, qt, rr, formula="fridericia"):
        ctx.formula = formula
        ctx.save_for_backward(qt, rr)
        if formula == "bazett":
            return qt * rr.rsqrt()
        if formula == "fridericia":
            return qt * rr.pow(-1.0 / 3.0)
        if formula == "framingham":
            return qt + FRAMINGHAM_SLOPE * (1.0 - rr)
        if formula == "hodges":
            return qt + HODGES_SLOPE * (1.0 / rr - 1.0)
        raise ValueError(f"unknown QT formula {formula!r}")

    @staticmethod
    def backward(ctx, grad):
        qt, rr = ctx.saved_tensors
        if ctx.formula == "bazett":
            d_qt, d_rr = rr.rsqrt(), -0.5 * qt * rr.pow(-1.5)
        elif ctx.formula == "fridericia":
            d_qt, d_rr = rr.pow(-1.0 / 3.0), -qt * rr.pow(-4.0 / 3.0) / 3.0
        elif ctx.formula == "framingham":
            d_qt, d_rr = torch.ones_like(rr), -FRAMINGHAM_SLOPE * torch.ones_like(rr)
        else:
            d_qt, d_rr = torch.ones_like(rr), -HODGES_SLOPE / rr
        return grad * d_qt, (grad * d_rr).sum_to_size(rr.shape), None


class QrstSubtract(Function):
    """Cancel the ventricular complex by subtracting the class template of each beat.

    Parameters
    ----------
    beats : Tensor, shape (n, leads, samples)
        Beats aligned on the R peak.
    templates : Tensor, shape (classes, leads, samples)
        One template per morphology class (normal, PVC, paced, ...).
    labels : LongTensor, shape (n,)
        Morphology class of each beat.
    fit : bool
        Fit one amplitude per beat by least squares; otherwise the amplitude is one.

    Returns
    -------
    Tensor, shape (n, leads, samples)
        Atrial residual.
    """

    @staticmethod
    def forward(ctx, beats, templates, labels, fit=True):
        chosen = templates[labels]
        energy = _dot(chosen, chosen)
        amplitude = _dot(beats, chosen) / energy if fit else torch.ones_like(energy)
        ctx.fit = fit
        ctx.n_classes = templates.shape[0]
        ctx.save_for_backward(beats, chosen, labels, amplitude, energy)
        return beats - amplitude * chosen

    @staticmethod
    def backward(ctx, grad):
        beats, chosen, labels, amplitude, energy = ctx.saved_tensors
        grad_beats = grad
        grad_chosen = -amplitude * grad
        if ctx.fit:
            pull = _dot(grad, chosen) / energy
            grad_beats = grad - pull * chosen
            grad_chosen = grad_chosen - pull * (beats - 2.0 * amplitude * chosen)
        grad_templates = grad.new_zeros((ctx.n_classes,) + grad.shape[1:])
        grad_templates[labels] += grad_chosen
        return grad_beats, grad_templates, None, None


class AtrialExtractor(nn.Module):
    """Learns the morphology templates jointly with whatever consumes the atrial residual."""

    def __init__(self, n_classes: int, samples: int, leads: int = len(ELECTRODES)):
        super().__init__()
        self.templates = nn.Parameter(0.1 * torch.randn(n_classes, leads, samples))

    def forward(self, beats: Tensor, labels: Tensor, good: Tensor) -> Tensor:
        referenced = WilsonReference.apply(beats, LIMB, good, False)
        return QrstSubtract.apply(referenced, self.templates, labels, True)


def qtc_spread(qt: Tensor, rr: Tensor, formula: str = "fridericia") -> Tensor:
    """Standard deviation of QTc over the beats of each record."""
    return CorrectedQT.apply(qt, rr, formula).std(dim=-1)
