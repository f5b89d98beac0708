"""Layers on the hyperboloid  <x, x>_L = -1/c,  time coordinate first."""

import math

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def flip_time(x):
    return torch.cat((-x[..., :1], x[..., 1:]), dim=-1)


def lorentz_inner(x, y, keepdim=False):
    return (flip_time(x) * y).sum(-1, keepdim=keepdim)


class LorentzCentroid(Function):
    """Weighted centroid of hyperboloid points: points (N, D+1), weights (B, N), curv scalar -> (B, D+1)."""

    @staticmethod
    def forward(ctx, points, weights, curv):
        s = weights @ points
        norm = (-lorentz_inner(s, s, keepdim=True)).clamp_min(1e-15).sqrt()
        mu = s / (curv.sqrt() * norm)
        ctx.save_for_backward(points, weights, curv, norm, mu)
        return mu

    @staticmethod
    def backward(ctx, g):
        points, weights, curv, norm, mu = ctx.saved_tensors
        radial = (g * mu).sum(-1, keepdim=True)
        gs = (g + radial * flip_time(mu)) / (curv.sqrt() * norm)
        g_points = weights.T @ gs
        g_weights = gs @ points.T
        g_curv = -0.5 * radial.sum() / curv
        return g_points, g_weights, g_curv


class LorentzDistance(Function):
    """Geodesic distances between all rows of two sets of points on the hyperboloid.

    Points are given by their space coordinates, the time coordinate is ``sqrt(1/c + |x|^2)``.

    Args:
        x:    (B, D)
        y:    (M, D)
        curv: scalar tensor, c > 0

    Returns:
        (B, M) distances ``acosh(1 + u) / sqrt(c)``. ``u`` is built from coordinate differences, so close
        points keep their digits. The distance has a cone tip at x == y; its gradient there is set to zero.
    """

    @staticmethod
    def forward(ctx, x, y, curv):
        xt = (1 / curv + x.square().sum(-1, keepdim=True)).sqrt()  # (B, 1)
        yt = (1 / curv + y.square().sum(-1, keepdim=True)).sqrt().T  # (1, M)
        diff = x[:, None, :] - y[None, :, :]
        dt = (diff * (x[:, None, :] + y[None, :, :])).sum(-1) / (xt + yt)  # xt - yt
        u = (0.5 * curv * (diff.square().sum(-1) - dt * dt)).clamp_min(0)
        root = torch.sqrt(u * (u + 2))
        dist = torch.log1p(u + root) / curv.sqrt()
        ctx.save_for_backward(x, y, curv, xt, yt, diff, dt, u, root, dist)
        return dist

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, y, curv, xt, yt, diff, dt, u, root, dist = ctx.saved_tensors
        apart = root > 0
        gu = torch.where(
            apart, g / torch.where(apart, root, torch.ones_like(root)), torch.zeros_like(g)
        )
        gu = gu / curv.sqrt()
        # du/dx = c (x - y - x (xt - yt) / xt), and mirrored for y
        gx = curv * ((gu[..., None] * diff).sum(1) - x * (gu * dt).sum(1, keepdim=True) / xt)
        gy = curv * (-(gu[..., None] * diff).sum(0) + y * ((gu * dt).sum(0, keepdim=True) / yt).T)
        du_dc = (u - dt * dt / (2 * xt * yt)) / curv
        gc = (gu * du_dc).sum() - 0.5 * (g * dist).sum() / curv
        return gx, gy, gc


_H = (1 / 3, 1 / 30, 1 / 840, 1 / 45360, 1 / 3991680)


def _sinhc(s):
    small = s < 1e-4
    safe = torch.where(small, torch.ones_like(s), s)
    return torch.where(small, 1 + s * s / 6, torch.sinh(safe) / safe)


def _sinhc_slope(s):
    small = s < 0.3
    s2 = torch.where(small, s * s, torch.zeros_like(s))
    series = torch.zeros_like(s)
    for a in reversed(_H):
        series = series * s2 + a
    safe = torch.where(small, torch.ones_like(s), s)
    return torch.where(small, series, (safe * torch.cosh(safe) - torch.sinh(safe)) / safe**3)


class ExpMapOrigin(Function):
    @staticmethod
    def forward(v, curv):
        s = curv.sqrt() * torch.linalg.vector_norm(v, dim=-1, keepdim=True)
        return _sinhc(s) * v, torch.cosh(s) / curv.sqrt()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g_space, g_time):
        v, curv = ctx.saved_tensors
        r2 = v.square().sum(-1, keepdim=True)
        root_c = curv.sqrt()
        s = root_c * r2.sqrt()
        f, h = _sinhc(s), _sinhc_slope(s)
        along = (g_space * v).sum(-1, keepdim=True)
        gv = f * g_space + (curv * h * along + root_c * f * g_time) * v
        gc = 0.5 * h * r2 * along + g_time * (
            0.5 * r2 * f / root_c - 0.5 * torch.cosh(s) / curv**1.5
        )
        return gv, gc.sum_to_size(curv.shape)


class LorentzAggregation(nn.Module):
    """Lifts node features, averages neighbours, returns space coordinates."""

    def __init__(self, init_curv: float = 1.0, learn_curv: bool = False):
        super().__init__()
        log_c = torch.tensor(math.log(init_curv))
        self.log_c = nn.Parameter(log_c) if learn_curv else log_c

    def forward(self, feats, adj):
        curv = self.log_c.exp().to(feats)
        space, time = ExpMapOrigin.apply(feats, curv)
        weights = adj / adj.sum(-1, keepdim=True).clamp_min(1e-12)
        return LorentzCentroid.apply(torch.cat((time, space), -1), weights, curv)[..., 1:]


def contrastive_logits(img, txt, curv, scale):
    return -scale * LorentzDistance.apply(img, txt, curv)
