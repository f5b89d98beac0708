"""Small solvers and indices: risk budgets, inequality, population growth."""
from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _budget_newton(cov: Tensor, budget: Tensor, steps: int = 200, tol: float = 1e-13) -> Tensor:
    """Minimise 0.5 y'Cy - sum b log y with damped Newton steps."""
    y = (budget / torch.diagonal(cov, dim1=-2, dim2=-1)).sqrt()
    scale = budget.amin(-1, keepdim=True).sqrt()
    for _ in range(steps):
        g = (cov @ y.unsqueeze(-1)).squeeze(-1) - budget / y
        hess = cov + torch.diag_embed(budget / y.square())
        step = torch.linalg.solve(hess, g.unsqueeze(-1)).squeeze(-1)
        lam = (step * g).sum(-1, keepdim=True).clamp_min(0).sqrt() / scale
        y = y - step * torch.where(lam > 0.25, 1.0 / (1.0 + lam), torch.ones_like(lam))
        if bool((lam < tol).all()):
            break
    return y


class RiskBudgetWeights(Function):
    """Long-only weights whose risk contributions are proportional to ``budget``.

    Solves ``C y = budget / y`` and returns ``w = y / sum(y)``.

    Parameters
    ----------
    cov : (..., n, n)
        Covariance, positive definite. Only its symmetric part is used.
    budget : (n,) or (..., n)
        Positive risk budgets; they need not sum to one.

    Returns
    -------
    w : (..., n)
    """

    @staticmethod
    def forward(ctx, cov: Tensor, budget: Tensor) -> Tensor:
        sym = 0.5 * (cov + cov.mT)
        b = budget.expand(cov.shape[:-1])
        y = _budget_newton(sym, b)
        ctx.save_for_backward(sym, b, y)
        ctx.budget_shape = budget.shape
        return y / y.sum(-1, keepdim=True)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        sym, b, y = ctx.saved_tensors
        total = y.sum(-1, keepdim=True)
        g_y = (grad - (grad * y).sum(-1, keepdim=True) / total) / total
        hess = sym + torch.diag_embed(b / y.square())
        u = torch.linalg.solve(hess, g_y.unsqueeze(-1)).squeeze(-1)
        outer = u.unsqueeze(-1) * y.unsqueeze(-2)
        return -0.5 * (outer + outer.mT), (u / y).sum_to_size(ctx.budget_shape)


class GiniFunction(Function):
    """Weighted Gini index over the last axis.

        G = sum_ij w_i w_j |x_i - x_j| / (2 W^2 m),   W = sum w,  m = sum w x / W

    Parameters
    ----------
    income : Tensor (..., N), positive
    weight : Tensor (..., N), positive survey weights

    Returns
    -------
    Tensor (...)
    """

    @staticmethod
    def forward(ctx, income, weight):
        gap = income.unsqueeze(-1) - income.unsqueeze(-2)
        spread = (gap.abs() * weight.unsqueeze(-2)).sum(-1)
        total = weight.sum(-1)
        mean = (weight * income).sum(-1) / total
        gini = (weight * spread).sum(-1) / (2 * total.square() * mean)
        ctx.save_for_backward(income, weight, spread, total, mean, gini)
        return gini

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        income, weight, spread, total, mean, gini = (
            ctx.saved_tensors[0], ctx.saved_tensors[1], ctx.saved_tensors[2],
            *(s.unsqueeze(-1) for s in ctx.saved_tensors[3:]),
        )
        norm = total.square() * mean
        g = grad.unsqueeze(-1)
        side = torch.sign(income.unsqueeze(-1) - income.unsqueeze(-2))
        balance = (side * weight.unsqueeze(-2)).sum(-1)
        g_income = weight * (balance / norm - gini / (mean * total))
        g_weight = spread / norm - 2 * gini / total
        return g * g_income, g * g_weight


def _cumulative_survival(survival: Tensor) -> Tensor:
    one = torch.ones_like(survival[..., :1])
    return torch.cat((one, survival), -1).cumprod(-1)


class LeslieGrowthRate(Function):
    """Asymptotic growth factor of an age structured (Leslie) population.

    The dominant eigenvalue of the matrix with ``fecundity`` in its first row and
    ``survival`` below the diagonal, found from the Euler-Lotka equation by Newton
    in log(lambda).

    Parameters
    ----------
    fecundity : (..., n), n >= 2, non-negative, positive for at least one class
        that is reached with positive survival.
    survival : (..., n - 1), non-negative. Zeros are allowed (nobody gets older).

    Leading axes broadcast.
    """

    @staticmethod
    def forward(ctx, fecundity: Tensor, survival: Tensor) -> Tensor:
        log_phi = torch.log(fecundity * _cumulative_survival(survival))
        age = torch.arange(1, fecundity.shape[-1] + 1, dtype=fecundity.dtype, device=fecundity.device)
        r = (log_phi / age).amax(-1, keepdim=True)
        for _ in range(100):
            terms = log_phi - r * age
            value = torch.logsumexp(terms, -1, keepdim=True)
            step = value / (torch.softmax(terms, -1) * age).sum(-1, keepdim=True)
            r = r + step
            if bool((step.abs() <= 1e-14 * (1 + r.abs())).all()):
                break
        lam = r.squeeze(-1).exp()
        ctx.save_for_backward(fecundity, survival, lam)
        return lam

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        fecundity, survival, lam = ctx.saved_tensors
        n = fecundity.shape[-1]
        f = fecundity.expand(*lam.shape, n)
        s = survival.expand(*lam.shape, n - 1)
        # stable age structure and reproductive values, both one for the youngest
        age = [torch.ones_like(lam)]
        for i in range(n - 1):
            age.append(s[..., i] * age[-1] / lam)
        value = [f[..., -1] / lam]
        for i in reversed(range(n - 1)):
            value.append((f[..., i] + s[..., i] * value[-1]) / lam)
        w, v = torch.stack(age, -1), torch.stack(value[::-1], -1)
        unit = (grad / (v * w).sum(-1)).unsqueeze(-1)
        g_f = unit * v[..., :1] * w
        g_s = unit * v[..., 1:] * w[..., :-1]
        return g_f.sum_to_size(fecundity.shape), g_s.sum_to_size(survival.shape)


def fairness_penalty(exposure: Tensor, weight: Tensor, target: float = 0.2) -> Tensor:
    """Hinge on the exposure inequality of a batch of rankings."""
    return torch.relu(GiniFunction.apply(exposure, weight) - target).mean()


class AllocationHead(torch.nn.Module):
    def __init__(self, features: int, assets: int):
        super().__init__()
        self.factor = torch.nn.Linear(features, assets * 3)
        self.budget = torch.nn.Parameter(torch.zeros(assets))
        self.assets = assets

    def forward(self, x: Tensor) -> Tensor:
        load = self.factor(x).unflatten(-1, (self.assets, 3))
        cov = load @ load.mT + 0.1 * torch.eye(self.assets, dtype=x.dtype)
        return RiskBudgetWeights.apply(cov, self.budget.softmax(-1))
