"""Graph distances, pairwise ratings and multi-criteria aggregation."""
from __future__ import annotations

import math
from typing import Optional, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

__all__ = [
    "EffectiveResistance",
    "kirchhoff_index",
    "EloRatings",
    "run_season",
    "fit_home_advantage",
    "ChoquetIntegral",
    "ChoquetPool",
]


# --------------------------------------------------------------------------
# effective resistance
# --------------------------------------------------------------------------

def _laplacian(weight: Tensor, edges: Tensor, num_nodes: int) -> Tensor:
    u, v = edges.unbind(dim=1)
    lap = weight.new_zeros(num_nodes, num_nodes)
    lap.index_put_((u, u), weight, accumulate=True)
    lap.index_put_((v, v), weight, accumulate=True)
    lap.index_put_((u, v), -weight, accumulate=True)
    lap.index_put_((v, u), -weight, accumulate=True)
    return lap


class EffectiveResistance(Function):
    """Effective resistance between pairs of nodes of a resistor network.

    With the weighted Laplacian ``L`` of the network and the dipole
    ``b = e_s - e_t``, the effective resistance of the pair ``(s, t)`` is
    ``b^T L^+ b``, the voltage between ``s`` and ``t`` when one ampere is sent
    from ``s`` to ``t``.

    Parameters
    ----------
    weight : Tensor, shape (E,)
        Conductance of every edge, strictly positive.
    edges : LongTensor, shape (E, 2)
        End points of the undirected edges.  The same pair of nodes may be
        listed several times (conductors in parallel), in either direction.
        The network must be connected.
    pairs : LongTensor, shape (Q, 2)
        Pairs of nodes to measure.  A pair may be repeated and ``s == t`` is
        allowed (the resistance is then zero).
    num_nodes : int
        Number of nodes ``N``.

    Returns
    -------
    Tensor, shape (Q,)
        Resistances, differentiable with respect to `weight`.

    Notes
    -----
    ``L`` is made invertible by adding ``1 1^T / N``, which leaves the
    potentials of a balanced current injection unchanged.
    """

    @staticmethod
    def forward(ctx, weight, edges, pairs, num_nodes):
        lap = _laplacian(weight, edges, num_nodes)
        lap += 1.0 / num_nodes
        chol = torch.linalg.cholesky(lap)
        queries = torch.arange(pairs.shape[0], device=pairs.device)
        dipole = weight.new_zeros(num_nodes, pairs.shape[0])
        one = weight.new_ones(pairs.shape[0])
        dipole.index_put_((pairs[:, 0], queries), one, accumulate=True)
        dipole.index_put_((pairs[:, 1], queries), -one, accumulate=True)
        potential = torch.cholesky_solve(dipole, chol)
        ctx.save_for_backward(potential, edges)
        return (dipole * potential).sum(dim=0)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        potential, edges = ctx.saved_tensors
        drop = potential[edges[:, 0]] - potential[edges[:, 1]]
        return -(drop.square() @ grad), None, None, None


def kirchhoff_index(weight: Tensor, edges: Tensor, num_nodes: int) -> Tensor:
    """Sum of the effective resistances over all unordered pairs of nodes."""
    pairs = torch.combinations(torch.arange(num_nodes, device=edges.device), 2)
    return EffectiveResistance.apply(weight, edges, pairs, num_nodes).sum()


# --------------------------------------------------------------------------
# Elo
# --------------------------------------------------------------------------

class EloRatings(Function):

    @staticmethod
    def forward(ctx, ratings, k, home, scores, matches, scale=400.0):
        slope = math.log(10.0) / scale
        n = matches.shape[0]
        kk, hh = k.expand(n), home.expand(n)
        table = ratings.clone()
        expected = ratings.new_empty(n)
        for m, (i, j) in enumerate(matches.tolist()):
            expected[m] = torch.sigmoid(slope * (table[i] + hh[m] - table[j]))
            delta = kk[m] * (scores[m] - expected[m])
            table[i] += delta
            table[j] -= delta
        ctx.save_for_backward(k, home, scores, expected)
        ctx.matches, ctx.slope = matches.tolist(), slope
        return table, expected

    @staticmethod
    @once_differentiable
    def backward(ctx, g_table, g_expected):
        k, home, scores, expected = ctx.saved_tensors
        n = len(ctx.matches)
        kk = k.expand(n)
        carry = g_table.clone()
        g_k = torch.zeros_like(expected)
        g_home = torch.zeros_like(expected)
        g_scores = torch.zeros_like(expected)
        for m in range(n - 1, -1, -1):
            i, j = ctx.matches[m]
            e = expected[m]
            g_delta = carry[i] - carry[j]
            g_k[m] = g_delta * (scores[m] - e)
            g_scores[m] = g_delta * kk[m]
            g_z = (g_expected[m] - g_delta * kk[m]) * e * (1.0 - e) * ctx.slope
            g_home[m] = g_z
            carry[i] += g_z
            carry[j] -= g_z
        return (carry, g_k.sum_to_size(k.shape), g_home.sum_to_size(home.shape),
                g_scores, None, None)


def run_season(ratings, matches, scores, k=24.0, home=0.0, scale=400.0):
    k = torch.as_tensor(k, dtype=ratings.dtype, device=ratings.device)
    home = torch.as_tensor(home, dtype=ratings.dtype, device=ratings.device)
    return EloRatings.apply(ratings, k, home, scores, matches, scale)


def fit_home_advantage(ratings, matches, scores, steps=50, lr=2.0):
    home = torch.zeros((), dtype=ratings.dtype, requires_grad=True)
    log_k = torch.tensor(3.0, dtype=ratings.dtype, requires_grad=True)
    opt = torch.optim.Adam([{"params": [home], "lr": lr}, {"params": [log_k], "lr": 0.02}])
    for _ in range(steps):
        opt.zero_grad()
        _, expected = run_season(ratings, matches, scores, log_k.exp(), home)
        loss = nn.functional.binary_cross_entropy(expected, scores)
        loss.backward()
        opt.step()
    return home.detach(), log_k.exp().detach()


# --------------------------------------------------------------------------
# Choquet integral
# --------------------------------------------------------------------------

class ChoquetIntegral(Function):
    """Discrete Choquet integral of ``x`` (B, n) for a capacity (2**n,).

    ``capacity[s]`` is the measure of the subset whose members are the bits set
    in ``s`` (criterion 0 is bit 0).  Returns (B,).
    """

    @staticmethod
    def forward(ctx, x: Tensor, capacity: Tensor) -> Tensor:
        ordered, order = x.sort(dim=1, descending=True)
        subsets = (1 << order).cumsum(dim=1)
        below = torch.cat([ordered[:, 1:], torch.zeros_like(ordered[:, :1])], dim=1)
        steps = ordered - below
        ctx.save_for_backward(order, subsets, steps, capacity)
        return (steps * capacity[subsets]).sum(dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        order, subsets, steps, capacity = ctx.saved_tensors
        grad = grad[:, None]
        g_x = g_capacity = None
        if ctx.needs_input_grad[0]:
            measure = capacity[subsets]
            gain = torch.cat([measure[:, :1], measure.diff(dim=1)], dim=1)
            g_x = torch.zeros_like(steps).scatter(1, order, grad * gain)
        if ctx.needs_input_grad[1]:
            g_capacity = torch.zeros_like(capacity)
            g_capacity[subsets] += grad * steps
        return g_x, g_capacity


class ChoquetPool(nn.Module):
    """Aggregates ``n`` criteria, starting from the arithmetic mean."""

    def __init__(self, n: int, names: Optional[Sequence[str]] = None):
        super().__init__()
        size = torch.tensor([bin(s).count("1") for s in range(2 ** n)])
        self.capacity = nn.Parameter(size / n)
        self.names = list(names) if names is not None else [f"c{i}" for i in range(n)]

    def forward(self, criteria: dict) -> Tensor:
        x = torch.stack([criteria[name] for name in self.names], dim=-1)
        return ChoquetIntegral.apply(x, self.capacity)
