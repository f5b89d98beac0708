"""Differentiable pruning for fine-tuning: gates, masks, salience and a FLOP budget.

Used by the compression recipes.  Four building blocks:

``HardConcreteGate``       sampled channel gates with exact zeros and ones
``MovementMaskedLinear``   linear layer whose mask is learnt by movement scores
``BlockSalience``          size of weight blocks, for the group penalty
``CoupledFlops``           FLOPs of a network whose layers share channel groups

References: Louizos et al. 2018 (L0 gates), Sanh et al. 2020 (movement pruning).
"""

from __future__ import annotations

import math
from typing import Iterable, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function

GATE_TEMPERATURE = 2.0 / 3.0
GATE_LOW, GATE_HIGH = -0.1, 1.1
UNIFORM_EPS = 1e-6
SALIENCE_EPS = 1e-12

#: marks a layer whose input is not prunable (image channels, token embedding)
FIXED_INPUT = -1


# --------------------------------------------------------------------------- #
# gates
# --------------------------------------------------------------------------- #

def draw_noise(shape, like: torch.Tensor, generator=None) -> torch.Tensor:
    noise = torch.rand(shape, dtype=like.dtype, device=like.device, generator=generator)
    return noise.clamp(UNIFORM_EPS, 1.0 - UNIFORM_EPS)


class HardConcreteGate(Function):
    """Stretched and clipped binary concrete sample.

    ``log_alpha`` broadcasts against ``noise`` (uniform on the open unit interval);
    the gate has the shape of ``noise``.  No gradient goes to the noise.
    """

    @staticmethod
    def forward(log_alpha, noise, temperature, low, high):
        logistic = torch.log(noise) - torch.log1p(-noise)
        soft = torch.sigmoid((logistic + log_alpha) / temperature)
        return (soft * (high - low) + low).clamp(0.0, 1.0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        log_alpha, noise, temperature, low, high = inputs
        logistic = torch.log(noise) - torch.log1p(-noise)
        soft = torch.sigmoid((logistic + log_alpha) / temperature)
        inside = (output > 0.0) & (output < 1.0)
        slope = soft * (1.0 - soft) * ((high - low) / temperature) * inside
        ctx.save_for_backward(slope)
        ctx.save_for_forward(slope)
        ctx.alpha_shape = log_alpha.shape

    @staticmethod
    def backward(ctx, grad):
        (slope,) = ctx.saved_tensors
        return (grad * slope).sum_to_size(ctx.alpha_shape), None, None, None, None

    @staticmethod
    def jvp(ctx, t_alpha, t_noise, *_):
        (slope,) = ctx.saved_tensors
        return slope * t_alpha


class ChannelGates(nn.Module):
    """Gates of all channel groups of a network in one flat vector.

    Args:
        widths: number of channels of each group.
        init_keep: probability of an open gate at the start.
    """

    def __init__(self, widths: Iterable[int], init_keep: float = 0.8):
        super().__init__()
        widths = list(widths)
        group = [g for g, w in enumerate(widths) for _ in range(w)]
        self.register_buffer("group", torch.tensor(group))
        start = math.log(init_keep / (1.0 - init_keep))
        self.log_alpha = nn.Parameter(start + 0.01 * torch.randn(len(group)))
        self.groups = len(widths)

    def forward(self, samples: Optional[int] = None) -> torch.Tensor:
        if self.training:
            shape = self.log_alpha.shape if samples is None else (samples, *self.log_alpha.shape)
            noise = draw_noise(shape, self.log_alpha)
        else:
            noise = torch.full_like(self.log_alpha, 0.5)
        return HardConcreteGate.apply(self.log_alpha, noise, GATE_TEMPERATURE,
                                      GATE_LOW, GATE_HIGH)

    def expected_open(self) -> torch.Tensor:
        shift = GATE_TEMPERATURE * math.log(-GATE_LOW / GATE_HIGH)
        return torch.sigmoid(self.log_alpha - shift)


# --------------------------------------------------------------------------- #
# movement pruning
# --------------------------------------------------------------------------- #

def top_fraction(scores: torch.Tensor, keep: float) -> torch.Tensor:
    """0/1 mask of the ``keep`` share of entries with the highest score."""
    count = max(1, int(round(keep * scores.numel())))
    index = scores.reshape(-1).topk(count).indices
    mask = torch.zeros(scores.numel(), dtype=scores.dtype, device=scores.device)
    mask[index] = 1.0
    return mask.view_as(scores)


class MovementMaskedLinear(Function):
    """``x @ (weight * mask).T + bias`` with ``mask = top_fraction(scores, keep)``.

    Straight-through for the scores: the top-k mask is treated as the identity, so a
    score receives ``dL/d(masked weight) * weight`` for kept and dropped entries alike
    (movement pruning).  The weight receives its gradient through the mask.

    x: (..., in), weight and scores: (out, in), bias: (out,)
    """

    @staticmethod
    def forward(ctx, x, weight, scores, bias, keep: float):
        mask = top_fraction(scores, keep)
        ctx.save_for_backward(x, weight, mask)
        return F.linear(x, weight * mask, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight, mask = ctx.saved_tensors
        grad_x = grad @ (weight * mask)
        flat_grad = grad.reshape(-1, grad.shape[-1])
        outer = flat_grad.t() @ x.reshape(-1, x.shape[-1])
        return grad_x, outer * mask, outer * weight, flat_grad.sum(0), None


class PrunedLinear(nn.Module):
    def __init__(self, in_features: int, out_features: int, keep: float = 0.25):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features ** 0.5)
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.scores = nn.Parameter(1e-3 * torch.randn(out_features, in_features))
        self.keep = keep

    def anneal(self, step: int, total: int, final: float) -> None:
        """Cubic schedule of the kept share (Zhu and Gupta)."""
        done = min(1.0, step / max(1, total))
        self.keep = final + (1.0 - final) * (1.0 - done) ** 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return MovementMaskedLinear.apply(x, self.weight, self.scores, self.bias, self.keep)


# --------------------------------------------------------------------------- #
# block salience
# --------------------------------------------------------------------------- #

class BlockSalience(Function):
    """Root mean square of consecutive blocks of a weight along one axis.

    Parameters
    ----------
    weight : torch.Tensor
    dim : int
        Axis cut into blocks.
    block : int
        Entries per block.  The last block holds what is left over and is averaged
        over the entries it has.

    Returns
    -------
    torch.Tensor
        Like `weight`, with axis `dim` of length ``ceil(length / block)``.
    """

    @staticmethod
    def forward(ctx, weight, dim, block):
        moved = weight.movedim(dim, -1)
        length = moved.shape[-1]
        blocks = -(-length // block)
        padded = F.pad(moved, (0, blocks * block - length))
        power = padded.square().unflatten(-1, (blocks, block)).sum(-1)
        filled = torch.full((blocks,), float(block), dtype=weight.dtype, device=weight.device)
        filled[-1] = length - (blocks - 1) * block
        salience = torch.sqrt(power / filled + SALIENCE_EPS)
        ctx.save_for_backward(moved, salience)
        ctx.dim, ctx.block = dim, block
        return salience.movedim(-1, dim)

    @staticmethod
    def backward(ctx, grad):
        moved, salience = ctx.saved_tensors
        ratio = grad.movedim(ctx.dim, -1) / (ctx.block * salience)
        spread = ratio.repeat_interleave(ctx.block, dim=-1)[..., : moved.shape[-1]]
        return (spread * moved).movedim(-1, ctx.dim), None, None


def group_penalty(weights: Iterable[torch.Tensor], dim: int = 1, block: int = 4) -> torch.Tensor:
    """Sum of block saliences, every block weighted by the root of its size."""
    total = 0.0
    for weight in weights:
        salience = BlockSalience.apply(weight, dim, block)
        length = weight.shape[dim]
        sizes = torch.full((salience.shape[dim],), float(block), dtype=weight.dtype)
        sizes[-1] = length - (salience.shape[dim] - 1) * block
        shape = [1] * salience.dim()
        shape[dim] = -1
        total = total + (salience * sizes.sqrt().view(shape)).sum()
    return total


# --------------------------------------------------------------------------- #
# budget
# --------------------------------------------------------------------------- #

class LayerTable(NamedTuple):
    """One row per layer.

    in_group / out_group index the channel groups; layers on one residual stream
    share a group.  ``unit`` is FLOPs per (input channel x output channel) and
    ``fixed_width`` the number of input channels where ``in_group`` is FIXED_INPUT.
    """

    in_group: torch.Tensor
    out_group: torch.Tensor
    unit: torch.Tensor
    fixed_width: torch.Tensor


class CoupledFlops(Function):
    """FLOPs of the gated network.

    gates (C,) in [0, 1] and group (C,) give the open width of each group; a layer
    costs ``unit * width_in * width_out``.
    """

    @staticmethod
    def forward(ctx, gates, group, groups, in_group, out_group, unit, fixed_width):
        width = gates.new_zeros(groups).index_add_(0, group, gates)
        source = in_group.clamp(min=0)
        width_in = torch.where(in_group >= 0, width[source], fixed_width)
        width_out = width[out_group]
        ctx.save_for_backward(group, source, out_group, unit, width_in, width_out)
        ctx.groups = groups
        return (unit * width_in * width_out).sum()

    @staticmethod
    def backward(ctx, grad):
        group, source, out_group, unit, width_in, width_out = ctx.saved_tensors
        per_width = unit.new_zeros(ctx.groups)
        per_width.index_add_(0, source, unit * width_out)
        per_width.index_add_(0, out_group, unit * width_in)
        return (grad * per_width[group], None, None, None, None, None, None)


def resnet_table(stem_channels: int = 3, dtype=torch.float32) -> tuple[LayerTable, list[int]]:
    """Stem, two residual blocks on one stream, widening conv, one block."""
    widths = [16, 16, 16, 32, 32]     # stream A, two inner, stream B, inner
    rows = [
        (FIXED_INPUT, 0, 9 * 32 * 32),
        (0, 1, 9 * 32 * 32), (1, 0, 9 * 32 * 32),
        (0, 2, 9 * 32 * 32), (2, 0, 9 * 32 * 32),
        (0, 3, 16 * 16),
        (3, 4, 9 * 16 * 16), (4, 3, 9 * 16 * 16),
    ]
    table = LayerTable(
        in_group=torch.tensor([r[0] for r in rows]),
        out_group=torch.tensor([r[1] for r in rows]),
        unit=torch.tensor([float(r[2]) for r in rows], dtype=dtype),
        fixed_width=torch.full((len(rows),), float(stem_channels), dtype=dtype),
    )
    return table, widths


def budget_loss(gates: ChannelGates, table: LayerTable, target: float) -> torch.Tensor:
    """Squared log excess of the FLOPs over ``target`` times the dense network."""
    args = (gates.group, gates.groups, *table)
    flops = CoupledFlops.apply(gates.expected_open(), *args)
    with torch.no_grad():
        dense = CoupledFlops.apply(torch.ones_like(gates.log_alpha), *args)
    return torch.relu(torch.log(flops / dense) - math.log(target)).square()


def main() -> None:
    torch.manual_seed(0)
    table, widths = resnet_table()
    gates = ChannelGates(widths)
    layer = PrunedLinear(30, 12)
    optimiser = torch.optim.Adam([*gates.parameters(), *layer.parameters()], lr=0.03)
    x, y = torch.randn(64, 30), torch.randn(64, 12)
    for step in range(60):
        layer.anneal(step, 50, 0.25)
        optimiser.zero_grad()
        sampled = gates(samples=4).mean(0)
        loss = F.mse_loss(layer(x), y) + budget_loss(gates, table, 0.5)
        loss = loss + 1e-3 * group_penalty([layer.weight]) - 1e-2 * sampled.mean()
        loss.backward()
        optimiser.step()
    print(f"loss {loss.item():.4f}, open {gates.expected_open().mean().item():.3f}")


if __name__ == "__main__":
    main()
