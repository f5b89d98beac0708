"""Rates, extremes and match ratings: likelihoods and curves with analytic adjoints.

The adjoints are written out by hand because the closed forms have removable singularities which autograd turns into
0/0, and because the rating table is large.
"""
import math

import torch
import torch.nn as nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _loading(x):
    """(1 - exp(-x)) / x and its derivative, smooth through x = 0."""
    small = x < 0.1
    xs = torch.where(small, x, torch.zeros_like(x))
    xl = torch.where(small, torch.ones_like(x), x)
    value = torch.zeros_like(x)
    slope = torch.zeros_like(x)
    for k in range(10, -1, -1):
        value = value * xs + (-1.0) ** k / math.factorial(k + 1)
    for k in range(10, 0, -1):
        slope = slope * xs + (-1.0) ** k * k / math.factorial(k + 1)
    e = torch.exp(-xl)
    value = torch.where(small, value, -torch.expm1(-xl) / xl)
    slope = torch.where(small, slope, (e * (1 + xl) - 1) / (xl * xl))
    return value, slope


class NelsonSiegelCurve(Function):
    """y(tau) = b0 + b1 L(tau/lam) + b2 (L(tau/lam) - exp(-tau/lam)), L(x) = (1 - exp(-x)) / x."""

    @staticmethod
    def forward(ctx, tau, beta, lam):
        x = tau / lam.unsqueeze(-1)
        level, _ = _loading(x)
        hump = level - torch.exp(-x)
        b0, b1, b2 = (b.unsqueeze(-1) for b in beta.unbind(-1))
        ctx.save_for_backward(tau, beta, lam)
        return b0 + b1 * level + b2 * hump

    @staticmethod
    def backward(ctx, gy):
        tau, beta, lam = ctx.saved_tensors
        scale = lam.unsqueeze(-1)
        x = tau / scale
        level, dlevel = _loading(x)
        e = torch.exp(-x)
        _, b1, b2 = (b.unsqueeze(-1) for b in beta.unbind(-1))
        gbeta = torch.stack((gy.sum(-1), (gy * level).sum(-1), (gy * (level - e)).sum(-1)), dim=-1)
        gx = gy * (b1 * dlevel + b2 * (dlevel + e))
        gtau = (gx / scale).sum_to_size(tau.shape)
        glam = (-gx * x / scale).sum(-1).sum_to_size(lam.shape)
        return gtau, gbeta.sum_to_size(beta.shape), glam


class YieldCurve(nn.Module):
    """One Nelson-Siegel curve per day with a shared or a daily decay.

    Args:
        days: number of curves.
        shared_decay: use a single lambda.
    """

    def __init__(self, days, shared_decay=True):
        super().__init__()
        self.beta = nn.Parameter(torch.tensor([0.03, -0.01, 0.0]).repeat(days, 1))
        self.raw_lam = nn.Parameter(torch.zeros(()) if shared_decay else torch.zeros(days))

    def forward(self, tau):
        """Yields (days, K) at maturities ``tau`` >= 0 in years, (K,) or (days, K)."""
        return NelsonSiegelCurve.apply(tau, self.beta, nn.functional.softplus(self.raw_lam) + 0.1)


def _log1p_ratio(w):
    """log(1 + w) / w and its derivative for w > -1."""
    small = w.abs() < 0.05
    ws = torch.where(small, w, torch.zeros_like(w))
    wl = torch.where(small, torch.ones_like(w), w)
    h = torch.zeros_like(w)
    dh = torch.zeros_like(w)
    for k in range(14, -1, -1):
        h = h * ws + (-1.0) ** k / (k + 1)
    for k in range(14, 0, -1):
        dh = dh * ws + (-1.0) ** k * k / (k + 1)
    big = torch.log1p(wl) / wl
    return torch.where(small, h, big), torch.where(small, dh, (1.0 / (1.0 + wl) - big) / wl)


class GEVLogDensity(Function):

    @staticmethod
    def forward(ctx, x, loc, scale, shape):
        z = (x - loc) / scale
        w = shape * z
        inside = w > -1
        h, _ = _log1p_ratio(torch.where(inside, w, torch.zeros_like(w)))
        u = z * h
        logp = -torch.log(scale) - (1 + shape) * u - torch.exp(-u)
        ctx.save_for_backward(x, loc, scale, shape)
        return torch.where(inside, logp, torch.full_like(logp, -math.inf))

    @staticmethod
    def backward(ctx, g):
        x, loc, scale, shape = ctx.saved_tensors
        z = (x - loc) / scale
        w = shape * z
        inside = w > -1
        w = torch.where(inside, w, torch.zeros_like(w))
        g = torch.where(inside, g, torch.zeros_like(g))
        z = torch.where(inside, z, torch.zeros_like(z))
        h, dh = _log1p_ratio(w)
        u = z * h
        du = torch.exp(-u) - (1 + shape)
        dz = g * du / (1 + w)
        dx = dz / scale
        dscale = -g / scale - dz * z / scale
        dshape = g * (du * z * z * dh - u)
        return (
            dx.sum_to_size(x.shape),
            (-dx).sum_to_size(loc.shape),
            dscale.sum_to_size(scale.shape),
            dshape.sum_to_size(shape.shape),
        )


def gev_log_density(x, loc, scale, shape):
    """Log density of the generalized extreme value law.

    All arguments are tensors and broadcast. ``shape`` is positive for Frechet and negative for reversed Weibull
    tails; at 0, and around it, the Gumbel limit is approached smoothly (also in the gradient). Off the support the
    result is ``-inf`` with zero gradient.
    """
    return GEVLogDensity.apply(x, loc, scale, shape)


class DavidsonTies(Function):
    """NLL of home win / draw / away win in the Davidson extension of Bradley-Terry."""

    @staticmethod
    def forward(ctx, ratings, home, log_nu, i, j, outcome, weight, reduction):
        a = ratings[i] + home
        b = ratings[j]
        logits = torch.stack((a, log_nu + 0.5 * (a + b), b), dim=-1)
        logp = torch.log_softmax(logits, dim=-1)
        nll = -logp.gather(-1, outcome.unsqueeze(-1)).squeeze(-1)
        if weight is not None:
            nll = nll * weight
        ctx.save_for_backward(ratings, i, j, outcome, weight, logp)
        ctx.reduction = reduction
        if reduction == "none":
            return nll
        total = nll.sum()
        if reduction == "mean":
            total = total / (len(outcome) if weight is None else weight.sum())
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        ratings, i, j, outcome, weight, logp = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad = grad / len(outcome)
        d_logits = logp.exp()
        d_logits.scatter_add_(-1, outcome.unsqueeze(-1), -torch.ones_like(d_logits[:, :1]))
        per_match = grad.expand(outcome.shape)
        if weight is not None:
            per_match = per_match * weight
        d_logits = d_logits * per_match.unsqueeze(-1)
        d_a = d_logits[:, 0] + 0.5 * d_logits[:, 1]
        d_b = d_logits[:, 2] + 0.5 * d_logits[:, 1]
        d_ratings = torch.zeros_like(ratings).index_add_(0, i, d_a).index_add_(0, j, d_b)
        return d_ratings, d_a.sum(), d_logits[:, 1].sum(), None, None, None, None, None


def davidson_nll(ratings, home, log_nu, i, j, outcome, weight=None, reduction="mean"):
    """Loss of a match table.

    Args:
        ratings: (P,) log strengths.
        home: 0-d, home advantage added to the first player.
        log_nu: 0-d, log draw propensity.
        i, j: (N,) ids of the home and of the away player; players appear any number of times.
        outcome: (N,) 0 home win, 1 draw, 2 away win.
        weight: optional (N,) positive match weights, e.g. a time decay. Constants.
        reduction: "mean" (the weighted average, total weight in the denominator), "sum" or "none".
    """
    return DavidsonTies.apply(ratings, home, log_nu, i, j, outcome, weight, reduction)


def fit_ratings(n_players, i, j, outcome, half_life=None, age=None, steps=100):
    weight = None if half_life is None else torch.exp2(-age / half_life)
    ratings = torch.zeros(n_players, requires_grad=True)
    home = torch.zeros((), requires_grad=True)
    log_nu = torch.zeros((), requires_grad=True)
    opt = torch.optim.LBFGS([ratings, home, log_nu], max_iter=steps)

    def closure():
        opt.zero_grad()
        loss = davidson_nll(ratings, home, log_nu, i, j, outcome, weight) + 1e-3 * ratings.square().sum()
        loss.backward()
        return loss

    opt.step(closure)
    return ratings.detach() - ratings.detach().mean()
