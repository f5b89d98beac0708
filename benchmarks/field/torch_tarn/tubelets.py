# Blocks for video transformers on padded clips.
import torch
import torch.nn as nn
from torch.autograd import Function


def frame_mask(lengths: torch.Tensor, frames: int) -> torch.Tensor:
    return torch.arange(frames, device=lengths.device) < lengths[:, None]


def offset_tables(height: int, width: int, reach: int):
    """Clipped relative offsets of all pairs of patches, as indices into tables of ``2 * reach + 1`` rows.

    Returns:
        Two int64 tensors of shape (height * width, height * width), for rows and for columns.
    """
    rows = torch.arange(height).repeat_interleave(width)
    cols = torch.arange(width).repeat(height)

    def clip(a):
        return (a[:, None] - a[None, :]).clamp(-reach, reach) + reach

    return clip(rows), clip(cols)


class ChannelShift(Function):
    """Blend of each frame with a copy in which some channels come from the neighbour frames.

    Args:
        x: clips, (B, T, C).
        blend: (C,), 0 keeps the frame and 1 takes the shifted one.
        lengths: (B,) int64, valid frames; later ones are padding, neither read nor written.
        fold: channels [0, fold) take the previous frame and [fold, 2 * fold) the next one.
        causal: only the first of these two groups is shifted.
    """

    @staticmethod
    def _shift(x, fold, causal, reverse=False):
        pad = torch.zeros_like(x[:, :1])
        later = torch.cat([pad, x[:, :-1]], dim=1)
        sooner = torch.cat([x[:, 1:], pad], dim=1)
        if reverse:
            later, sooner = sooner, later
        stop = fold if causal else 2 * fold
        return torch.cat([later[..., :fold], sooner[..., fold:stop], x[..., stop:]], dim=-1)

    @staticmethod
    def forward(x, blend, lengths, fold, causal=False):
        valid = frame_mask(lengths, x.shape[1])[..., None]
        x = x * valid
        moved = ChannelShift._shift(x, fold, causal)
        return torch.lerp(x, moved, blend.expand_as(x)) * valid

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, blend, lengths, ctx.fold, ctx.causal = inputs
        ctx.save_for_backward(x, blend, lengths)

    @staticmethod
    def backward(ctx, grad):
        x, blend, lengths = ctx.saved_tensors
        valid = frame_mask(lengths, x.shape[1])[..., None]
        grad = grad * valid
        x = x * valid
        g_x = g_blend = None
        if ctx.needs_input_grad[0]:
            back = ChannelShift._shift(grad * blend, ctx.fold, ctx.causal, reverse=True)
            g_x = (grad * (1 - blend) + back) * valid
        if ctx.needs_input_grad[1]:
            moved = ChannelShift._shift(x, ctx.fold, ctx.causal)
            g_blend = (grad * (moved - x)).sum(dim=(0, 1))
        return g_x, g_blend, None, None, None


class MaskedTubePool(Function):
    """Generalised mean of the tokens of a tube, ``(mean x ** p) ** (1 / p)``.

    Args:
        x: activations, (B, N, C); values below ``eps`` count as ``eps``.
        p: exponent, (C,) or (1,), positive.
        keep: (B, N) bool, the tokens that count.  A tube without any gives zeros.
        eps: floor.
    """

    @staticmethod
    def forward(ctx, x, p, keep, eps=1e-6):
        floor = x.clamp_min(eps)
        keep_ = keep[..., None].to(x.dtype)
        count = keep_.sum(dim=1).clamp_min(1.0)
        mean = (keep_ * floor.pow(p)).sum(dim=1) / count
        empty = ~keep.any(dim=1)[:, None]
        mean = mean.masked_fill(empty, 1.0)
        out = mean.pow(1.0 / p).masked_fill(empty, 0.0)
        ctx.eps = eps
        ctx.save_for_backward(x, p, keep_, count, mean, out)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        x, p, keep, count, mean, out = ctx.saved_tensors
        floor = x.clamp_min(ctx.eps)
        weighted = keep * floor.pow(p)
        g_mean = grad_out * out / (p * mean)
        g_x = (g_mean / count)[:, None] * p * weighted / floor
        g_x = g_x.masked_fill(x < ctx.eps, 0.0)
        slope = (weighted * floor.log()).mean(dim=1)
        g_p = g_mean * slope - grad_out * out * mean.log() / p.square()
        return g_x, g_p.sum_to_size(p.shape), None, None


class AxialBias(Function):
    """Adds a factorised relative bias to attention logits.

    Args:
        logits: (B, heads, N, N).
        rows: (2 * reach + 1, heads), bias by vertical offset.
        cols: (2 * reach + 1, heads), bias by horizontal offset.
        strength: (heads,), multiplies both.
        row_index: (N, N) int64.
        col_index: (N, N) int64.
    """

    @staticmethod
    def forward(ctx, logits, rows, cols, strength, row_index, col_index):
        bias = (rows[row_index] + cols[col_index]).permute(2, 0, 1)
        ctx.reach = rows.shape[0]
        ctx.save_for_backward(bias, strength, row_index, col_index)
        return logits + strength[:, None, None] * bias

    @staticmethod
    def backward(ctx, grad):
        bias, strength, col_index, row_index = ctx.saved_tensors
        total = grad.sum(dim=0)
        g_strength = (total * bias).sum(dim=(1, 2))
        per_pair = (strength[:, None, None] * total).flatten(1).T

        def scatter(index):
            table = per_pair.new_zeros(ctx.reach, per_pair.shape[1])
            return table.index_add_(0, index.flatten(), per_pair)

        return grad, scatter(row_index), scatter(col_index), g_strength, None, None


class TubeAttentionBias(nn.Module):
    def __init__(self, heads: int, height: int, width: int, reach: int = 3):
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(2 * reach + 1, heads))
        self.cols = nn.Parameter(torch.zeros(2 * reach + 1, heads))
        self.strength = nn.Parameter(torch.ones(heads))
        row_index, col_index = offset_tables(height, width, reach)
        self.register_buffer("row_index", row_index, persistent=False)
        self.register_buffer("col_index", col_index, persistent=False)

    def forward(self, logits):
        return AxialBias.apply(
            logits, self.rows, self.cols, self.strength, self.row_index, self.col_index
        )


class TubePool(nn.Module):
    """Pooling head with a learnt exponent."""

    def __init__(self, channels: int = 1, p: float = 3.0, eps: float = 1e-6):
        super().__init__()
        self.p = nn.Parameter(torch.full((channels,), p))
        self.eps = eps

    def forward(self, x, keep):
        return MaskedTubePool.apply(x, self.p, keep, self.eps)
