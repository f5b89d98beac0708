"""Heads and norms of the towed plankton camera's classifier.

Frames arrive as (frames, channels, rows, cols) with a mask of the pixels that the flash really lit. Several taxa
can be in one frame, so the labels are multi-hot.
"""

import torch
import torch.nn as nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

AVERAGES = ("macro", "micro")


class SpanNorm(Function):
    """Per-channel normalisation by the spread between the brightest and the darkest lit pixel.

        y = gain * (x - mean) / (max - min + eps) + shift

    x (frames, channels, rows, cols); gain, shift (channels,); lit bool (frames, 1, rows, cols). Statistics are taken
    over the lit pixels of all frames; pixels out of the light come out as `shift` of their channel.
    """

    @staticmethod
    def forward(ctx, x, gain, shift, lit, eps=1e-5):
        f, c, r, w = x.shape
        flat = x.transpose(0, 1).reshape(c, -1)
        m = lit.expand(f, 1, r, w).reshape(1, -1)
        count = m.sum().clamp(min=1).to(x.dtype)
        mean = torch.where(m, flat, torch.zeros_like(flat)).sum(1, keepdim=True) / count
        top, at_top = flat.masked_fill(~m, -torch.inf).max(1, keepdim=True)
        low, at_low = flat.masked_fill(~m, torch.inf).min(1, keepdim=True)
        span = top - low + eps
        unit = torch.where(m, (flat - mean) / span, torch.zeros_like(flat))
        ctx.save_for_backward(unit, span, gain, m, at_top, at_low)
        ctx.dims = (f, c, r, w)
        y = gain[:, None] * unit + shift[:, None]
        return y.reshape(c, f, r, w).transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, gy):
        unit, span, gain, m, at_top, at_low = ctx.saved_tensors
        f, c, r, w = ctx.dims
        g = gy.transpose(0, 1).reshape(c, -1)
        g_gain, g_shift = (g * unit).sum(1), g.sum(1)
        g_unit = torch.where(m, g * gain[:, None], torch.zeros_like(g)) / span
        g_span = -(g_unit * unit).sum(1, keepdim=True)
        gx = torch.where(m, g_unit - g_unit.mean(1, keepdim=True), torch.zeros_like(g))
        gx = gx.scatter_add(1, at_top, g_span).scatter_add(1, at_low, -g_span)
        return gx.reshape(c, f, r, w).transpose(0, 1), g_gain, g_shift, None, None


class SimplexCode(Function):
    """Cuts a feature vector into `groups` softmaxes, each with its own temperature.

    x (batch, groups * size), temperature (groups,) > 0. layout says how a group's members lie in x: "block" one group
    after the other, "strided" with member j of group i at j * groups + i. The code always comes back as
    (batch, groups, size).
    """

    @staticmethod
    def forward(ctx, x, temperature, layout="block"):
        groups = temperature.shape[0]
        if layout == "block":
            z = x.reshape(x.shape[0], groups, -1)
        elif layout == "strided":
            z = x.reshape(x.shape[0], -1, groups).transpose(1, 2)
        else:
            raise ValueError(layout)
        p = torch.softmax(z / temperature[:, None], dim=-1)
        ctx.save_for_backward(z, p, temperature)
        return p

    @staticmethod
    def backward(ctx, g):
        z, p, temperature = ctx.saved_tensors
        inner = p * (g - (g * p).sum(-1, keepdim=True))
        gz = inner / temperature[:, None]
        gt = -(inner * z).sum((0, 2)) / temperature**2
        gx = gz.reshape(z.shape[0], -1)
        return gx, gt, None


class MatthewsLoss(Function):
    """1 - Matthews correlation, with the sigmoid of the logits as soft counts.

    logits (frames, taxa); truth (frames, taxa) multi-hot int64 labels; known (frames, taxa) bool or None: unlabelled entries do not count.
    average="macro" takes a coefficient per taxon and then the mean over taxa, "micro" pools all entries first.
    """

    @staticmethod
    def forward(ctx, logits, truth, known, average, eps):
        p = torch.sigmoid(logits)
        m = torch.ones_like(p) if known is None else known.to(p.dtype)
        y = truth.to(p.dtype)
        dims = (0,) if average == "macro" else (0, 1)
        tp = (m * p * y).sum(dims)
        fp = (m * p * (1 - y)).sum(dims)
        fn = (m * (1 - p) * y).sum(dims)
        tn = (m * (1 - p) * (1 - y)).sum(dims)
        root = torch.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn) + eps)
        top = tp * tn - fp * fn
        ctx.save_for_backward(p, y, m, tp, fp, fn, tn, root, top)
        return 1.0 - (top / root).mean()

    @staticmethod
    def backward(ctx, g):
        p, y, m, tp, fp, fn, tn, root, top = ctx.saved_tensors
        n = tp.numel()
        g = -g / n
        g_top = g / root
        g_sq = -g * top / (2.0 * root**3)
        # only the predicted margins move with p: the true ones (tp + fn), (tn + fp) stay where they are
        fixed = (tp + fn) * (tn + fp)
        d_margin = g_sq * fixed * ((tn + fn) - (tp + fp))
        g_yes = g_top * (tn + fp) + d_margin      # y = 1: tp up, fn down
        g_no = g_top * (-tp - fn) + d_margin      # y = 0: fp up, tn down
        gp = m * (y * g_yes + (1 - y) * g_no)
        return gp * p * (1 - p), None, None, None, None


class OctaveRound(Function):
    """Rounds weights to the camera chip's logarithmic grid, `per_octave` levels to a factor of two.

    Magnitudes above 2**top saturate, those under 2**bottom become zero. The backward pass is a straight-through
    estimate on purpose: the gradient goes through unchanged for |w| <= 2**top and is zero for saturated weights.
    """

    @staticmethod
    def forward(ctx, w, per_octave=1, bottom=-6, top=1):
        size = w.abs()
        e = torch.round(torch.log2(size.clamp(min=2.0 ** (bottom - 8))) * per_octave) / per_octave
        level = torch.sign(w) * 2.0 ** e.clamp(bottom, top)
        ctx.save_for_backward(size <= 2.0**top)
        return torch.where(size < 2.0**bottom, torch.zeros_like(w), level)

    @staticmethod
    def backward(ctx, g):
        (inside,) = ctx.saved_tensors
        return g * inside, None, None, None


def matthews_loss(logits, truth, known=None, average="macro", eps=1e-8):
    if average not in AVERAGES:
        raise ValueError(f"average must be one of {AVERAGES}")
    return MatthewsLoss.apply(logits, truth, known, average, eps)


class PlanktonHead(nn.Module):
    def __init__(self, channels, groups, taxa, layout="block"):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))
        self.log_temperature = nn.Parameter(torch.zeros(groups))
        self.readout = nn.Parameter(torch.randn(channels, taxa) * 0.1)
        self.layout = layout

    def forward(self, frames, lit):
        y = SpanNorm.apply(frames, self.gain, self.shift, lit)
        code = SimplexCode.apply(y.mean((2, 3)), self.log_temperature.exp(), self.layout)
        return code.flatten(1) @ OctaveRound.apply(self.readout)
