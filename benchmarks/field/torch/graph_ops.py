"""Sparse message passing on ``edge_index`` (2, E); row 0 = source nodes, row 1 = target nodes."""
from typing import Optional, Tuple

import torch
from torch import Tensor, nn


def degree(index: Tensor, num_nodes: int, dtype=None) -> Tensor:
    return torch.bincount(index, minlength=num_nodes).to(dtype or torch.get_default_dtype())


class Propagate(torch.autograd.Function):
    r"""Weighted sum aggregation :math:`y_i = \sum_{(j, i) \in E} w_{ji} x_j`."""

    @staticmethod
    def forward(x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        src, dst = edge_index
        out = torch.zeros_like(x)
        return out.index_add_(0, dst, x[src] * edge_weight[:, None])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tuple[Optional[Tensor], None, Optional[Tensor]]:
        x, edge_index, edge_weight = ctx.saved_tensors
        src, dst = edge_index
        grad_x = grad_w = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.zeros_like(x).index_add_(0, src, grad[dst] * edge_weight[:, None])
        if ctx.needs_input_grad[2]:
            grad_w = (x[src] * grad[dst]).sum(dim=-1)
        return grad_x, None, grad_w


class MeanAggregate(torch.autograd.Function):
    """GraphSAGE mean over the in-neighbours; nodes without any get 0."""

    @staticmethod
    def forward(ctx, x, edge_index):
        src, dst = edge_index
        deg = degree(dst, x.size(0), x.dtype).clamp(min=1)
        out = torch.zeros_like(x).index_add_(0, dst, x[src])
        ctx.save_for_backward(edge_index, deg)
        return out / deg.unsqueeze(-1)

    @staticmethod
    def backward(ctx, grad_out):
        edge_index, deg = ctx.saved_tensors
        src, dst = edge_index
        grad_x = torch.zeros_like(grad_out).index_add_(0, src, grad_out[dst])
        return grad_x / deg.unsqueeze(-1), None


class EdgeSoftmax(torch.autograd.Function):
    # logits [E, heads], normalised over the edges that share a target

    @staticmethod
    def forward(ctx, logits, index, num_nodes):
        idx = index.unsqueeze(-1).expand_as(logits)
        top = logits.new_full((num_nodes, logits.size(1)), float('-inf'))
        top = top.scatter_reduce(0, idx, logits, reduce='amax')
        e = torch.exp(logits - top[index])
        z = e.new_zeros(num_nodes, logits.size(1)).index_add_(0, index, e)
        alpha = e / z[index]
        ctx.save_for_backward(alpha, index)
        ctx.num_nodes = num_nodes
        return alpha

    @staticmethod
    def backward(ctx, grad):
        alpha, index = ctx.saved_tensors
        ag = alpha * grad
        total = ag.new_zeros(ctx.num_nodes, ag.size(1)).index_add_(0, index, ag)
        return ag - alpha * total[index], None, None


class EdgeMax(torch.autograd.Function):
    """Max-relative aggregation (DeepGCN): ``y_i = max_{j in N(i)} (x_j - x_i)``, 0 if N(i) is empty."""

    @staticmethod
    def forward(ctx, x, edge_index):
        src, dst = edge_index
        num_edges = src.numel()
        msg = x[src] - x[dst]
        idx = dst[:, None].expand_as(msg)
        top = x.new_full(x.shape, float('-inf')).scatter_reduce(0, idx, msg, reduce='amax')
        # first edge that attains the maximum; num_edges = no edge at all
        eid = torch.arange(num_edges, device=x.device)[:, None].expand_as(msg)
        eid = eid.masked_fill(msg != top[dst], num_edges)
        arg = torch.full(x.shape, num_edges, dtype=torch.long, device=x.device)
        arg = arg.scatter_reduce(0, idx, eid, reduce='amin')
        ctx.save_for_backward(edge_index, arg)
        return torch.where(arg < num_edges, top, torch.zeros_like(top))

    @staticmethod
    def backward(ctx, grad):
        edge_index, arg = ctx.saved_tensors
        src = edge_index[0]
        if src.numel() == 0:
            return torch.zeros_like(grad), None
        hit = arg < src.numel()
        g = torch.where(hit, grad, torch.zeros_like(grad))
        winner = src[arg.clamp(max=src.numel() - 1)]
        return torch.scatter_add(-g, 0, winner, g), None


class GATLayer(nn.Module):
    def __init__(self, in_dim, out_dim, negative_slope=0.2):
        super().__init__()
        self.lin = nn.Linear(in_dim, out_dim, bias=False)
        self.att_src = nn.Parameter(torch.randn(out_dim) / out_dim ** 0.5)
        self.att_dst = nn.Parameter(torch.randn(out_dim) / out_dim ** 0.5)
        self.negative_slope = negative_slope

    def forward(self, x, edge_index):
        h = self.lin(x)
        src, dst = edge_index
        e = (h @ self.att_src)[src] + (h @ self.att_dst)[dst]
        e = nn.functional.leaky_relu(e, self.negative_slope)
        alpha = EdgeSoftmax.apply(e[:, None], dst, x.size(0)).squeeze(-1)
        return Propagate.apply(h, edge_index, alpha)


class SAGELayer(nn.Module):
    def __init__(self, in_dim, out_dim, aggr='mean'):
        super().__init__()
        self.self_lin = nn.Linear(in_dim, out_dim)
        self.nbr_lin = nn.Linear(in_dim, out_dim, bias=False)
        self.aggregate = {'mean': MeanAggregate, 'max': EdgeMax}[aggr].apply

    def forward(self, x, edge_index):
        return self.self_lin(x) + self.nbr_lin(self.aggregate(x, edge_index))


if __name__ == '__main__':
    ei = torch.tensor([[0, 1, 2, 2, 3], [1, 2, 0, 1, 1]])
    x = torch.randn(4, 3)
    print(GATLayer(3, 2)(x, ei), SAGELayer(3, 2, 'max')(x, ei))
