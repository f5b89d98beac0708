'''
Table look-ups and pooling for the CTR models and the point-cloud branch.
'''
import torch
from torch import nn


class FieldEmbedding(torch.autograd.Function):
    '''One big table for all categorical fields.

    ids[b, f] counts within field f; the table row is ids[b, f] + offsets[f].
    Returns (B, F, D).
    '''

    @staticmethod
    def forward(ctx, table, ids, offsets):
        rows = ids + offsets
        ctx.save_for_backward(ids)
        ctx.table_shape = table.shape
        return table[rows]

    @staticmethod
    def backward(ctx, grad_out):
        rows, = ctx.saved_tensors
        grad_table = grad_out.new_zeros(ctx.table_shape)
        grad_table.index_add_(0, rows.reshape(-1), grad_out.reshape(-1, ctx.table_shape[1]))
        return grad_table, None, None


class FeaturesLinear(nn.Module):

    def __init__(self, field_dims, embed_dim):
        super().__init__()
        self.table = nn.Parameter(torch.randn(sum(field_dims), embed_dim) * 0.01)
        offs = torch.tensor([0, *field_dims[:-1]]).cumsum(0)
        self.register_buffer('offsets', offs)

    def forward(self, ids):
        e = FieldEmbedding.apply(self.table, ids, self.offsets)
        # FM second-order term
        return 0.5 * (e.sum(1) ** 2 - (e ** 2).sum(1)).sum(1)


class GroupingOperation(torch.autograd.Function):

    @staticmethod
    def forward(features: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
        """
        :param features: (B, C, N) tensor of features to group
        :param idx: (B, npoint, nsample) tensor containing the indices of features to group with
        :return: (B, C, npoint, nsample)
        """
        B, C, N = features.shape
        _, npoint, nsample = idx.shape
        flat = idx.reshape(B, 1, npoint * nsample).expand(-1, C, -1)
        return torch.gather(features, 2, flat).view(B, C, npoint, nsample)

    @staticmethod
    def setup_context(ctx, inputs, output):
        features, idx = inputs
        ctx.save_for_backward(idx)
        ctx.N = features.shape[2]

    @staticmethod
    def backward(ctx, grad_out):
        idx, = ctx.saved_tensors
        B, C, npoint, nsample = grad_out.shape
        flat = idx.reshape(B, 1, npoint * nsample).expand(-1, C, -1)
        grad_features = grad_out.new_zeros(B, C, ctx.N)
        grad_features.scatter_add_(2, flat, grad_out.reshape(B, C, npoint * nsample))
        return grad_features, None


grouping_operation = GroupingOperation.apply


class SegmentMean(torch.autograd.Function):
    # src (N, D), segment_ids (N,) in any order -> (num_segments, D); empty segments give 0

    @staticmethod
    def forward(ctx, src, segment_ids, num_segments):
        out = src.new_zeros(num_segments, src.shape[1])
        out.index_add_(0, segment_ids, src)
        count = torch.bincount(segment_ids, minlength=num_segments).clamp(min=1).to(src.dtype)
        ctx.save_for_backward(segment_ids, count)
        return out / count[:, None]

    @staticmethod
    def backward(ctx, grad):
        segment_ids, count = ctx.saved_tensors
        return (grad / count[:, None])[segment_ids], None, None


class MaskedMeanPool(torch.autograd.Function):
    """Average the token vectors of each sequence over its valid positions.

    hidden: float [batch, time, dim]
    mask:   bool  [batch, time]
    A sequence without valid positions pools to zero.
    """

    @staticmethod
    def forward(hidden, mask):
        m = mask.unsqueeze(-1).to(hidden.dtype)
        # where() and not a product: padded positions may hold inf/nan
        kept = torch.where(mask.unsqueeze(-1), hidden, torch.zeros_like(hidden))
        return kept.sum(1) / m.sum(1).clamp(min=1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, mask = inputs
        ctx.save_for_backward(mask)

    @staticmethod
    def backward(ctx, grad):
        mask, = ctx.saved_tensors
        m = mask.unsqueeze(-1).to(grad.dtype)
        return (grad / m.sum(1).clamp(min=1)).unsqueeze(1) * m, None


class SentenceEncoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.proj = nn.Linear(dim, dim)

    def forward(self, tokens):
        return self.proj(MaskedMeanPool.apply(self.emb(tokens), tokens != 0))
