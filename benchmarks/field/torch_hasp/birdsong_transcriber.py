"""Transcribing birdsong into syllables.

A recording is a (time, bins) log spectrogram; recordings of a batch are padded
at the end and come with `lengths`, the number of valid frames.
"""
import math

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def frame_mask(lengths, frames):
    """(batch,) lengths -> (batch, frames) bool, True where a frame is valid."""
    return torch.arange(frames, device=lengths.device)[None, :] < lengths[:, None]


class BinEqualiser(Function):
    """Equalise each frequency bin of each recording to zero mean, unit spread.

    Statistics run over valid frames only; padded frames come out as zero.

    Parameters
    ----------
    spec : (batch, time, bins)
    lengths : (batch,) long, at least one
    gain, offset : (bins,)
    eps : float
        Added to the variance.
    spread : bool
        If False only the mean is removed (quiet field recordings).
    """

    @staticmethod
    def forward(ctx, spec, lengths, gain, offset, eps=1e-5, spread=True):
        m = frame_mask(lengths, spec.shape[1])[..., None].to(spec.dtype)
        n = lengths.to(spec.dtype).clamp(min=1)[:, None, None]
        mean = (spec * m).sum(1, keepdim=True) / n
        dev = (spec - mean) * m
        if spread:
            dev = dev * torch.rsqrt(dev.square().sum(1, keepdim=True) / n + eps)
        ctx.save_for_backward(spec, lengths, gain)
        ctx.eps, ctx.spread = eps, spread
        return (dev * gain + offset) * m

    @staticmethod
    def backward(ctx, g):
        spec, lengths, gain = ctx.saved_tensors
        m = frame_mask(lengths, spec.shape[1])[..., None].to(spec.dtype)
        n = lengths.to(spec.dtype).clamp(min=1)[:, None, None]
        g = g * m
        dev = (spec - (spec * m).sum(1, keepdim=True) / n) * m
        up = g * gain
        if ctx.spread:
            r = torch.rsqrt(dev.square().sum(1, keepdim=True) / n + ctx.eps)
            hat = dev * r
            d_dev = r * (up - hat * (up * hat).sum(1, keepdim=True) / n)
        else:
            hat = dev
            d_dev = up
        d_spec = (d_dev - d_dev.sum(1, keepdim=True) / n) * m
        return d_spec, None, (g * hat).sum((0, 1)), g.sum((0, 1)), None, None


class OffsetScores(Function):
    # attention scores with a learned vector for the offset j - i of key and
    # query; offsets further than `reach` frames share the vector at the end.
    #   q, k   (batch, heads, time, width)
    #   table  (2 * reach + 1, width)
    # result   (batch, heads, time, time)

    @staticmethod
    def forward(ctx, q, k, table):
        reach = (table.shape[0] - 1) // 2
        t = torch.arange(q.shape[-2], device=q.device)
        rows = (t[None, :] - t[:, None]).clamp(-reach, reach) + reach
        scale = 1.0 / math.sqrt(q.shape[-1])
        ctx.save_for_backward(q, k, table, rows)
        ctx.scale = scale
        return scale * (q @ k.transpose(-1, -2) + torch.einsum("bhid,ijd->bhij", q, table[rows]))

    @staticmethod
    def backward(ctx, g):
        q, k, table, rows = ctx.saved_tensors
        reach = (table.shape[0] - 1) // 2
        g = g * ctx.scale
        d_q = d_k = d_table = None
        if ctx.needs_input_grad[0]:
            d_q = g @ k + torch.einsum("bhij,ijd->bhid", g, table[rows])
        if ctx.needs_input_grad[1]:
            d_k = g.transpose(-1, -2) @ q
        if ctx.needs_input_grad[2]:
            d_table = torch.zeros_like(table)
            frames = q.shape[-2]
            for offset in range(-frames + 1, frames):
                row = min(max(offset, -reach), reach) + reach
                band = g.diagonal(offset, -2, -1)
                first = max(0, -offset)
                queries = q[:, :, first:first + band.shape[-1]]
                d_table[row] = torch.einsum("bhn,bhnd->d", band, queries)
        return d_q, d_k, d_table


class SyllableChain(Function):
    """Log of the summed weight of all ways to cut a song into syllables.

    ``scores[b, t, d]`` scores a syllable which ends with frame ``t`` and lasts
    ``d + 1`` frames; minus infinity forbids it.  Syllables tile the valid
    frames, the padding is not read.  Result: (batch,).  The gradient is the
    posterior of each syllable.
    """

    @staticmethod
    def forward(ctx, scores, lengths):
        batch, frames, longest = scores.shape
        scores = scores.masked_fill(~frame_mask(lengths, frames)[..., None], 0.0)
        alpha = [scores.new_zeros(batch)]
        for t in range(1, frames + 1):
            reach = min(longest, t)
            past = torch.stack([alpha[t - d] + scores[:, t - 1, d - 1] for d in range(1, reach + 1)])
            alpha.append(torch.logsumexp(past, 0))
        alpha = torch.stack(alpha, 1)
        ctx.save_for_backward(scores, lengths, alpha)
        return alpha.gather(1, lengths[:, None]).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        scores, lengths, alpha = ctx.saved_tensors
        batch, frames, longest = scores.shape
        log_z = alpha.gather(1, lengths[:, None]).squeeze(1)
        dead = torch.isinf(log_z)
        log_z = torch.where(dead, torch.zeros_like(log_z), log_z)
        never = scores.new_full((batch,), -math.inf)
        beta = [never] * (frames + 1)
        grad = torch.zeros_like(scores)
        for t in range(frames, -1, -1):
            ahead = [torch.where(lengths == t, torch.zeros_like(never), never)]
            for d in range(1, min(longest, frames - t) + 1):
                tail = scores[:, t + d - 1, d - 1] + beta[t + d]
                ahead.append(tail)
                grad[:, t + d - 1, d - 1] = torch.exp(alpha[:, t] + tail - log_z)
            beta[t] = torch.logsumexp(torch.stack(ahead), 0)
        grad = torch.where(dead[:, None, None], torch.zeros_like(grad), grad)
        return g[:, None, None] * grad, None


class SongEncoder(nn.Module):
    """One attention layer over frames and a head of syllable scores."""

    def __init__(self, bins, heads=2, width=8, reach=6, longest=5):
        super().__init__()
        self.heads, self.width = heads, width
        self.gain = nn.Parameter(torch.ones(bins))
        self.offset = nn.Parameter(torch.zeros(bins))
        self.qkv = nn.Linear(bins, 3 * heads * width)
        self.table = nn.Parameter(0.1 * torch.randn(2 * reach + 1, width))
        self.head = nn.Linear(heads * width, longest)

    def forward(self, spec, lengths):
        b, t, _ = spec.shape
        x = BinEqualiser.apply(spec, lengths, self.gain, self.offset)
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        scores = OffsetScores.apply(q, k, self.table)
        keep = frame_mask(lengths, t)[:, None, None, :]
        att = scores.masked_fill(~keep, -1e9).softmax(-1)
        return self.head((att @ v).transpose(1, 2).reshape(b, t, -1))

    def log_partition(self, spec, lengths):
        return SyllableChain.apply(self(spec, lengths), lengths)
