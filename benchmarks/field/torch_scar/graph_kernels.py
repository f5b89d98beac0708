import math
from typing import Optional

import torch
import torch.nn as nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class ChebyshevFilter(Function):
    r"""Polynomial graph filter :math:`y = \sum_k T_k(\tilde L)\, x\, \Theta_k + b`.

    The terms are made by the three-term recursion, and remade in backward rather than stored.

    Parameters
    ----------
    x : (..., nodes, in_features)
    lap : (nodes, nodes)
        Rescaled Laplacian, :math:`2 L/\lambda_{max} - I`. Either normalisation can be given, the symmetric one
        :math:`I - D^{-1/2} A D^{-1/2}` or the random-walk one :math:`I - D^{-1} A`; edges may be directed.
    theta : (order, in_features, out_features), order >= 1
    bias : (out_features,) or None
    """

    @staticmethod
    def forward(ctx, x, lap, theta, bias=None):
        terms = _chebyshev_terms(x, lap, theta.shape[0])
        out = sum(t @ w for t, w in zip(terms, theta))
        if bias is not None:
            out = out + bias
        ctx.save_for_backward(x, lap, theta)
        ctx.has_bias = bias is not None
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, lap, theta = ctx.saved_tensors
        order = theta.shape[0]
        terms = _chebyshev_terms(x, lap, order)
        flat = grad.reshape(-1, grad.shape[-1])
        d_theta = torch.stack([t.reshape(-1, t.shape[-1]).T @ flat for t in terms])
        adj = [grad @ w.T for w in theta]
        d_lap = torch.zeros_like(lap)
        for k in range(order - 1, 1, -1):
            d_lap += 2 * torch.einsum("...nf,...mf->nm", adj[k], terms[k - 1])
            adj[k - 1] = adj[k - 1] + 2 * (lap @ adj[k])
            adj[k - 2] = adj[k - 2] - adj[k]
        if order > 1:
            d_lap += torch.einsum("...nf,...mf->nm", adj[1], terms[0])
            adj[0] = adj[0] + lap @ adj[1]
        d_bias = flat.sum(0) if ctx.has_bias else None
        return adj[0], d_lap, d_theta, d_bias


def _chebyshev_terms(x, lap, order):
    terms = [x]
    if order > 1:
        terms.append(lap @ x)
    for _ in range(2, order):
        terms.append(2 * (lap @ terms[-1]) - terms[-2])
    return terms


class PrincipalNeighbourhood(Function):
    """Mean and std of incoming messages, each plain, amplified and attenuated by log degree: (E, F) -> (N, 6F)."""

    @staticmethod
    def forward(ctx, messages, target, n_nodes, delta=1.0, eps=1e-5):
        degree = torch.bincount(target, minlength=n_nodes).to(messages.dtype)
        n = degree.clamp(min=1)[:, None]
        blank = messages.new_zeros(n_nodes, messages.shape[1])
        mean = blank.index_add(0, target, messages) / n
        dev = messages - mean[target]
        std = (blank.index_add(0, target, dev * dev) / n + eps).sqrt()
        log_deg = (n + 1).log()
        scalers = torch.cat([torch.ones_like(n), log_deg / delta, delta / log_deg], 1)
        stats = torch.cat([mean, std], 1)
        ctx.save_for_backward(dev, std, n, scalers, target)
        return (scalers[:, :, None] * stats[:, None, :]).flatten(1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        dev, std, n, scalers, target = ctx.saved_tensors
        g = (grad.unflatten(1, (3, -1)) * scalers[:, :, None]).sum(1)
        g_mean, g_std = g.chunk(2, dim=1)
        # deviations sum to zero at each node, so the mean inside std drops out
        return (g_mean / n)[target] + (g_std / (n * std))[target] * dev, None, None, None, None


class EdgeMatrixMessage(Function):

    @staticmethod
    def forward(ctx, nodes, edge_attr, weight, edge_index, reduce="sum"):
        src, dst = edge_index
        mats = torch.einsum("ed,doi->eoi", edge_attr, weight)
        msg = torch.bmm(mats, nodes[src].unsqueeze(-1)).squeeze(-1)
        out = nodes.new_zeros(nodes.shape[0], weight.shape[1]).index_add_(0, dst, msg)
        if reduce == "mean":
            deg = torch.bincount(dst, minlength=nodes.shape[0]).clamp(min=1)
            out = out / deg[:, None]
        elif reduce != "sum":
            raise ValueError(reduce)
        ctx.save_for_backward(nodes, edge_attr, weight, edge_index)
        return out

    @staticmethod
    def backward(ctx, grad):
        nodes, edge_attr, weight, edge_index = ctx.saved_tensors
        src, dst = edge_index
        g = grad[dst]
        h = nodes[src]
        mats = torch.einsum("ed,doi->eoi", edge_attr, weight)
        g_nodes = torch.zeros_like(nodes).index_add_(0, src, torch.einsum("eo,eoi->ei", g, mats))
        g_edge = torch.einsum("eo,doi,ei->ed", g, weight, h)
        g_weight = torch.einsum("ed,eo,ei->doi", edge_attr, g, h)
        return g_nodes, g_edge, g_weight, None, None


class EdgeConv(nn.Module):
    def __init__(self, node_dim: int, edge_dim: int, out_dim: int, reduce: str = "sum", bias: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(edge_dim, out_dim, node_dim) / math.sqrt(node_dim * edge_dim))
        self.bias: Optional[nn.Parameter] = nn.Parameter(torch.zeros(out_dim)) if bias else None
        self.reduce = reduce

    def forward(self, nodes, edge_attr, edge_index):
        out = EdgeMatrixMessage.apply(nodes, edge_attr, self.weight, edge_index, self.reduce)
        return out if self.bias is None else out + self.bias
