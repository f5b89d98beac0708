"""Growth-chart arithmetic for the paediatric endocrine clinic.

Everything here is differentiable so that chart tables can be re-estimated
from our own visits and individual growth curves fitted by gradient descent.
"""

from __future__ import annotations

import math

import torch
from torch import nn

# exp(u) - 1 over u, and its derivative, need a series close to the origin
_SERIES_RADIUS = 2e-2


def _phi(u):
    """(exp(u) - 1) / u, with the limit 1 at zero."""
    small = u.abs() < _SERIES_RADIUS
    safe = torch.where(small, torch.ones_like(u), u)
    series = 1 + u * (1 / 2 + u * (1 / 6 + u * (1 / 24 + u * (1 / 120 + u * (1 / 720 + u / 5040)))))
    return torch.where(small, series, torch.expm1(safe) / safe)


def _phi_prime(u):
    """Derivative of ``_phi``."""
    small = u.abs() < _SERIES_RADIUS
    safe = torch.where(small, torch.ones_like(u), u)
    series = 1 / 2 + u * (
        1 / 3 + u * (1 / 8 + u * (1 / 30 + u * (1 / 144 + u * (1 / 840 + u / 5760))))
    )
    return torch.where(small, series, (safe * torch.exp(safe) - torch.expm1(safe)) / safe**2)


class LMSZScore(torch.autograd.Function):
    """Cole-Green z-scores read off an LMS chart.

    Parameters
    ----------
    y : Tensor, shape (V,)
        Positive measurements (kg or cm), one per visit.
    chart : Tensor, shape (A, 3)
        Columns L (any real, zero included), M > 0 and S > 0.
    month : LongTensor, shape (V,)
        Row of the chart for each visit.

    Returns
    -------
    Tensor, shape (V,)
        ``((y / M) ** L - 1) / (L * S)``, which is ``log(y / M) / S`` at L = 0.
    """

    @staticmethod
    def forward(ctx, y, chart, month):
        ell, m, s = chart[month].unbind(-1)
        r = torch.log(y / m)
        z = r * _phi(ell * r) / s
        ctx.save_for_backward(y, chart, month, r, z)
        return z

    @staticmethod
    def backward(ctx, gz):
        y, chart, month, r, z = ctx.saved_tensors
        ell, m, s = chart[month].unbind(-1)
        dr = gz * torch.exp(ell * r) / s
        gy = dr / y
        rows = torch.stack((gz * r * r * _phi_prime(ell * r) / s, -dr / m, -gz * z / s), dim=-1)
        gchart = torch.zeros_like(chart).index_add_(0, month, rows)
        return gy, gchart, None


class VisitVelocity(torch.autograd.Function):
    """Growth velocity between successive visits of padded records.

    Parameters
    ----------
    height : Tensor, shape (B, T)
        Standing heights in cm; entries past the last visit are padding.
    age : Tensor, shape (B, T)
        Decimal ages in years, increasing along the record. Padding may hold
        anything that keeps neighbouring entries distinct.
    n_visits : LongTensor, shape (B,)
        Number of real visits, between 1 and T.

    Returns
    -------
    Tensor, shape (B, T - 1)
        cm per year; zero where the interval does not join two real visits.
    """

    @staticmethod
    def forward(ctx, height, age, n_visits):
        steps = torch.arange(height.shape[1] - 1, device=height.device)
        real = (steps + 1)[None, :] < n_visits[:, None]
        gap = age.diff(dim=1)
        velocity = height.diff(dim=1) / gap
        ctx.save_for_backward(velocity, gap, n_visits)
        return torch.where(real, velocity, torch.zeros_like(velocity))

    @staticmethod
    def backward(ctx, g):
        velocity, gap, n_visits = ctx.saved_tensors
        steps = torch.arange(g.shape[1], device=g.device)
        g = g * (steps[None, :] < n_visits[:, None]).to(g.dtype)
        dh = g / gap
        da = -g * velocity / gap
        pad = nn.functional.pad
        gh = pad(dh, (1, 0)) - pad(dh, (0, 1))
        ga = pad(da, (1, 0)) - pad(da, (0, 1))
        return gh, ga, None


class PreeceBaines(torch.autograd.Function):
    """Preece-Baines model 1 of statural growth.

    Parameters
    ----------
    age : Tensor, shape (B, T)
    theta : Tensor, shape (5,) or (B, 5)
        Adult height, height at take-off, prepubertal rate, pubertal rate and
        age at peak velocity; one row for the cohort, or one per child.

    Returns
    -------
    Tensor, shape (B, T)
    """

    @staticmethod
    def forward(ctx, age, theta):
        h1, hq, s0, s1, peak = theta.unsqueeze(-2).unbind(-1)
        t = age - peak[..., 0, None]
        a, b = torch.exp(s0 * t), torch.exp(s1 * t)
        share = 2.0 / (a + b)
        ctx.save_for_backward(theta, t, a, b)
        return h1 - (h1 - hq) * share

    @staticmethod
    def backward(ctx, g):
        theta, t, a, b = ctx.saved_tensors
        h1, hq, s0, s1, _ = theta.unsqueeze(-2).unbind(-1)
        share = 2.0 / (a + b)
        # d height / d (a + b)
        slope = g * (h1 - hq) * share / (a + b)
        gt = slope * (s0 * a + s1 * b)
        per_child = torch.stack(
            (
                (g * (1 - share)).sum(-1),
                (g * share).sum(-1),
                (slope * t * a).sum(-1),
                (slope * t * b).sum(-1),
                -gt.sum(-1),
            ),
            dim=-1,
        )
        if theta.dim() == 1:
            per_child = per_child.sum(0)
        return gt, per_child


def z_scores(y, chart, month):
    return LMSZScore.apply(y, chart, month)


def centile(z):
    """Percentage of the reference population below ``z``."""
    return 50.0 * (1 + torch.erf(z / math.sqrt(2.0)))


class GrowthCurve(nn.Module):
    """Cohort curve fitted to heights and to velocities together."""

    def __init__(self, velocity_weight=0.3):
        super().__init__()
        self.theta = nn.Parameter(torch.tensor([174.6, 162.9, 0.1124, 1.2397, 13.9]))
        self.velocity_weight = velocity_weight

    def forward(self, age):
        return PreeceBaines.apply(age, self.theta)

    def loss(self, height, age, n_visits):
        real = torch.arange(age.shape[1]) < n_visits[:, None]
        fit = self(age)
        misfit = ((fit - height) ** 2)[real].mean()
        v_fit = VisitVelocity.apply(fit, age, n_visits)
        v_obs = VisitVelocity.apply(height, age, n_visits)
        return misfit + self.velocity_weight * ((v_fit - v_obs) ** 2).mean()
