"""
Differentiable building blocks for spatial and population ecology.

The routines of this module are used inside larger hierarchical models (PyTorch, fitted by
stochastic optimisation), where the plain autograd graph of e.g. a pairwise dissimilarity keeps
several ``(n, m, taxa)`` temporaries alive.  Each operation therefore has a hand-written reverse
rule and a small functional front end.

Notes
-----
All tensors are real floating point unless said otherwise.  Leading batch dimensions are written
``...`` in the shape descriptions.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

__all__ = [
    "moran_index",
    "bray_curtis",
    "ricker_recruits",
    "hazard_rate_detection",
    "StockRecruitment",
]


class MoranIndex(torch.autograd.Function):
    r"""Moran's I of one or several attribute maps.

    .. math::

        I = \frac{n}{S_0} \frac{\sum_{ij} w_{ij} z_i z_j}{\sum_i z_i^2},
        \qquad z = x - \bar x, \quad S_0 = \sum_{ij} w_{ij}

    Parameters
    ----------
    values : Tensor, shape (..., n)
        Attribute at each of the ``n`` sites.
    weights : Tensor, shape (n, n)
        Spatial weights, shared by all maps.  Binary contiguity, inverse distance, k nearest
        neighbours or row-standardised weights are all fine; the diagonal is normally zero.

    Returns
    -------
    Tensor, shape (...)
        The index, in roughly [-1, 1].
    """

    @staticmethod
    def forward(values, weights):
        n = values.shape[-1]
        z = values - values.mean(-1, keepdim=True)
        lag = z @ weights.transpose(-1, -2)
        return n / weights.sum() * (z * lag).sum(-1) / z.square().sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        values, weights = inputs
        ctx.save_for_backward(values, weights)

    @staticmethod
    def backward(ctx, grad_index):
        values, weights = ctx.saved_tensors
        n = values.shape[-1]
        z = values - values.mean(-1, keepdim=True)
        s0 = weights.sum()
        lag = z @ weights.transpose(-1, -2)
        energy = z.square().sum(-1)
        index = n / s0 * (z * lag).sum(-1) / energy

        grad_values = grad_weights = None
        g = (grad_index / energy).unsqueeze(-1)
        if ctx.needs_input_grad[0]:
            dz = 2.0 * g * (n / s0 * lag - index.unsqueeze(-1) * z)
            grad_values = dz - dz.mean(-1, keepdim=True)
        if ctx.needs_input_grad[1]:
            outer = (n / s0) * (g * z).reshape(-1, n).T @ z.reshape(-1, n)
            grad_weights = outer - (grad_index * index).sum() / s0
        return grad_values, grad_weights


def moran_index(values: Tensor, weights: Tensor) -> Tensor:
    """Functional form of :class:`MoranIndex`.

    Parameters
    ----------
    values : Tensor, shape (..., n)
    weights : Tensor, shape (n, n)

    Returns
    -------
    Tensor, shape (...)
    """
    if weights.shape != (values.shape[-1],) * 2:
        raise ValueError("weights must be (n, n) with n = values.shape[-1]")
    return MoranIndex.apply(values, weights)


class BrayCurtis(torch.autograd.Function):
    r"""Weighted Bray-Curtis dissimilarity between two sets of samples.

    .. math::

        d_{ij} = \frac{\sum_s w_s |x_{is} - y_{js}|}{\sum_s w_s (x_{is} + y_{js})}

    Parameters
    ----------
    x : Tensor, shape (n, taxa)
        Non-negative abundances.
    y : Tensor, shape (m, taxa)
        Non-negative abundances.
    taxon_weight : Tensor, shape (taxa,)
        Positive weights of the taxa.

    Returns
    -------
    Tensor, shape (n, m)
        Dissimilarities in [0, 1].  Two empty samples are at distance zero, and the pair sends
        no gradient.

    Notes
    -----
    Where an abundance is the same in both samples the absolute value has a kink; the zero
    subgradient is taken there, as :func:`torch.abs` does.
    """

    @staticmethod
    def forward(x, y, taxon_weight):
        gap = (x.unsqueeze(1) - y.unsqueeze(0)).abs() @ taxon_weight
        total = (x @ taxon_weight).unsqueeze(1) + (y @ taxon_weight).unsqueeze(0)
        return torch.where(total > 0, gap / torch.where(total > 0, total, 1.0), 0.0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad_d):
        x, y, w, d = ctx.saved_tensors
        total = (x @ w).unsqueeze(1) + (y @ w).unsqueeze(0)
        occupied = total > 0
        g = torch.where(occupied, grad_d / torch.where(occupied, total, 1.0), 0.0)
        gd = g * d

        # one row of samples at a time: never more than (m, taxa) in memory
        grad_x = torch.empty_like(x)
        grad_y = torch.zeros_like(y)
        grad_w = torch.zeros_like(w)
        for i in range(x.shape[0]):
            diff = x[i] - y
            signed = g[i].unsqueeze(-1) * diff.sign()
            grad_x[i] = w * (signed.sum(0) - gd[i].sum())
            grad_y -= w * (signed + gd[i].unsqueeze(-1))
            grad_w += (signed * diff).sum(0) - gd[i] @ (x[i] + y)
        return grad_x, grad_y, grad_w


def bray_curtis(x: Tensor, y: Optional[Tensor] = None, taxon_weight: Optional[Tensor] = None) -> Tensor:
    """Pairwise Bray-Curtis dissimilarity.

    Parameters
    ----------
    x : Tensor, shape (n, taxa)
    y : Tensor, shape (m, taxa), optional
        Second set of samples; by default `x` itself, which gives a square table.
    taxon_weight : Tensor, shape (taxa,), optional
        Default: all ones.

    Returns
    -------
    Tensor, shape (n, m)
    """
    if y is None:
        y = x
    if taxon_weight is None:
        taxon_weight = x.new_ones(x.shape[-1])
    return BrayCurtis.apply(x, y, taxon_weight)


class RickerRecruits(torch.autograd.Function):
    r"""Ricker stock-recruitment with parameters looked up per stock.

    .. math::

        R_k = \alpha_{s(k)} S_k \exp(-\beta_{s(k)} S_k)

    Parameters
    ----------
    spawners : Tensor, shape (obs,)
        Spawning biomass of each brood year, positive.
    productivity : Tensor, shape (stocks,)
        :math:`\alpha`, positive.
    capacity_rate : Tensor, shape (stocks,)
        :math:`\beta`, positive.
    stock_id : LongTensor, shape (obs,)
        Row of the parameter tables for each brood year.  The years of one stock need not be
        contiguous and stocks may be missing.
    log_scale : bool
        Return :math:`\log R` (for lognormal errors) in place of :math:`R`.

    Returns
    -------
    Tensor, shape (obs,)
    """

    @staticmethod
    def forward(ctx, spawners, productivity, capacity_rate, stock_id, log_scale=False):
        a = productivity[stock_id]
        b = capacity_rate[stock_id]
        log_r = a.log() + spawners.log() - b * spawners
        ctx.save_for_backward(spawners, productivity, capacity_rate, stock_id)
        ctx.log_scale = log_scale
        return log_r if log_scale else log_r.exp()

    @staticmethod
    def backward(ctx, grad):
        spawners, productivity, capacity_rate, stock_id = ctx.saved_tensors
        a = productivity[stock_id]
        b = capacity_rate[stock_id]
        if not ctx.log_scale:
            grad = grad * a * spawners * torch.exp(-b * spawners)
        grad_spawners = grad * (1.0 / spawners - b)
        grad_a = torch.zeros_like(productivity)
        grad_a.index_add_(0, stock_id, grad / a)
        grad_b = torch.zeros_like(capacity_rate)
        grad_b[stock_id] -= grad * spawners
        return grad_spawners, grad_a, grad_b, None, None


def ricker_recruits(spawners, productivity, capacity_rate, stock_id, log_scale=False):
    """Expected recruits of every brood year; see :class:`RickerRecruits`."""
    return RickerRecruits.apply(spawners, productivity, capacity_rate, stock_id, log_scale)


class StockRecruitment(nn.Module):
    """Table of Ricker parameters for a set of stocks.

    Parameters
    ----------
    n_stocks : int
    productivity : float
        Initial recruits per spawner.
    capacity : float
        Initial spawning biomass with the most recruits.
    """

    def __init__(self, n_stocks: int, productivity: float = 3.0, capacity: float = 1.0):
        super().__init__()
        self.log_alpha = nn.Parameter(torch.full((n_stocks,), productivity).log())
        self.log_beta = nn.Parameter(torch.full((n_stocks,), 1.0 / capacity).log())

    def forward(self, spawners: Tensor, stock_id: Tensor) -> Tensor:
        return ricker_recruits(
            spawners, self.log_alpha.exp(), self.log_beta.exp(), stock_id, log_scale=True
        )


class HazardRateDetection(torch.autograd.Function):
    r"""Hazard-rate detection function of distance sampling.

    .. math::

        g(d) = 1 - \exp\bigl(-(d / \sigma)^{-b}\bigr)

    Parameters
    ----------
    distance : Tensor
        Perpendicular distances, non-negative.  At zero distance detection is certain.
    sigma : Tensor
        Scale, positive; broadcasts against `distance` (per-observer or per-species scales).
    shape : Tensor
        Shape :math:`b \ge 1`; broadcasts likewise.
    truncation : float or None
        Strip half-width.  Objects strictly farther away are never recorded: ``g = 0``.

    Returns
    -------
    Tensor
        Detection probabilities, of the broadcast shape.
    """

    @staticmethod
    def forward(distance, sigma, shape, truncation=None):
        hazard = (distance / sigma).pow(-shape)
        g = -torch.expm1(-hazard)
        if truncation is not None:
            g = g * (distance <= truncation)
        return g

    @staticmethod
    def setup_context(ctx, inputs, output):
        distance, sigma, shape, truncation = inputs
        ctx.save_for_backward(distance, sigma, shape)
        ctx.truncation = truncation

    @staticmethod
    def backward(ctx, grad_g):
        distance, sigma, shape = ctx.saved_tensors
        inside = distance > 0
        if ctx.truncation is not None:
            inside = inside & (distance <= ctx.truncation)
        safe = torch.where(distance > 0, distance, 1.0)
        log_ratio = safe.log() - sigma.log()
        log_hazard = -shape * log_ratio
        # hazard * exp(-hazard), taken in logs so that small distances do not give inf * 0
        slope = torch.exp(log_hazard - log_hazard.exp())
        core = torch.where(inside, grad_g * slope, 0.0)
        grad_distance = (-core * shape / safe).sum_to_size(distance.shape)
        grad_sigma = (core * shape / sigma).sum_to_size(sigma.shape)
        grad_shape = (-core * log_ratio).sum_to_size(shape.shape)
        return grad_distance, grad_sigma, grad_shape, None


def hazard_rate_detection(
    distance: Tensor, sigma: Tensor, shape: Tensor, truncation: Optional[float] = None
) -> Tensor:
    """Detection probability by distance; see :class:`HazardRateDetection`.

    Examples
    --------
    >>> d = torch.tensor([0.0, 10.0, 40.0])
    >>> hazard_rate_detection(d, torch.tensor(15.0), torch.tensor(2.0), truncation=60.0)
    tensor([1.0000, 0.8946, 0.1312])
    """
    return HazardRateDetection.apply(distance, sigma, shape, truncation)
