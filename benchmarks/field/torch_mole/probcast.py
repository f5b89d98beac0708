"""Probabilistic load forecasting: scores, densities, coherent aggregation."""
import math

import torch
from torch import nn
from torch.autograd.function import once_differentiable


def make_winkler(reduction="mean"):
    """Interval (Winkler) score for sampled forecasters.

    lower, upper: (B, S, H) bounds from each of the S ensemble members
    y:            (B, H)    realised load, shared by the members
    alpha:        (H,)      nominal miss rate by horizon (not trained)
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(reduction)

    class WinklerScore(torch.autograd.Function):
        @staticmethod
        def forward(ctx, lower, upper, y, alpha):
            t = y.unsqueeze(1)
            k = 2.0 / alpha
            score = (upper - lower) + k * (lower - t).relu() + k * (t - upper).relu()
            ctx.save_for_backward(lower, upper, y, k)
            if reduction == "mean":
                return score.mean()
            return score.sum() if reduction == "sum" else score

        @staticmethod
        def backward(ctx, g):
            lower, upper, y, k = ctx.saved_tensors
            t = y.unsqueeze(1)
            if reduction == "mean":
                g = g / lower.numel()
            under = (t < lower).to(k.dtype) * k
            over = (t > upper).to(k.dtype) * k
            g_lower = g * (under - 1.0)
            g_upper = g * (1.0 - over)
            g_y = (g * (over - under)).mean(dim=1)
            return g_lower, g_upper, g_y, None

    return WinklerScore.apply


class KernelLogDensity(torch.autograd.Function):
    # x (Q, D)  centres (N, D)  h (D,) bandwidths  logw (N,) unnormalised log weights
    # kernel: "gauss" or "student" (5 degrees of freedom, product over D)
    NU = 5.0

    @staticmethod
    def forward(x, centres, h, logw, kernel):
        u = (x[:, None, :] - centres[None]) / h
        if kernel == "gauss":
            logk = -0.5 * u.square() - 0.5 * math.log(2 * math.pi)
        else:
            nu = KernelLogDensity.NU
            const = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
            logk = const - 0.5 * (nu + 1) * torch.log1p(u.square() / nu)
        joint = logk.sum(-1) + torch.log_softmax(logw, 0)
        resp = torch.softmax(joint, 1)
        return torch.logsumexp(joint, 1) - h.log().sum(), resp

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, centres, h, logw, kernel = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, centres, h, logw, output[1])
        ctx.kernel = kernel

    @staticmethod
    @once_differentiable
    def backward(ctx, g, _):
        x, centres, h, logw, resp = ctx.saved_tensors
        u = (x[:, None, :] - centres[None]) / h
        if ctx.kernel == "gauss":
            pull = -u
        else:
            nu = KernelLogDensity.NU
            pull = -(nu + 1) * u / (nu + u.square())
        r = g[:, None] * resp
        gu = r[..., None] * pull
        gx = gu.sum(1) / h
        gc = -gu.sum(0) / h
        gh = -(gu * u).sum((0, 1)) / h - g.sum() / h
        gw = r.sum(0) - g.sum() * torch.softmax(logw, 0)
        return gx, gc, gh, gw, None


def summing_matrix(groups, n_groups, dtype=torch.float64):
    """Rows: total, group totals, bottom series."""
    n = len(groups)
    s = torch.zeros(1 + n_groups + n, n, dtype=dtype)
    s[0] = 1.0
    for col, k in enumerate(groups):
        s[1 + k, col] = 1.0
    s[1 + n_groups:] = torch.eye(n, dtype=dtype)
    return s


class Reconcile(torch.autograd.Function):
    """WLS reconciliation: the coherent forecasts nearest to the base ones.

    base (B, M) base forecasts of all nodes, S (M, n) summing matrix,
    w (M,) positive precision of each node.  Returns (B, M).
    """

    @staticmethod
    def forward(ctx, base, S, w):
        sw = S.t() * w
        chol = torch.linalg.cholesky(sw @ S)
        bottom = torch.cholesky_solve(sw @ base.t(), chol)
        out = (S @ bottom).t()
        ctx.save_for_backward(base, S, w, chol, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        base, S, w, chol, out = ctx.saved_tensors
        g_base = g_w = None
        if ctx.needs_input_grad[0]:
            g_base = (S @ torch.cholesky_solve((S.t() * w) @ g.t(), chol)).t()
        if ctx.needs_input_grad[2]:
            back = (S @ torch.cholesky_solve(S.t() @ g.t(), chol)).t()
            g_w = ((base - out) * back).sum(0)
        return g_base, None, g_w


class CoherentHead(nn.Module):
    def __init__(self, width, groups, n_groups):
        super().__init__()
        s = summing_matrix(groups, n_groups, torch.get_default_dtype())
        self.register_buffer("S", s)
        self.lin = nn.Linear(width, s.shape[0])
        self.log_precision = nn.Parameter(torch.zeros(s.shape[0]))

    def forward(self, feats):
        return Reconcile.apply(self.lin(feats), self.S, self.log_precision.exp())


def bandwidth_rule(x):
    n, d = x.shape
    return x.std(0) * n ** (-1.0 / (d + 4))


def fit_density(sample, steps=200, lr=0.05, kernel="gauss"):
    h = bandwidth_rule(sample).log().requires_grad_()
    logw = torch.zeros(len(sample), dtype=sample.dtype, requires_grad=True)
    opt = torch.optim.Adam([h, logw], lr=lr)
    half = len(sample) // 2
    for _ in range(steps):
        opt.zero_grad()
        lp, _ = KernelLogDensity.apply(sample[half:], sample[:half], h.exp(), logw[:half], kernel)
        (-lp.mean()).backward()
        opt.step()
    return h.detach().exp(), logw.detach()
