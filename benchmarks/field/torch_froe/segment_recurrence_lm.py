# Language model with segment-level recurrence.
#
# Text comes in segments of T tokens, the last M hidden states of the previous segment are
# kept as memory.  B batch, H heads, D width of a head, C model channels.

from typing import NamedTuple, Sequence

import torch
import torch.nn.functional as F
from torch import nn

PAD = -1


def distance_table(t: int, s: int, reach: int, device=None):
    """Distance of query i to key j (memory first), clamped to `reach`; and the causal mask."""
    i = torch.arange(t, device=device)[:, None] + (s - t)
    j = torch.arange(s, device=device)[None, :]
    dist = i - j
    return dist.clamp(0, reach), dist < 0


class RecurrentRelativeWeights(torch.autograd.Function):
    """Attention weights with content and distance terms.

    score[i, j] = ((q_i + u) . k_j + (q_i + v) . r[dist(i, j)]) / sqrt(D)

    q: (B, H, T, D); k: (B, H, S, D), S >= T, memory in front; r: (H, reach + 1, D), one vector
    a distance, everything further away than `reach` shares the last one; u, v: (H, D).
    Returns softmax over the keys that are not in the future, (B, H, T, S).
    """

    @staticmethod
    def forward(ctx, q, k, r, u, v):
        t, s = q.shape[2], k.shape[2]
        dist, future = distance_table(t, s, r.shape[1] - 1, q.device)
        scale = q.shape[-1] ** -0.5
        content = (q + u[:, None]) @ k.transpose(-1, -2)
        by_dist = torch.einsum("bhtd,hld->bhtl", q + v[:, None], r)
        position = by_dist.gather(-1, dist.expand(*q.shape[:2], t, s))
        p = torch.softmax(((content + position) * scale).masked_fill(future, float("-inf")), -1)
        ctx.save_for_backward(q, k, r, u, v, p)
        return p

    @staticmethod
    def backward(ctx, grad):
        q, k, r, u, v, p = ctx.saved_tensors
        t, s = p.shape[-2:]
        dist, _ = distance_table(t, s, r.shape[1] - 1, q.device)
        ds = p * (grad - (grad * p).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
        dpos = ds.new_zeros(*p.shape[:3], r.shape[1])
        dpos = dpos.scatter_add(-1, dist.expand_as(ds), ds)
        d_qu = ds @ k
        d_qv = torch.einsum("bhtl,hld->bhtd", dpos, r)
        d_k = ds.transpose(-1, -2) @ (q + u[:, None])
        d_r = torch.einsum("bhtl,bhtd->hld", dpos, q + v[:, None])
        return d_qu + d_qv, d_k, d_r, d_qu.sum((0, 2)), d_qv.sum((0, 2))


class Bands(NamedTuple):
    """Vocabulary bands: ids below `shortlist` are scored by the head directly, the others by
    the tail that holds them.  `ends` are the exclusive upper ids of the tails, in order."""

    shortlist: int
    ends: Sequence[int]

    def tails(self):
        lows = [self.shortlist, *self.ends[:-1]]
        return list(zip(lows, self.ends))


class BandedVocabularyNLL(torch.autograd.Function):
    """Mean negative log likelihood of a frequency-banded vocabulary.

    hidden (N, C); head (shortlist + number of tails, C); then for each tail its down-projection
    (c, C) and its output table (ids of the tail, c).  Targets equal to PAD do not count.
    """

    @staticmethod
    def forward(ctx, hidden, target, bands, head, *tails):
        keep = target != PAD
        count = keep.sum().clamp(min=1)
        slot = target.clamp(min=0)
        for n, (low, high) in enumerate(bands.tails()):
            slot = torch.where((target >= low) & (target < high), torch.full_like(slot, bands.shortlist + n), slot)
        head_nll = F.cross_entropy(hidden @ head.t(), slot, reduction="none")
        total = (head_nll * keep).sum()
        for n, (low, high) in enumerate(bands.tails()):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            down, table = tails[2 * n], tails[2 * n + 1]
            z = hidden[rows] @ down.t()
            total = total + F.cross_entropy(z @ table.t(), target[rows] - low, reduction="sum")
        ctx.save_for_backward(hidden, target, head, *tails)
        ctx.bands = bands
        return total / count

    @staticmethod
    def backward(ctx, grad):
        hidden, target, head, *tails = ctx.saved_tensors
        bands = ctx.bands
        keep = target != PAD
        step = grad / keep.sum().clamp(min=1)

        slot = target.clamp(0, bands.shortlist)
        err = torch.softmax(hidden @ head.t(), -1)
        err = (err - F.one_hot(slot, head.shape[0])) * keep[:, None] * step
        d_hidden = err @ head
        d_head = err.t() @ hidden

        d_tails = [torch.zeros_like(w) for w in tails]
        for n, (low, high) in enumerate(bands.tails()):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            down, table = tails[2 * n], tails[2 * n + 1]
            z = hidden[rows] @ down.t()
            err = (torch.softmax(z @ table.t(), -1) - F.one_hot(target[rows] - low, high - low)) * step
            d_z = err @ table
            d_tails[2 * n] = d_z.t() @ hidden[rows]
            d_tails[2 * n + 1] = err.t() @ z
            d_hidden = d_hidden.index_add(0, rows, d_z @ down)
        return (d_hidden, None, None, d_head, *d_tails)


class DocumentCarry(torch.autograd.Function):
    """Running summary that is carried through a segment and dropped at document starts.

        carry[t] = (0 if starts[t] else decay * carry[t - 1]) + (1 - decay) * x[t]

    x (B, T, C), decay (C,), first (B, C) the carry of the segment before, starts (B, T) bool.
    Returns all carries (B, T, C) and the last one, which goes to the next segment.
    """

    @staticmethod
    def forward(ctx, x, decay, first, starts):
        keep = (~starts).to(x.dtype)[..., None]
        carry, out = first, []
        for t in range(x.shape[1]):
            carry = keep[:, t] * decay * carry + (1 - decay) * x[:, t]
            out.append(carry)
        carries = torch.stack(out, 1)
        ctx.save_for_backward(x, decay, first, keep, carries)
        return carries, carry.clone()

    @staticmethod
    def backward(ctx, g_all, g_last):
        x, decay, first, keep, carries = ctx.saved_tensors
        steps = x.shape[1]
        adj = torch.empty_like(x)
        run = g_last + g_all[:, -1]
        adj[:, -1] = run
        for t in range(steps - 2, -1, -1):
            run = g_all[:, t] + keep[:, t] * decay * run
            adj[:, t] = run
        before = torch.cat([first[:, None], carries[:, :-1]], 1)
        d_decay = (adj * (keep * before - x)).sum((0, 1))
        return adj * (1 - decay), d_decay, keep[:, 0] * decay * run, None


class TopicSummary(nn.Module):
    """Keeps one slow channelwise summary of the current document beside the memory."""

    def __init__(self, channels, half_life=32.0):
        super().__init__()
        self.raw = nn.Parameter(torch.full((channels,), 0.5 ** (1 / half_life)).logit())

    def forward(self, hidden, tokens, state, bos_id):
        return DocumentCarry.apply(hidden, torch.sigmoid(self.raw), state, tokens == bos_id)
