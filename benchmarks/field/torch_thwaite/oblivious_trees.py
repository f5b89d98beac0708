"""Differentiable oblivious decision trees for tabular data."""
import math

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class ThresholdGate(Function):
    """Soft split decisions of every tree and level.

    Each (tree, level) looks at one column of the table: ``columns[t, d]``.  The
    decision is ``sigmoid((x[b, columns[t, d]] - cut[t, d]) * exp(-log_width[t, d]))``.

    Shapes: x (B, F); columns (T, D) long; cut (T, D); log_width (T, D).  Returns (B, T, D).
    """

    @staticmethod
    def forward(ctx, x, columns, cut, log_width):
        flat = columns.reshape(-1)
        picked = x.index_select(1, flat).view(x.shape[0], *columns.shape)
        sharp = torch.exp(-log_width)
        z = (picked - cut) * sharp
        gate = torch.sigmoid(z)
        ctx.save_for_backward(gate, z, sharp, flat)
        ctx.features = x.shape[1]
        return gate

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        gate, z, sharp, flat = ctx.saved_tensors
        gz = grad * gate * (1 - gate)
        g_picked = gz * sharp
        gx = None
        if ctx.needs_input_grad[0]:
            rows = g_picked.reshape(gz.shape[0], -1)
            gx = rows.new_zeros(rows.shape[0], ctx.features)
            gx.scatter_(1, flat.expand_as(rows), rows)
        return gx, None, -g_picked.sum(0), -(gz * z).sum(0)


def leaf_bits(depth, device=None):
    leaves = torch.arange(2**depth, device=device)
    return (leaves[:, None] >> torch.arange(depth, device=device)) & 1


def _others_product(f):
    """Product over the last dim of all the other entries, zeros allowed."""
    one = torch.ones_like(f[..., :1])
    left = torch.cat([one, f[..., :-1]], -1).cumprod(-1)
    right = torch.cat([one, f.flip(-1)[..., :-1]], -1).cumprod(-1).flip(-1)
    return left * right


class LeafMembership(Function):
    """(B, T, D) gates -> (B, T, 2**D) leaf weights; level d is bit d of the leaf number."""

    @staticmethod
    def forward(gate):
        bits = leaf_bits(gate.shape[-1], gate.device).bool()
        g = gate.unsqueeze(-2)
        return torch.where(bits, g, 1 - g).prod(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        (gate,) = ctx.saved_tensors
        bits = leaf_bits(gate.shape[-1], gate.device).bool()
        g = gate.unsqueeze(-2)
        others = _others_product(torch.where(bits, g, 1 - g))
        signed = torch.where(bits, others, -others)
        return (grad.unsqueeze(-1) * signed).sum(-2)


class ForestReadout(Function):
    @staticmethod
    def forward(ctx, leaf, response, tree_logit, keep):
        score = tree_logit.masked_fill(~keep, -math.inf)
        share = torch.softmax(score, -1)
        per_tree = torch.einsum("btl,tlc->btc", leaf, response)
        out = torch.einsum("bt,btc->bc", share.expand(leaf.shape[:2]), per_tree)
        ctx.save_for_backward(leaf, response, share, per_tree, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        leaf, response, share, per_tree, out = ctx.saved_tensors
        weight = share.expand(leaf.shape[:2])
        g_tree = weight.unsqueeze(-1) * grad.unsqueeze(1)
        g_leaf = torch.einsum("btc,tlc->btl", g_tree, response)
        g_response = torch.einsum("btl,btc->tlc", leaf, g_tree)
        g_logit = (g_tree * (per_tree - out.unsqueeze(1))).sum(-1)
        if share.dim() == 1:
            g_logit = g_logit.sum(0)
        elif share.shape[0] == 1:
            g_logit = g_logit.sum(0, keepdim=True)
        return g_leaf, g_response, g_logit, None


class ObliviousForest(nn.Module):
    def __init__(self, features, trees=16, depth=4, classes=1, tree_dropout=0.0):
        super().__init__()
        self.register_buffer("columns", torch.randint(features, (trees, depth)))
        self.cut = nn.Parameter(torch.randn(trees, depth) * 0.5)
        self.log_width = nn.Parameter(torch.zeros(trees, depth))
        self.response = nn.Parameter(torch.randn(trees, 2**depth, classes) / math.sqrt(trees))
        self.tree_logit = nn.Parameter(torch.zeros(trees))
        self.tree_dropout = tree_dropout

    def _keep(self, batch):
        trees = self.tree_logit.shape[0]
        keep = torch.ones(batch, trees, dtype=torch.bool, device=self.cut.device)
        if self.training and self.tree_dropout > 0:
            keep = torch.rand(batch, trees, device=self.cut.device) >= self.tree_dropout
            keep[:, 0] |= ~keep.any(1)
        return keep

    def forward(self, x):
        gate = ThresholdGate.apply(x, self.columns, self.cut, self.log_width)
        leaf = LeafMembership.apply(gate)
        logits = self.tree_logit.expand(x.shape[0], -1)
        return ForestReadout.apply(leaf, self.response, logits, self._keep(x.shape[0]))
