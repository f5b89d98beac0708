"""Losses and layers for pre-training a speech encoder on discrete codes.

The encoder sees masked frames and must pick, among distractors, the code vector of the frame that
was hidden.  Code vectors come from a product quantizer: ``G`` groups with ``V`` entries each, of
which the chosen entries are laid side by side.
"""
import math
from dataclasses import dataclass

import torch
from torch.autograd import Function


@dataclass
class PretrainConfig:
    groups: int = 2
    entries: int = 320
    width: int = 128
    temperature: float = 0.1
    distractors: int = 100
    usage_weight: float = 0.1


class ProductCodeRelax(Function):
    """Picks code vectors with a Gumbel relaxed choice per group.

    Parameters
    ----------
    logits : Tensor, shape (N, G, V)
    noise : Tensor, shape (N, G, V)
        Gumbel noise, drawn outside so that a step can be repeated.  It gets no gradient.
    tau : Tensor, shape ()
        Temperature of the choice.
    book : Tensor, shape (G, V, W)
    hard : bool
        If false the output is the mixture of entries and the gradient is exact.  If true the output
        is the single best entry, and the gradient with respect to ``logits`` and ``tau`` is on
        purpose a straight-through one: that of the mixture.  The entries of the book get the exact
        gradient of the output that was returned.

    Returns
    -------
    Tensor, shape (N, G * W)
    """

    @staticmethod
    def forward(ctx, logits, noise, tau, book, hard=False):
        z = (logits + noise) / tau
        soft = torch.softmax(z, -1)
        used = soft
        if hard:
            used = torch.zeros_like(soft).scatter(-1, soft.argmax(-1, keepdim=True), 1.0)
        ctx.save_for_backward(z, soft, used, tau, book)
        return torch.einsum("ngv,gvw->ngw", used, book).flatten(1)

    @staticmethod
    def backward(ctx, grad):
        z, soft, used, tau, book = ctx.saved_tensors
        groups, _, width = book.shape
        grad = grad.unflatten(1, (groups, width))
        g_book = torch.einsum("ngv,ngw->gvw", used, grad)
        g_soft = torch.einsum("ngw,gvw->ngv", grad, book)
        g_z = soft * (g_soft - (soft * g_soft).sum(-1, keepdim=True))
        g_tau = -(g_z * z).sum() / tau
        return g_z / tau, None, g_tau, g_book, None


def rolled_distractors(n, k):
    """Distractors of frame i are the frames i + 1 ... i + k of the same list, going round."""
    return (torch.arange(n)[:, None] + torch.arange(1, k + 1)[None, :]) % n


def sampled_distractors(n, k, generator=None):
    """k distractors a frame, uniform over the other frames, with replacement."""
    draw = torch.randint(0, n - 1, (n, k), generator=generator)
    return draw + (draw >= torch.arange(n)[:, None]).long()


def _unit(x):
    size = x.norm(dim=-1, keepdim=True).clamp(min=1e-8)
    return x / size, size


class DistractorContrast(Function):
    """Mean cross entropy of finding each frame's own code among its distractors.

    context, codes : (N, W) tensors; ids : (N, K) integer rows of ``codes`` (see
    `rolled_distractors` and `sampled_distractors`); temperature : float.
    Scores are cosines over the temperature.  A distractor that carries the very same code vector as
    the frame itself is left out.
    """

    @staticmethod
    def forward(ctx, context, codes, ids, temperature):
        a, a_size = _unit(context)
        b, b_size = _unit(codes)
        own = (a * b).sum(-1, keepdim=True)
        other = torch.einsum("nw,nkw->nk", a, b[ids])
        same = (codes[ids] == codes[:, None]).all(-1)
        other = other.masked_fill(same, float("-inf"))
        logp = torch.log_softmax(torch.cat([own, other], 1) / temperature, 1)
        ctx.save_for_backward(a, a_size, b, b_size, ids, logp)
        ctx.temperature = temperature
        return -logp[:, 0].mean()

    @staticmethod
    def backward(ctx, grad):
        a, a_size, b, b_size, ids, logp = ctx.saved_tensors
        n, k = ids.shape
        err = logp.exp()
        err[:, 0] -= 1
        err = err * (grad / (n * ctx.temperature))
        g_a = err[:, :1] * b + torch.einsum("nk,nkw->nw", err[:, 1:], b[ids])
        g_b = err[:, :1] * a
        for column in range(k):
            g_b[ids[:, column]] += err[:, 1 + column, None] * a

        def through_unit(g, u, size):
            return (g - u * (u * g).sum(-1, keepdim=True)) / size

        return through_unit(g_a, a, a_size), through_unit(g_b, b, b_size), None, None


class CodeUsageDeficit(Function):
    """How far the average choice is from using all entries.

    probs (B, T, G, V) are choice probabilities, frames (B, T) is true on real frames.  The average
    choice of a group over all real frames of the batch has an entropy; its exponential is the
    number of entries in use.  Returned are ``1 - (sum of these numbers) / (G V)`` and the numbers
    themselves, shape (G,).
    """

    TINY = 1e-7

    @staticmethod
    def forward(ctx, probs, frames):
        weight = frames.to(probs.dtype)
        total = weight.sum().clamp(min=1.0)
        mean = torch.einsum("bt,btgv->gv", weight, probs) / total
        entropy = -(mean * torch.log(mean + CodeUsageDeficit.TINY)).sum(-1)
        in_use = entropy.exp()
        ctx.save_for_backward(weight, total, mean, in_use)
        return 1 - in_use.sum() / mean.numel(), in_use

    @staticmethod
    def backward(ctx, g_deficit, g_use):
        weight, total, mean, in_use = ctx.saved_tensors
        shifted = mean + CodeUsageDeficit.TINY
        g_use = g_use - g_deficit / mean.numel()
        slope = -(torch.log(shifted) + mean / shifted)
        g_mean = (g_use * in_use)[:, None] * slope
        return weight[:, :, None, None] * (g_mean / total), None


def training_loss(cfg, context, logits, frames, tau, book, generator=None):
    """Contrast plus usage on the real frames; context (B, T, W'), logits (B, T, G, V)."""
    picked = logits[frames]
    u = torch.rand(picked.shape, generator=generator).clamp(1e-9, 1 - 1e-7)
    codes = ProductCodeRelax.apply(picked, -torch.log(-torch.log(u)), tau, book, True)
    ids = sampled_distractors(len(picked), cfg.distractors, generator)
    contrast = DistractorContrast.apply(context[frames], codes, ids, cfg.temperature)
    deficit, _ = CodeUsageDeficit.apply(torch.softmax(logits, -1), frames)
    return contrast / math.log(2) + cfg.usage_weight * deficit
