"""Discrete tokenizer parts for image and audio codecs.

Three families of discretisers share this file because the training recipes
mix them:

* finite scalar quantisation: each channel of the latent is squashed into
  ``L`` levels and rounded, no codebook at all;
* product codebooks: the latent is cut in subvectors, each compared with its
  own table of entries;
* binary (lookup-free) codes, whose usage is kept up by an entropy term over
  the frames of the batch.

Latents are channel-last.  Padding frames are described by a validity mask
where a routine takes one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

ENTROPY_FLOOR = 1e-9
LEVEL_MARGIN = 1e-3


@dataclass
class TokenizerOptions:
    levels: tuple[int, ...] = (7, 5, 5, 5)
    subspaces: int = 4
    entries: int = 64
    bits: int = 10
    sharpness: float = 1.0
    diversity: float = 1.0
    extras: dict = field(default_factory=dict)


def level_constants(levels: tuple[int, ...], like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Half ranges, offsets and shifts of each channel.

    Even channels have no level in the middle: their grid is displaced by half
    a step, and the latent is shifted so that zero still maps to zero before
    rounding.
    """
    count = torch.tensor(levels, dtype=like.dtype, device=like.device)
    half = (count - 1.0) * (1.0 - LEVEL_MARGIN) / 2.0
    even = torch.tensor([lv % 2 == 0 for lv in levels], device=like.device)
    offset = torch.where(even, 0.5, 0.0).to(like.dtype)
    shift = torch.tan(offset / half)
    return half, offset, shift


class FiniteScalarQuant(torch.autograd.Function):
    """Bound each channel with tanh, round it to its levels, scale to [-1, 1].

    Rounding is passed straight through in backward; the bounding map around
    it is differentiated exactly.

    z: (..., len(levels)); levels: static tuple of ints, odd or even.
    """

    @staticmethod
    def forward(ctx, z: Tensor, levels: tuple[int, ...]) -> Tensor:
        half, offset, shift = level_constants(levels, z)
        bounded = torch.tanh(z + shift) * half - offset
        width = torch.tensor([lv // 2 for lv in levels], dtype=z.dtype, device=z.device)
        ctx.save_for_backward(z)
        ctx.levels = levels
        return torch.round(bounded) / width

    @staticmethod
    def backward(ctx, grad: Tensor):
        (z,) = ctx.saved_tensors
        half, _, _ = level_constants(ctx.levels, z)
        width = torch.tensor([lv // 2 for lv in ctx.levels], dtype=z.dtype, device=z.device)
        squash = torch.tanh(z)
        return grad * half * (1.0 - squash * squash) / width, None


class SubvectorDistance(torch.autograd.Function):
    """Weighted squared distances of a vector's pieces to their tables.

    Args:
        x: latents, ``(batch, subspaces * width)``.
        tables: entries, ``(subspaces, entries, width)``.
        importance: positive weight of each subspace, ``(subspaces,)``.

    Returns:
        ``(batch, subspaces, entries)`` distances,
        ``importance[m] * |x_m - tables[m, k]|^2``.
    """

    @staticmethod
    def forward(ctx, x, tables, importance):
        pieces = x.reshape(x.shape[0], tables.shape[0], tables.shape[2])
        cross = torch.einsum("bmd,mkd->bmk", pieces, tables)
        raw = (
            pieces.square().sum(-1).unsqueeze(-1)
            - 2.0 * cross
            + tables.square().sum(-1)
        )
        ctx.save_for_backward(pieces, tables, importance, raw)
        return raw * importance[:, None]

    @staticmethod
    def backward(ctx, grad):
        pieces, tables, importance, raw = ctx.saved_tensors
        weighted = grad * importance[:, None]
        grad_pieces = 2.0 * (
            weighted.sum(-1, keepdim=True) * pieces
            - torch.einsum("bmk,mkd->bmd", weighted, tables)
        )
        grad_tables = 2.0 * (
            weighted.sum(0).unsqueeze(-1) * tables
            - torch.einsum("bmk,bmd->mkd", weighted, pieces)
        )
        grad_importance = (grad * raw).sum((0, 2))
        return grad_pieces.reshape(pieces.shape[0], -1), grad_tables, grad_importance


def binary_entropy(p: Tensor) -> Tensor:
    q = p.clamp(ENTROPY_FLOOR, 1.0 - ENTROPY_FLOOR)
    return -(q * q.log() + (1.0 - q) * torch.log1p(-q))


def binary_entropy_slope(p: Tensor) -> Tensor:
    """dH/dp, in nats; zero where the probability sits on its floor."""
    q = p.clamp(ENTROPY_FLOOR, 1.0 - ENTROPY_FLOOR)
    slope = torch.log1p(-q) - q.log()
    return torch.where(p == q, slope, torch.zeros_like(slope))


class BitEntropyGap(torch.autograd.Function):
    """Per-frame bit entropy minus the entropy of the mean bit usage.

    Parameters
    ----------
    z : (frames, bits)
        Pre-sign latents; ``p = sigmoid(2 * sharpness * z)`` is the chance of
        bit one.
    valid : (frames,)
        One for frames of the clip, zero for padding. Means run over valid
        frames only.
    sharpness : float
    diversity : float
        Weight of the usage entropy.

    Returns
    -------
    Scalar: mean over valid frames of the summed bit entropies, less
    ``diversity`` times the summed entropies of the mean usage.
    """

    @staticmethod
    def forward(ctx, z, valid, sharpness, diversity):
        p = torch.sigmoid(2.0 * sharpness * z)
        weight = valid.to(z.dtype).unsqueeze(-1)
        frames = weight.sum().clamp_min(1.0)
        usage = (weight * p).sum(0) / frames
        sure = (weight * binary_entropy(p)).sum() / frames
        spread = binary_entropy(usage).sum()
        ctx.save_for_backward(p, weight, frames, usage)
        ctx.sharpness, ctx.diversity = sharpness, diversity
        return sure - diversity * spread

    @staticmethod
    def backward(ctx, grad):
        p, weight, frames, usage = ctx.saved_tensors
        local = weight * binary_entropy_slope(p) / frames
        shared = weight * binary_entropy_slope(usage) / p.shape[0]
        grad_p = grad * (local - ctx.diversity * shared)
        grad_z = grad_p * 2.0 * ctx.sharpness * p * (1.0 - p)
        return grad_z, None, None, None


def levels_to_index(codes: Tensor, levels: tuple[int, ...]) -> Tensor:
    """Mixed-radix token id of quantised codes in [-1, 1]."""
    index = torch.zeros(codes.shape[:-1], dtype=torch.long, device=codes.device)
    radix = 1
    for channel, count in enumerate(levels):
        digit = torch.round(codes[..., channel] * (count // 2)).long() + count // 2
        index = index + digit.clamp(0, count - 1) * radix
        radix *= count
    return index


def index_to_levels(index: Tensor, levels: tuple[int, ...]) -> Tensor:
    digits = []
    for count in levels:
        digits.append((index % count - count // 2).double() / (count // 2))
        index = torch.div(index, count, rounding_mode="floor")
    return torch.stack(digits, dim=-1)


class ScalarTokenizer(nn.Module):
    def __init__(self, features: int, options: TokenizerOptions):
        super().__init__()
        self.options = options
        self.project_in = nn.Linear(features, len(options.levels))
        self.project_out = nn.Linear(len(options.levels), features)

    @property
    def vocabulary(self) -> int:
        return math.prod(self.options.levels)

    def forward(self, h):
        codes = FiniteScalarQuant.apply(self.project_in(h), self.options.levels)
        return self.project_out(codes), levels_to_index(codes, self.options.levels)


class ProductTokenizer(nn.Module):
    """Soft product quantiser: entries averaged with softmin weights."""

    def __init__(self, features: int, options: TokenizerOptions, temperature: float = 0.5):
        super().__init__()
        if features % options.subspaces:
            raise ValueError("features must split evenly in subspaces")
        width = features // options.subspaces
        self.temperature = temperature
        self.tables = nn.Parameter(torch.randn(options.subspaces, options.entries, width))
        self.log_importance = nn.Parameter(torch.zeros(options.subspaces))

    def forward(self, h):
        lead = h.shape[:-1]
        flat = h.reshape(-1, h.shape[-1])
        distance = SubvectorDistance.apply(flat, self.tables, self.log_importance.exp())
        share = torch.softmax(-distance / self.temperature, dim=-1)
        soft = torch.einsum("bmk,mkd->bmd", share, self.tables).reshape(*lead, -1)
        return soft, distance.argmin(-1).reshape(*lead, -1)


class BinaryTokenizer(nn.Module):
    def __init__(self, features: int, options: TokenizerOptions):
        super().__init__()
        self.options = options
        self.project = nn.Linear(features, options.bits)

    def forward(self, h, lengths: Tensor):
        z = self.project(h)
        steps = torch.arange(h.shape[1], device=h.device)
        valid = (steps[None, :] < lengths[:, None]).reshape(-1)
        penalty = BitEntropyGap.apply(
            z.reshape(-1, self.options.bits), valid,
            self.options.sharpness, self.options.diversity,
        )
        bits = z + (torch.sign(z) - z).detach()
        return bits, penalty


def usage_perplexity(index: Tensor, vocabulary: int) -> float:
    counts = torch.bincount(index.reshape(-1), minlength=vocabulary).double()
    share = counts / counts.sum()
    return float(torch.exp(-(share * (share + 1e-12).log()).sum()))


if __name__ == "__main__":
    torch.manual_seed(0)
    opts = TokenizerOptions(levels=(8, 5, 5), bits=6, entries=12)
    frames = torch.randn(3, 20, 16)
    scalar = ScalarTokenizer(16, opts)
    out, ids = scalar(frames)
    product = ProductTokenizer(16, opts)
    soft, _ = product(frames)
    binary = BinaryTokenizer(16, opts)
    _, gap = binary(frames, torch.tensor([20, 13, 7]))
    loss = (out - frames).square().mean() + (soft - frames).square().mean() + 0.1 * gap
    loss.backward()
    print(f"vocabulary {scalar.vocabulary}, perplexity {usage_perplexity(ids, scalar.vocabulary):.1f}")
    print(f"loss {loss.item():.4f}")
