"""Turning sign-language video features into gloss tokens.

Shapes used throughout
    B  clips in the batch
    T  video frames, S frames of the other hand, Q resampled positions
    H  query heads, G key/value heads (H is a multiple of G)
    D  width of a head or of a feature vector
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class TokenizerConfig:
    width: int = 32
    handshapes: int = 64
    query_heads: int = 4
    kv_heads: int = 2
    rate: float = 12.5


class HandshapeQuantize(torch.autograd.Function):
    """Replace each frame by its nearest handshape prototype.

    This is a straight-through quantiser on purpose: the true derivative with respect to the frames is zero
    almost everywhere, so ``frames`` receive the gradient of the output unchanged, as though the layer were the
    identity.  ``prototypes`` receive their ordinary lookup gradient.  Padded frames give zeros and pass nothing.

    Returns the quantised frames (B, T, D) and the indices (B, T).
    """

    @staticmethod
    def forward(ctx, frames, prototypes, valid):
        dist = (frames.square().sum(-1, keepdim=True) - 2 * frames @ prototypes.t()
                + prototypes.square().sum(-1))
        index = dist.argmin(-1)
        live = valid.unsqueeze(-1).to(frames.dtype)
        ctx.save_for_backward(index, live)
        ctx.count = prototypes.shape[0]
        ctx.mark_non_differentiable(index)
        return prototypes[index] * live, index

    @staticmethod
    def backward(ctx, g, _g_index):
        index, live = ctx.saved_tensors
        g = g * live
        g_proto = g.new_zeros(ctx.count, g.shape[-1])
        g_proto.index_add_(0, index.reshape(-1), g.reshape(-1, g.shape[-1]))
        return g, g_proto, None


class FractionalFrameRead(torch.autograd.Function):
    """Read frames at fractional times by linear interpolation.

    frames : (B, T, D), T >= 2
    times : (B, Q), in frames.  A time before the first frame reads the first frame and a time after the
        last frame reads the last one, so that the offset network may look past the end of a clip.
    """

    @staticmethod
    def forward(ctx, frames, times):
        last = frames.shape[1] - 1
        clamped = times.clamp(0, last)
        lo = clamped.detach().floor().long().clamp(max=last - 1)
        frac = (clamped - lo).unsqueeze(-1)
        width = frames.shape[2]
        idx = lo.unsqueeze(-1).expand(-1, -1, width)
        left, right = frames.gather(1, idx), frames.gather(1, idx + 1)
        ctx.save_for_backward(idx, frac, left, right)
        ctx.length = frames.shape[1]
        return left + frac * (right - left)

    @staticmethod
    def backward(ctx, g):
        idx, frac, left, right = ctx.saved_tensors
        g_frames = g.new_zeros(g.shape[0], ctx.length, g.shape[2])
        g_frames.scatter_add_(1, idx, g * (1 - frac))
        g_frames.scatter_add_(1, idx + 1, g * frac)
        g_times = (g * (right - left)).sum(-1)
        return g_frames, g_times


class SigmoidHandAttention(torch.autograd.Function):
    """One hand attends to the other with sigmoid weights instead of a softmax.

    ``weight = sigmoid(q.k / sqrt(D) + bias[head] - log(number of valid keys))``; keys of frames in which the
    other hand is not seen are left out.  Consecutive query heads share a key/value head.

    q (B, H, T, D), k and v (B, G, S, D), bias (H,), seen (B, S) bool.  Result (B, H, T, D).
    """

    @staticmethod
    def forward(ctx, q, k, v, bias, seen):
        share = q.shape[1] // k.shape[1]
        kk = k.repeat_interleave(share, dim=1)
        vv = v.repeat_interleave(share, dim=1)
        scale = 1.0 / math.sqrt(q.shape[-1])
        n = seen.sum(-1).clamp(min=1).to(q.dtype)
        logits = scale * q @ kk.transpose(-1, -2) + bias[:, None, None] - n.log()[:, None, None, None]
        w = torch.sigmoid(logits) * seen[:, None, None, :]
        ctx.save_for_backward(q, kk, vv, w)
        ctx.scale, ctx.share = scale, share
        return w @ vv

    @staticmethod
    def backward(ctx, g):
        q, kk, vv, w = ctx.saved_tensors
        batch, heads, keys, dim = kk.shape
        gw = g @ vv.transpose(-1, -2)
        gs = gw * w * (1 - w)
        gq = ctx.scale * gs @ kk
        gk = ctx.scale * gs.transpose(-1, -2) @ q
        gv = w.transpose(-1, -2) @ g
        groups = heads // ctx.share
        gk = gk.reshape(batch, ctx.share, groups, keys, dim).sum(1)
        gv = gv.reshape(batch, ctx.share, groups, keys, dim).sum(1)
        return gq, gk, gv, gs.sum((0, 2, 3)), None


class GlossTokenizer(nn.Module):
    def __init__(self, cfg: TokenizerConfig):
        super().__init__()
        self.cfg = cfg
        hd = cfg.width // cfg.query_heads
        self.q = nn.Linear(cfg.width, cfg.query_heads * hd)
        self.kv = nn.Linear(cfg.width, 2 * cfg.kv_heads * hd)
        self.bias = nn.Parameter(torch.zeros(cfg.query_heads))
        self.offset = nn.Linear(cfg.width, 1)
        self.prototypes = nn.Parameter(torch.randn(cfg.handshapes, cfg.width))

    def forward(self, right_hand, left_hand, left_seen, valid):
        b, t, _ = right_hand.shape
        c = self.cfg
        q = self.q(right_hand).view(b, t, c.query_heads, -1).transpose(1, 2)
        k, v = (z.view(b, left_hand.shape[1], c.kv_heads, -1).transpose(1, 2)
                for z in self.kv(left_hand).chunk(2, -1))
        mixed = SigmoidHandAttention.apply(q, k, v, self.bias, left_seen)
        mixed = right_hand + mixed.transpose(1, 2).reshape(b, t, -1)
        base = torch.arange(t, dtype=mixed.dtype, device=mixed.device)
        times = base + 2 * torch.tanh(self.offset(mixed)).squeeze(-1)
        return HandshapeQuantize.apply(FractionalFrameRead.apply(mixed, times), self.prototypes, valid)


def main():
    torch.manual_seed(0)
    net = GlossTokenizer(TokenizerConfig())
    out, idx = net(torch.randn(2, 9, 32), torch.randn(2, 7, 32), torch.rand(2, 7) > 0.3,
                   torch.ones(2, 9, dtype=torch.bool))
    out.square().mean().backward()
    print(idx)


if __name__ == "__main__":
    main()
