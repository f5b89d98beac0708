"""Shading terms and the depth loss of the relighting model."""
from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_FOUR_PI = 4.0 * math.pi


def _hg(mu: Tensor, g: Tensor) -> Tensor:
    return (1 - g * g) / (_FOUR_PI * (1 + g * g - 2 * g * mu) ** 1.5)


def _hg_slopes(mu: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Derivatives of the Henyey-Greenstein lobe by ``mu`` and by ``g``."""
    s = 1 + g * g - 2 * g * mu
    by_mu = 3 * g * (1 - g * g) / (_FOUR_PI * s ** 2.5)
    by_g = -(2 * g * s + 3 * (1 - g * g) * (g - mu)) / (_FOUR_PI * s ** 2.5)
    return by_mu, by_g


class DoubleHenyeyGreenstein(Function):
    r"""Two-lobe Henyey-Greenstein phase function.

    A forward lobe of asymmetry ``g_forward`` and a backward lobe of asymmetry
    ``-g_back`` are mixed:

    .. math::
        p(\mu) = w\, P(\mu; g_f) + (1 - w)\, P(\mu; -g_b), \qquad
        P(\mu; g) = \frac{1 - g^2}{4\pi (1 + g^2 - 2 g \mu)^{3/2}}

    Args:
        mu: Cosine of the scattering angle, in [-1, 1], any shape.
        g_forward: Asymmetry of the forward lobe, in [0, 1). Broadcasts
            against ``mu`` (e.g. ``(M, 1)`` for M media and N angles).
        g_back: Strength of the backward lobe, in [0, 1), a positive number
            for a lobe that points backwards. Broadcasts against ``mu``.
        weight: Share of the forward lobe, in [0, 1]. Broadcasts against
            ``mu``.

    Returns:
        Phase function per steradian, with the shape of the broadcast
        arguments; it integrates to one over the sphere. All four arguments
        are differentiable.
    """

    @staticmethod
    def forward(mu, g_forward, g_back, weight):
        return weight * _hg(mu, g_forward) + (1 - weight) * _hg(mu, -g_back)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        mu, g_forward, g_back, weight = ctx.saved_tensors
        fwd_mu, fwd_g = _hg_slopes(mu, g_forward)
        back_mu, back_g = _hg_slopes(mu, -g_back)
        d_mu = grad * (weight * fwd_mu + (1 - weight) * back_mu)
        d_forward = grad * weight * fwd_g
        d_back = grad * (1 - weight) * back_g
        d_weight = grad * (_hg(mu, g_forward) - _hg(mu, -g_back))
        return (
            d_mu.sum_to_size(mu.shape),
            d_forward.sum_to_size(g_forward.shape),
            d_back.sum_to_size(g_back.shape),
            d_weight.sum_to_size(weight.shape),
        )


class HazePhase(nn.Module):
    """Phase function of a participating medium with learned lobes."""

    def __init__(self, g_forward: float = 0.8, g_back: float = 0.3, weight: float = 1.0):
        super().__init__()
        self.g_forward = nn.Parameter(torch.tensor(g_forward))
        self.g_back = nn.Parameter(torch.tensor(g_back))
        self.register_buffer("weight", torch.tensor(weight))

    def forward(self, view: Tensor, light: Tensor) -> Tensor:
        mu = F.cosine_similarity(view, light, dim=-1)
        return DoubleHenyeyGreenstein.apply(mu, self.g_forward, self.g_back, self.weight)


class TriplanarBlend(Function):

    @staticmethod
    def forward(ctx, normal, samples, sharpness):
        power = normal.abs() ** sharpness
        total = power.sum(-1, keepdim=True)
        share = power / total
        ctx.save_for_backward(normal, samples, sharpness, share, total)
        return (share.unsqueeze(-1) * samples).sum(-2)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        normal, samples, sharpness, share, total = ctx.saved_tensors
        g_samples = share.unsqueeze(-1) * grad.unsqueeze(-2)
        g_share = (samples * grad.unsqueeze(-2)).sum(-1)
        g_power = (g_share - (g_share * share).sum(-1, keepdim=True)) / total
        mag = normal.abs()
        g_normal = g_power * sharpness * mag ** (sharpness - 1)
        g_sharpness = (g_power * torch.special.xlogy(share * total, mag)).sum()
        return g_normal, g_samples, g_sharpness


class TriplanarTexture(nn.Module):
    def __init__(self, size=64, channels=3, sharpness=4.0):
        super().__init__()
        self.planes = nn.Parameter(torch.rand(3, channels, size, size))
        self.sharpness = nn.Parameter(torch.tensor(sharpness))

    def forward(self, points, normals):
        uv = torch.stack([points[:, [1, 2]], points[:, [2, 0]], points[:, [0, 1]]])
        taps = F.grid_sample(self.planes, uv.unsqueeze(1), align_corners=False)
        samples = taps.squeeze(2).permute(2, 0, 1)
        return TriplanarBlend.apply(normals, samples, self.sharpness)


class ScaleInvariantLogLoss(Function):
    """Scale-invariant log depth loss (Eigen et al. 2014).

    pred, target (B, H, W), positive; mask (B, H, W) bool, True where the sensor
    returned a depth. Per image: mean(d^2) - lam * mean(d)^2 over the valid
    pixels, with d = log(pred) - log(target). Target is data and gets no gradient.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, pred: Tensor, target: Tensor, mask: Tensor, lam: float = 0.5,
                reduction: Literal["mean", "sum", "none"] = "mean") -> Tensor:
        log_ratio = torch.where(mask, pred.log() - target.log(), pred.new_zeros(()))
        count = mask.sum(dim=(1, 2)).clamp_min(1).to(pred.dtype)
        bias = log_ratio.sum(dim=(1, 2)) / count
        loss = log_ratio.square().sum(dim=(1, 2)) / count - lam * bias.square()
        ctx.save_for_backward(pred, log_ratio, count, bias)
        ctx.lam, ctx.reduction = lam, reduction
        if reduction == "mean":
            return loss.mean()
        if reduction == "sum":
            return loss.sum()
        return loss

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    @once_differentiable
    def backward(ctx, grad):
        pred, log_ratio, count, bias = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad = grad / pred.shape[0]
        scale = (2.0 * grad / count).view(-1, 1, 1)
        residual = log_ratio - ctx.lam * bias.view(-1, 1, 1)
        return scale * residual / pred, None, None, None, None


def depth_loss(pred: Tensor, batch: dict, lam: float = 0.5) -> Tensor:
    """Loss of a dataloader batch with keys ``depth`` and (optionally) ``valid``."""
    valid = batch.get("valid")
    if valid is None:
        valid = torch.ones_like(pred, dtype=torch.bool)
    return ScaleInvariantLogLoss.apply(pred, batch["depth"], valid, lam, "mean")
