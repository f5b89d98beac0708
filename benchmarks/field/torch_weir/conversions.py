from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Optional

import numpy as np
import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor


# --------------------------------------------------------------------------------------------------------------------
# delayed feedback
# --------------------------------------------------------------------------------------------------------------------


class DelayedFeedbackNLL(torch.autograd.Function):
    """Delayed-feedback likelihood of conversions (Chapelle, KDD 2014).

    A click converts with probability ``sigmoid(logit)`` after an exponential delay of rate ``exp(log_rate)``.  A click
    that has not converted yet may still do so, hence the mixture in its likelihood.

    Shapes: all ``[n]``.  ``converted`` is boolean.  ``elapsed`` is the delay of a conversion, or the age of the click
    when there was none so far.  ``weight`` are optional importance weights (constants).  With ``reduction="mean"`` the
    result is the weighted mean, ``sum(w * nll) / sum(w)``; ``"sum"`` and ``"none"`` apply the weights only.
    Ages and weights are data; gradients go to ``logit`` and ``log_rate``.
    """

    @staticmethod
    def forward(
        ctx,
        logit: Float[Tensor, "n"],
        log_rate: Float[Tensor, "n"],
        converted: Int[Tensor, "n"],
        elapsed: Float[Tensor, "n"],
        weight: Optional[Float[Tensor, "n"]] = None,
        reduction: str = "mean",
    ):
        if weight is None:
            weight = torch.ones_like(logit)
        converted = converted.bool()
        hazard = log_rate.exp() * elapsed
        yes = -F.logsigmoid(logit) - log_rate + hazard
        no = F.softplus(logit) - F.softplus(logit - hazard)
        nll = weight * torch.where(converted, yes, no)
        ctx.save_for_backward(logit, log_rate, converted, elapsed, weight)
        ctx.reduction = reduction
        if reduction == "none":
            return nll
        return nll.sum() / weight.sum() if reduction == "mean" else nll.sum()

    @staticmethod
    def backward(ctx, grad):
        logit, log_rate, converted, elapsed, weight = ctx.saved_tensors
        hazard = log_rate.exp() * elapsed
        pending = torch.sigmoid(logit - hazard)
        d_logit = torch.sigmoid(logit) - torch.where(converted, torch.ones_like(logit), pending)
        d_log_rate = torch.where(converted, hazard - 1.0, pending * hazard)
        scale = grad * weight
        if ctx.reduction == "mean":
            scale = scale / logit.numel()
        return scale * d_logit, scale * d_log_rate, None, None, None, None


# --------------------------------------------------------------------------------------------------------------------
# token merging for the session encoder
# --------------------------------------------------------------------------------------------------------------------


def bipartite_slots(metric: Float[Tensor, "b n c"], r: int) -> Int[Tensor, "b n"]:
    """Output slot of every token: the ``r`` even tokens that look most like an odd one are merged into it."""
    metric = F.normalize(metric.detach(), dim=-1)
    even, odd = metric[:, ::2], metric[:, 1::2]
    best, partner = (even @ odd.transpose(1, 2)).max(dim=-1)
    order = best.argsort(dim=-1, descending=True)
    keep = even.shape[1] - r
    slots = torch.empty(metric.shape[:2], dtype=torch.long, device=metric.device)
    slots[:, 1::2] = keep + torch.arange(odd.shape[1], device=metric.device)
    even_slots = torch.empty(even.shape[:2], dtype=torch.long, device=metric.device)
    even_slots.scatter_(1, order[:, r:], torch.arange(keep, device=metric.device).expand(order.shape[0], keep))
    even_slots.scatter_(1, order[:, :r], keep + partner.gather(1, order[:, :r]))
    slots[:, ::2] = even_slots
    return slots


class TokenMerge(torch.autograd.Function):
    """Size-weighted merging of tokens, as in ToMe.

    ``slot[b, i]`` is the place of token i in the merged sequence; several tokens may go to one slot and every slot
    gets at least one.  ``size`` (positive) says how many patches a token stands for.  Returns the merged tokens
    ``[b, m, c]`` and their sizes ``[b, m]``; both are differentiable in ``x`` and ``size``.
    """

    @staticmethod
    def forward(ctx, x: Float[Tensor, "b n c"], size: Float[Tensor, "b n"], slot: Int[Tensor, "b n"], m: int):
        wide = slot[..., None].expand_as(x)
        total = size.new_zeros(size.shape[0], m).scatter_add_(1, slot, size)
        merged = x.new_zeros(x.shape[0], m, x.shape[2]).scatter_add_(1, wide, x * size[..., None])
        merged = merged / total[..., None]
        ctx.save_for_backward(x, size, slot, merged, total)
        return merged, total

    @staticmethod
    def backward(ctx, g_merged, g_total):
        x, size, slot, merged, total = ctx.saved_tensors
        wide = slot[..., None].expand_as(x)
        g = (g_merged / total[..., None]).gather(1, wide)
        g_x = g * size[..., None]
        g_size = (g * (x - merged.gather(1, wide))).sum(-1) + g_total.gather(1, slot)
        return g_x, g_size, None, None


# --------------------------------------------------------------------------------------------------------------------
# incoherence processing before quantisation
# --------------------------------------------------------------------------------------------------------------------


def _walsh_hadamard(x: Tensor) -> Tensor:
    """Unnormalised fast transform of the last axis (a power of two)."""
    n = x.shape[-1]
    lead = x.shape[:-1]
    h = 1
    while h < n:
        x = x.reshape(*lead, n // (2 * h), 2, h)
        x = torch.stack((x[..., 0, :] + x[..., 1, :], x[..., 0, :] - x[..., 1, :]), dim=-2)
        h *= 2
    return x.reshape(*lead, n)


def make_hadamard_rotation(dim: int, seed: Optional[int] = None) -> Callable[[Tensor], Tensor]:
    """Rotation that spreads outliers over the features.

    Args:
        dim: Features of the input; they are zero padded to the next power of two, which is what comes out.
        seed: When given, the features are first multiplied by random signs drawn from this seed.

    Returns:
        A function from ``[..., dim]`` to ``[..., n]`` which keeps the norm of its argument.
    """
    n = 1 << (dim - 1).bit_length()
    if seed is None:
        signs = np.ones(n)
    else:
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=n)
    flips = torch.from_numpy(signs)

    def rotate(x: Tensor) -> Tensor:
        return _walsh_hadamard(x * flips.to(x)) / n ** 0.5

    class RandomizedHadamard(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return rotate(F.pad(x, (0, n - dim)))

        @staticmethod
        def backward(ctx, grad):
            # the normalised transform is symmetric and orthogonal: nothing to save
            return rotate(grad)[..., :dim]

    return RandomizedHadamard.apply


class RotatedLinear(torch.nn.Module):
    """Linear layer whose input is rotated first, so that per-tensor int8 scales lose less."""

    def __init__(self, d_in: int, d_out: int, seed: Optional[int] = 0):
        super().__init__()
        self.rotate = make_hadamard_rotation(d_in, seed)
        n = 1 << (d_in - 1).bit_length()
        self.weight = torch.nn.Parameter(torch.randn(d_out, n) / n ** 0.5)

    def forward(self, x):
        return F.linear(self.rotate(x), self.weight)


def fit_step(params: dict, batch: dict, opt: torch.optim.Optimizer, reduction: str = "mean") -> float:
    """One step of the two linear heads ``params["cvr"]`` and ``params["delay"]``."""
    opt.zero_grad()
    loss = DelayedFeedbackNLL.apply(
        batch["x"] @ params["cvr"], batch["x"] @ params["delay"], batch["converted"], batch["elapsed"],
        batch.get("weight"), reduction,
    )
    loss.sum().backward()
    opt.step()
    return float(loss.detach().sum())
