"""Transformer blocks which spend compute on part of the tokens and samples.

Three ways of saving work are combined here:

* depth routing: a router picks ``capacity`` tokens of each sequence, only
  these go through the block, and the result is put back in place;
* sample-subset residuals: during training a branch is evaluated on a random
  subset of the batch and its contribution is scaled up to compensate;
* bucketed distance biases, so no position table grows with the context.

The functions below avoid keeping the full activations that plain indexing
would save for the backward pass.
"""

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function

ROUTER_TEMPERATURE = 1.0
NUM_BUCKETS = 16
MAX_DISTANCE = 128


class RoutedSubset(Function):
    """Pick the top-``capacity`` tokens of every sequence.

    Args:
        x (Tensor): tokens, ``(batch, length, dim)``.
        logits (Tensor): router logits, ``(batch, length)``.
        valid (BoolTensor or None): False at padding, which is picked last.
        capacity (int): tokens kept for each sequence.
        temperature (float): of the surrogate, see below.

    Returns:
        tuple: the picked tokens ``(batch, capacity, dim)`` in their original
        order, a 0/1 keep map ``(batch, length)`` and the positions
        ``(batch, capacity)``.

    The keep map is a step function of the logits. For the backward pass it is
    deliberately replaced by ``sigmoid(logits / temperature)`` on valid
    positions (straight-through); padding gets no gradient through it.
    """

    @staticmethod
    def forward(ctx, x, logits, valid, capacity, temperature=ROUTER_TEMPERATURE):
        scores = logits if valid is None else logits.masked_fill(~valid, -torch.inf)
        positions = scores.topk(capacity, dim=1).indices.sort(dim=1).values
        picked = x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
        keep = torch.zeros_like(logits).scatter_(1, positions, 1.0)
        if valid is not None:
            keep = keep * valid
        ctx.save_for_backward(logits, positions, valid)
        ctx.length = x.shape[1]
        ctx.temperature = temperature
        ctx.mark_non_differentiable(positions)
        return picked, keep, positions

    @staticmethod
    def backward(ctx, grad_picked, grad_keep, _):
        logits, positions, valid = ctx.saved_tensors
        grad_x = grad_logits = None
        if ctx.needs_input_grad[0]:
            b, _, d = grad_picked.shape
            grad_x = grad_picked.new_zeros(b, ctx.length, d)
            grad_x.scatter_(1, positions.unsqueeze(-1).expand(-1, -1, d), grad_picked)
        if ctx.needs_input_grad[1]:
            s = torch.sigmoid(logits / ctx.temperature)
            grad_logits = grad_keep * s * (1.0 - s) / ctx.temperature
            if valid is not None:
                grad_logits = grad_logits * valid
        return grad_x, grad_logits, None, None, None


class RoutedMerge(Function):
    """Put processed tokens back, each scaled by its gate.

    With ``residual`` the gated update is added to the token it came from;
    without, it takes the token's place (used at the last routed layer, where
    the stream changes basis). Tokens that were not routed stay as they are.
    """

    @staticmethod
    def forward(stream, update, gate, positions, residual=True):
        index = positions.unsqueeze(-1).expand_as(update)
        scaled = update * gate.unsqueeze(-1)
        if residual:
            return stream.scatter_add(1, index, scaled)
        return stream.scatter(1, index, scaled)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, update, gate, positions, _ = inputs
        ctx.save_for_backward(update, gate, positions)

    @staticmethod
    def backward(ctx, grad):
        update, gate, positions = ctx.saved_tensors
        at_tokens = grad.gather(1, positions.unsqueeze(-1).expand_as(update))
        grad_stream = grad if ctx.needs_input_grad[0] else None
        grad_update = at_tokens * gate.unsqueeze(-1) if ctx.needs_input_grad[1] else None
        grad_gate = (at_tokens * update).sum(-1) if ctx.needs_input_grad[2] else None
        return grad_stream, grad_update, grad_gate, None, None


def distance_buckets(q_len: int, k_len: int, offset: int = 0, causal: bool = False,
                     buckets: int = NUM_BUCKETS, reach: int = MAX_DISTANCE) -> torch.Tensor:
    """Integer table (q_len, k_len): exact near zero, logarithmic further off.

    ``offset`` is the number of cached keys that precede the first query.
    """
    q = torch.arange(q_len)[:, None] + offset
    k = torch.arange(k_len)[None, :]
    rel = k - q
    start = torch.zeros_like(rel)
    if causal:
        dist = (-rel).clamp(min=0)
    else:
        buckets //= 2
        start = (rel > 0).long() * buckets
        dist = rel.abs()
    exact = buckets // 2
    ratio = torch.log(dist.clamp(min=1).float() / exact) / math.log(reach / exact)
    far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return start + torch.where(dist < exact, dist, far)


class DistanceBucketBias(Function):
    """bias[h, q, k] = gain[h] * table[bucket[q, k], h]"""

    @staticmethod
    def forward(ctx, table, gain, bucket):
        ctx.save_for_backward(table, gain, bucket)
        return table[bucket].permute(2, 0, 1) * gain[:, None, None]

    @staticmethod
    def backward(ctx, grad_bias):
        table, gain, bucket = ctx.saved_tensors
        heads = table.shape[1]
        by_entry = grad_bias.reshape(heads, -1).t()
        pooled = torch.zeros_like(table).index_add_(0, bucket.reshape(-1), by_entry)
        grad_table = pooled * gain if ctx.needs_input_grad[0] else None
        grad_gain = (pooled * table).sum(0) if ctx.needs_input_grad[1] else None
        return grad_table, grad_gain, None


class SubsetResidual(Function):
    """``x`` plus a layer-scaled branch that was run on some samples only.

    Parameters
    ----------
    x : Tensor
        (batch, ..., dim)
    branch : Tensor
        (chosen, ..., dim), the branch for the samples in ``rows``
    gamma : Tensor
        (dim,)
    rows : LongTensor
        (chosen,), which samples these are, without repeats

    The branch is multiplied by batch / chosen.
    """

    @staticmethod
    def forward(ctx, x, branch, gamma, rows):
        ctx.boost = x.shape[0] / rows.shape[0]
        ctx.save_for_backward(branch, gamma, rows)
        return x.index_add(0, rows, branch * gamma, alpha=ctx.boost)

    @staticmethod
    def backward(ctx, grad_out):
        branch, gamma, rows = ctx.saved_tensors
        selected = ctx.boost * grad_out.index_select(0, rows)
        grad_branch = grad_gamma = None
        if ctx.needs_input_grad[1]:
            grad_branch = selected * gamma
        if ctx.needs_input_grad[2]:
            grad_gamma = (selected * branch).flatten(0, -2).sum(0)
        return grad_out, grad_branch, grad_gamma, None


class BucketAttention(nn.Module):
    def __init__(self, dim: int, heads: int, causal: bool = False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.table = nn.Parameter(0.02 * torch.randn(NUM_BUCKETS, heads))
        self.gain = nn.Parameter(torch.ones(heads))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bucket = distance_buckets(n, n, causal=self.causal).to(x.device)
        bias = DistanceBucketBias.apply(self.table, self.gain, bucket)
        if self.causal:
            ahead = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
            bias = bias.masked_fill(ahead, -torch.inf)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.unsqueeze(0))
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class SubsetBlock(nn.Module):
    """Pre-norm attention and feed-forward with sample-subset training."""

    def __init__(self, dim: int, heads: int, drop_samples: float = 0.4, scale_init: float = 1e-2):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = BucketAttention(dim, heads)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.gamma1 = nn.Parameter(torch.full((dim,), scale_init))
        self.gamma2 = nn.Parameter(torch.full((dim,), scale_init))
        self.drop_samples = drop_samples

    def _rows(self, x):
        b = x.shape[0]
        if not self.training:
            return torch.arange(b, device=x.device)
        chosen = max(1, int(b * (1.0 - self.drop_samples)))
        return torch.randperm(b, device=x.device)[:chosen]

    def forward(self, x):
        rows = self._rows(x)
        x = SubsetResidual.apply(x, self.attn(self.norm1(x[rows])), self.gamma1, rows)
        rows = self._rows(x)
        return SubsetResidual.apply(x, self.ffn(self.norm2(x[rows])), self.gamma2, rows)


class DepthRouted(nn.Module):
    """Runs ``block`` on a share of the tokens."""

    def __init__(self, block: nn.Module, dim: int, share: float = 0.25, residual: bool = True):
        super().__init__()
        self.block, self.share, self.residual = block, share, residual
        self.router = nn.Linear(dim, 1)

    def forward(self, x: torch.Tensor, valid: Optional[torch.Tensor] = None):
        logits = self.router(x).squeeze(-1)
        capacity = max(1, int(self.share * x.shape[1]))
        picked, keep, positions = RoutedSubset.apply(x, logits, valid, capacity)
        gate = torch.sigmoid(logits).gather(1, positions)
        update = self.block(picked)
        out = RoutedMerge.apply(x, update, gate, positions, self.residual)
        usage = (keep.mean(1) - self.share).square().mean()
        return out, usage


if __name__ == "__main__":
    torch.manual_seed(0)
    layers = nn.ModuleList([
        DepthRouted(SubsetBlock(32, 4), 32, share=0.5),
        DepthRouted(SubsetBlock(32, 4), 32, share=0.5, residual=False),
    ])
    tokens = torch.randn(5, 24, 32)
    lengths = torch.tensor([24, 20, 24, 15, 18])
    is_token = torch.arange(24)[None, :] < lengths[:, None]
    total = 0.0
    hidden = tokens
    for layer in layers:
        hidden, aux = layer(hidden, is_token)
        total = total + 0.01 * aux
    total = total + hidden.square().mean()
    total.backward()
    print("loss", total.item(), "router grad", layers[0].router.weight.grad.norm().item())
