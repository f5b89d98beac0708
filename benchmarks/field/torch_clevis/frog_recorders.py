"""Pond recorders: finding which frog species call in one-minute clips.

The solar recorders at the ponds send mel band energies.  A small convolutional tagger turns whitened frames into
per-frame call probabilities, these are pooled to one probability per clip and species, and the whole is trained on
clips that a panel of volunteers listened to.  Volunteers skip species they do not know, so the votes are full of holes.
"""
from dataclasses import dataclass

import torch
from torch import nn

SPECIES = ("moor frog", "edible frog", "natterjack", "midwife toad", "tree frog")


@dataclass(frozen=True)
class RecorderSetup:
    bands: int = 24
    frames_per_second: int = 20
    floor: float = 0.05
    half_life_s: float = 3.0

    @property
    def decay(self) -> float:
        return 0.5 ** (1.0 / (self.half_life_s * self.frames_per_second))


class WhitenFrames(torch.autograd.Function):
    """Adaptive whitening: every band is divided by its own slowly forgotten peak.

    The follower starts with the first frame and never sinks under the noise floor of the recorder::

        peak[0] = max(energy[0], floor)
        peak[t] = max(energy[t], floor, decay * peak[t - 1])

    energy: (frames, bands), positive.  decay: (bands,), in (0, 1).  floor: a number.
    """

    @staticmethod
    def forward(ctx, energy, decay, floor):
        peaks = [energy[0].clamp(min=floor)]
        for frame in energy[1:]:
            peaks.append(torch.maximum(frame.clamp(min=floor), decay * peaks[-1]))
        peak = torch.stack(peaks)
        ctx.save_for_backward(energy, decay, peak)
        return energy / peak

    @staticmethod
    def backward(ctx, grad):
        energy, decay, peak = ctx.saved_tensors
        held = peak > energy
        direct = grad / peak
        to_peak = -grad * energy / peak ** 2
        grad_energy = direct.clone()
        grad_decay = torch.zeros_like(decay)
        carry = torch.zeros_like(decay)
        for t in range(energy.shape[0] - 1, -1, -1):
            carry = carry + to_peak[t]
            grad_energy[t] += torch.where(held[t], torch.zeros_like(carry), carry)
            carry = torch.where(held[t], carry, torch.zeros_like(carry))
            if t > 0:
                grad_decay += carry * peak[t - 1]
                carry = carry * decay
        return grad_energy, grad_decay, None


class LinearSoftmaxClip(torch.autograd.Function):
    """Clip probability as the mean of the frame probabilities weighted by their own power.

    probs (clips, frames, species) in [0, 1]; lengths (clips,) counts the frames that were recorded before the battery
    went flat; power >= 1.  A clip without frames gets probability 0.
    """

    EPS = 1e-7

    @staticmethod
    def forward(ctx, probs, lengths, power=1.0):
        if power < 1.0:
            raise ValueError("power must be at least 1")
        steps = torch.arange(probs.shape[1], device=probs.device)
        alive = (steps[None, :] < lengths[:, None]).unsqueeze(-1).to(probs.dtype)
        weight = alive * probs ** power
        total = weight.sum(1, keepdim=True) + LinearSoftmaxClip.EPS
        pooled = (weight * probs).sum(1, keepdim=True) / total
        ctx.save_for_backward(probs, alive, total, pooled)
        ctx.power = power
        return pooled.squeeze(1)

    @staticmethod
    def backward(ctx, grad):
        probs, alive, total, pooled = ctx.saved_tensors
        power = ctx.power
        slope = (power + 1.0) * probs ** power - power * pooled * probs ** (power - 1.0)
        return grad.unsqueeze(1) * alive * slope / total, None, None


class PanelCallLoss(torch.autograd.Function):
    """Binary cross-entropy against the trust-weighted vote of the volunteers.

    Args:
        logits: (clips, species).
        trust: (volunteers,), positive; learned along with the network.
        votes: (clips, volunteers, species) integers, 0 or 1; data, not differentiated.
        voted: bool, same shape; False where the volunteer skipped the species.
        reduction: "sum", "mean" (over all pairs of clip and species with a vote) or "clip" (mean within a clip over
            its voted species, then the mean of those clips that have a vote at all).
    """

    @staticmethod
    def forward(ctx, logits, trust, votes, voted, reduction="mean"):
        share = trust[None, :, None] * voted
        mass = share.sum(1)
        known = mass > 0
        safe = torch.where(known, mass, torch.ones_like(mass))
        target = (share * votes).sum(1) / safe
        cell = nn.functional.softplus(logits) - target * logits
        cell = torch.where(known, cell, torch.zeros_like(cell))
        per_clip = known.sum(1)
        if reduction == "sum":
            value = cell.sum()
            scale = torch.ones_like(cell)
        elif reduction == "mean":
            count = known.sum().clamp(min=1)
            value = cell.sum() / count
            scale = torch.ones_like(cell) / count
        elif reduction == "clip":
            rows = cell.sum(1) / per_clip.clamp(min=1)
            value = rows.sum() / (per_clip > 0).sum().clamp(min=1)
            scale = (1.0 / per_clip.clamp(min=1).to(cell.dtype))[:, None].expand_as(cell) / cell.shape[0]
        else:
            raise ValueError(f"unknown reduction {reduction!r}")
        ctx.save_for_backward(logits, target, safe, votes, voted, scale * known)
        return value

    @staticmethod
    def backward(ctx, grad):
        logits, target, safe, votes, voted, scale = ctx.saved_tensors
        grad_logits = grad * scale * (torch.sigmoid(logits) - target)
        grad_target = -grad * scale * logits
        pull = voted * (votes - target.unsqueeze(1)) / safe.unsqueeze(1)
        grad_trust = (grad_target.unsqueeze(1) * pull).sum((0, 2))
        return grad_logits, grad_trust, None, None, None


class PondTagger(nn.Module):
    def __init__(self, setup: RecorderSetup = RecorderSetup(), species: int = len(SPECIES)):
        super().__init__()
        self.setup = setup
        self.decay_logit = nn.Parameter(torch.logit(torch.full((setup.bands,), setup.decay)))
        self.head = nn.Sequential(nn.Linear(setup.bands, 32), nn.GELU(), nn.Linear(32, species))

    def forward(self, clips, lengths):
        decay = torch.sigmoid(self.decay_logit)
        white = torch.stack([WhitenFrames.apply(clip, decay, self.setup.floor) for clip in clips])
        return LinearSoftmaxClip.apply(torch.sigmoid(self.head(white)), lengths, 1.0)
