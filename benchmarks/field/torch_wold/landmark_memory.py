# Compressed memories for long sequences: landmarks pooled from packed tokens, attention over projected keys, and the
# merge of partial reads that were computed chunk by chunk.
import math

import torch
import torch.nn as nn
from torch.autograd import Function


def landmark_slots(lengths, block):
    """Landmark index of every packed token, and how many landmarks there are.

    Parameters
    ----------
    lengths : sequence of int
        Tokens in each sequence, zero allowed.
    block : int
        Tokens per landmark; the last landmark of a sequence may hold fewer. Empty sequences get one (empty) landmark.
    """
    slots, start = [], 0
    for n in lengths:
        slots.append(start + torch.arange(n) // block)
        start += max(1, -(-n // block))
    return torch.cat(slots), start


class LandmarkPool(Function):
    """Softmax pooling of packed tokens into landmarks.

    Parameters
    ----------
    tokens : Tensor, (N, D)
    scores : Tensor, (N, H)
        One score per head; head h pools the h-th of H equal slices of D.
    slots : LongTensor, (N,)
        Landmark of each token, in any order, possibly repeated.
    count : int
        Number of landmarks. Those without tokens are zero.

    Returns
    -------
    Tensor, (count, D)
    """

    @staticmethod
    def forward(ctx, tokens, scores, slots, count):
        n, heads = scores.shape
        x = tokens.reshape(n, heads, -1)
        top = scores.new_full((count, heads), -math.inf)
        top = top.scatter_reduce(
            0, slots[:, None].expand(n, heads), scores, "amax", include_self=True
        )
        e = torch.exp(scores - top[slots])
        total = scores.new_zeros(count, heads).index_add_(0, slots, e)
        w = e / total[slots]
        pooled = x.new_zeros(count, heads, x.shape[-1]).index_add_(0, slots, w[..., None] * x)
        ctx.save_for_backward(x, w, pooled, slots)
        return pooled.reshape(count, -1)

    @staticmethod
    def backward(ctx, grad):
        x, w, pooled, slots = ctx.saved_tensors
        g = grad.reshape(pooled.shape)[slots]
        g_scores = w * (g * (x - pooled[slots])).sum(-1)
        return (w[..., None] * g).reshape(x.shape[0], -1), g_scores, None, None


class ProjectedKeyAttention(Function):
    """Attention over keys and values that are projected along the sequence.

    Parameters
    ----------
    q : Tensor, (B, H, T, D)
    k, v : Tensor, (B, H, S, D)
    key_map : Tensor, (M, S)
    value_map : Tensor (M, S) or None
        ``None`` shares `key_map` with the values.
    valid : BoolTensor, (B, S)
        Positions that take part in the projections.
    scale : float
    """

    @staticmethod
    def forward(ctx, q, k, v, key_map, value_map, valid, scale):
        shared = value_map is None
        keep = valid[:, None, :, None].to(k.dtype)
        k, v = k * keep, v * keep
        vm = key_map if shared else value_map
        pk = torch.einsum("ms,bhsd->bhmd", key_map, k)
        pv = torch.einsum("ms,bhsd->bhmd", vm, v)
        p = torch.softmax(scale * q @ pk.transpose(-1, -2), dim=-1)
        ctx.shared, ctx.scale = shared, scale
        ctx.save_for_backward(q, k, v, key_map, vm, keep, pk, pv, p)
        return p @ pv

    @staticmethod
    def backward(ctx, grad):
        q, k, v, key_map, vm, keep, pk, pv, p = ctx.saved_tensors
        g_pv = p.transpose(-1, -2) @ grad
        g_p = grad @ pv.transpose(-1, -2)
        g_s = ctx.scale * p * (g_p - (g_p * p).sum(-1, keepdim=True))
        g_q = g_s @ pk
        g_pk = g_s.transpose(-1, -2) @ q
        g_k = torch.einsum("ms,bhmd->bhsd", key_map, g_pk) * keep
        g_v = torch.einsum("ms,bhmd->bhsd", vm, g_pv) * keep
        g_key_map = torch.einsum("bhmd,bhsd->ms", g_pk, k)
        g_value_map = None
        if not ctx.shared:
            g_value_map = torch.einsum("bhmd,bhsd->ms", g_pv, v)
        return g_q, g_k, g_v, g_key_map, g_value_map, None, None


class PartialReadMerge(Function):
    """Merge reads of separate chunks by their log normalisers.

    Parameters
    ----------
    reads : Tensor, (C, B, H, D)
    lses : Tensor, (C, B, H)
    sink : Tensor (H,) or None
        Logit of a slot with a zero value that joins the softmax of the read.

    Returns
    -------
    read : Tensor, (B, H, D)
    lse : Tensor, (B, H)
        Log normaliser of the chunks, without the sink, so that the result can be merged again.
    """

    @staticmethod
    def forward(ctx, reads, lses, sink):
        lse = torch.logsumexp(lses, dim=0)
        norm = lse if sink is None else torch.logaddexp(lse, sink.expand_as(lse))
        share = torch.exp(lses - norm)
        read = (share[..., None] * reads).sum(0)
        ctx.has_sink = sink is not None
        rest = torch.exp(sink - norm) if ctx.has_sink else None
        ctx.save_for_backward(reads, share, read, rest)
        return read, lse

    @staticmethod
    def backward(ctx, g_read, g_lse):
        reads, share, read, rest = ctx.saved_tensors
        along = (g_read * read).sum(-1)
        g_lses = share * ((g_read * reads).sum(-1) - along + g_lse)
        g_sink = -(rest * along).sum(0) if ctx.has_sink else None
        return share[..., None] * g_read, g_lses, g_sink


def landmark_pool(tokens, scores, slots, count):
    return LandmarkPool.apply(tokens, scores, slots, count)


def projected_key_attention(q, k, v, key_map, value_map=None, valid=None, scale=None):
    if valid is None:
        valid = torch.ones(k.shape[0], k.shape[2], dtype=torch.bool, device=k.device)
    if scale is None:
        scale = q.shape[-1] ** -0.5
    return ProjectedKeyAttention.apply(q, k, v, key_map, value_map, valid, scale)


def partial_read_merge(reads, lses, sink=None):
    return PartialReadMerge.apply(reads, lses, sink)


class ProjectedSelfAttention(nn.Module):
    def __init__(self, dim, heads, length, rank, share=False):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.key_map = nn.Parameter(torch.randn(rank, length) / math.sqrt(length))
        self.value_map = (
            None if share else nn.Parameter(torch.randn(rank, length) / math.sqrt(length))
        )

    def forward(self, x, valid=None):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = projected_key_attention(q, k, v, self.key_map, self.value_map, valid)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class LandmarkCompressor(nn.Module):
    def __init__(self, dim, heads, block):
        super().__init__()
        self.score = nn.Linear(dim, heads)
        self.block = block

    def forward(self, packed, lengths):
        slots, count = landmark_slots(lengths, self.block)
        return landmark_pool(packed, self.score(packed), slots.to(packed.device), count)


class ChunkedReader(nn.Module):
    """Reads a list of key/value chunks with one query per row and merges."""

    def __init__(self, heads, with_sink=True):
        super().__init__()
        self.sink = nn.Parameter(torch.zeros(heads)) if with_sink else None

    def forward(self, q, chunks):
        reads, lses = [], []
        for k, v in chunks:
            logits = torch.einsum("bhd,bhsd->bhs", q, k) * q.shape[-1] ** -0.5
            lses.append(torch.logsumexp(logits, -1))
            reads.append(torch.einsum("bhs,bhsd->bhd", torch.softmax(logits, -1), v))
        return partial_read_merge(torch.stack(reads), torch.stack(lses), self.sink)
