"""Estimators used by the representation-analysis and survival notebooks."""
import numpy as np
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class SingularValueThreshold(Function):
    """Proximal operator of the nuclear norm.

    For a real matrix A = U diag(s) V^T the operator returns
    U diag(max(s - tau, 0)) V^T, the minimiser of
    1/2 ||X - A||_F^2 + tau ||X||_*.

    ``matrix`` has shape (..., m, n), with m and n in any order, and may be rank
    deficient or have repeated singular values. ``tau`` is a tensor with no
    dimensions, greater than zero, shared by the whole batch. The result has the
    shape of ``matrix`` and is differentiable with respect to both arguments
    (away from singular values that equal tau, where the operator has a kink).

    The derivative is written with divided differences of the threshold
    function over pairs of singular values instead of derivatives of the
    singular vectors, so that it stays finite when singular values coincide.
    """

    @staticmethod
    def forward(ctx, matrix, tau):
        u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
        shrunk = (s - tau).clamp_min(0)
        ctx.save_for_backward(u, s, vh, tau)
        return (u * shrunk.unsqueeze(-2)) @ vh

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        u, s, vh, tau = ctx.saved_tensors
        active = s > tau
        shrunk = (s - tau).clamp_min(0)
        core = u.mT @ grad @ vh.mT
        g_tau = -(core.diagonal(dim1=-2, dim2=-1) * active).sum()
        if not ctx.needs_input_grad[0]:
            return None, g_tau

        si, sj = s.unsqueeze(-1), s.unsqueeze(-2)
        fi, fj = shrunk.unsqueeze(-1), shrunk.unsqueeze(-2)
        ai, aj = active.unsqueeze(-1), active.unsqueeze(-2)
        # both kept: 1, both dropped: 0, one of each: slope of the chord
        mixed = ai ^ aj
        gap = torch.where(mixed, si - sj, torch.ones_like(si - sj))
        minus = torch.where(mixed, (fi - fj) / gap, (ai & aj).to(s.dtype))
        total = torch.where(ai | aj, si + sj, torch.ones_like(si + sj))
        plus = (fi + fj) / total
        even, odd = (core + core.mT) / 2, (core - core.mT) / 2
        out = u @ (minus * even + plus * odd) @ vh

        ratio = torch.where(active, shrunk / torch.where(active, s, torch.ones_like(s)), torch.zeros_like(s))
        right = grad @ vh.mT
        out = out + ((right - u @ core) * ratio.unsqueeze(-2)) @ vh
        left = u.mT @ grad
        out = out + (u * ratio.unsqueeze(-2)) @ (left - core @ vh)
        return out, g_tau


def soft_impute(observed, mask, tau, steps=20):
    """Low-rank completion of ``observed`` where ``mask`` is False."""
    filled = observed * mask
    for _ in range(steps):
        filled = torch.where(mask, observed, SingularValueThreshold.apply(filled, tau))
    return filled


def _centre(x):
    return x - x.mean(0, keepdim=True)


class LinearCKA(Function):

    @staticmethod
    def forward(ctx, x, y):
        xc, yc = _centre(x), _centre(y)
        kx, ky, kxy = xc.T @ xc, yc.T @ yc, xc.T @ yc
        nx, ny = torch.linalg.matrix_norm(kx), torch.linalg.matrix_norm(ky)
        value = kxy.square().sum() / (nx * ny)
        ctx.save_for_backward(xc, yc, kx, ky, kxy, nx, ny, value)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        xc, yc, kx, ky, kxy, nx, ny, value = ctx.saved_tensors
        gx = gy = None
        if ctx.needs_input_grad[0]:
            gx = 2 * grad * (yc @ kxy.T / (nx * ny) - value * (xc @ kx) / nx ** 2)
        if ctx.needs_input_grad[1]:
            gy = 2 * grad * (xc @ kxy / (nx * ny) - value * (yc @ ky) / ny ** 2)
        return gx, gy


def cka_table(layers_a: dict, layers_b: dict):
    return {(a, b): LinearCKA.apply(x.flatten(1), y.flatten(1))
            for a, x in layers_a.items() for b, y in layers_b.items()}


class PiecewiseLinearCDF(Function):
    """Piecewise-linear coupling transform (Mueller et al. 2019).

    x in [0, 1], any shape; logits (..., K), leading dims broadcast to x.
    Returns y = CDF(x) and log dy/dx.
    """

    @staticmethod
    def forward(ctx, x, logits):
        bins = logits.shape[-1]
        prob = logits.softmax(-1).expand(*x.shape, bins)
        index = (x * bins).long().clamp(0, bins - 1).unsqueeze(-1)
        frac = x * bins - index.squeeze(-1)
        here = prob.gather(-1, index).squeeze(-1)
        before = prob.cumsum(-1).gather(-1, index).squeeze(-1) - here
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(prob, index, frac, here)
        ctx.logits_shape = logits.shape
        return before + frac * here, here.log() + np.log(bins)

    @staticmethod
    @once_differentiable
    def backward(ctx, g_y, g_logdet):
        prob, index, frac, here = ctx.saved_tensors
        if g_y is None and g_logdet is None:
            return None, None
        bins = prob.shape[-1]
        g_x = None
        g_logits = torch.zeros_like(prob)
        if g_y is not None:
            g_x = g_y * bins * here
            slots = torch.arange(bins, device=prob.device)
            g_prob = (slots < index).to(prob.dtype).scatter(-1, index, frac.unsqueeze(-1)) * g_y.unsqueeze(-1)
            g_logits = g_logits + prob * (g_prob - (g_prob * prob).sum(-1, keepdim=True))
        if g_logdet is not None:
            g_logits = g_logits - prob * g_logdet.unsqueeze(-1)
            g_logits = g_logits.scatter_add(-1, index, g_logdet.unsqueeze(-1))
        return g_x, g_logits.sum_to_size(ctx.logits_shape)


def make_kaplan_meier(times, events, dtype=torch.float64):
    """Weighted Kaplan-Meier curve of a fixed cohort.

    times (n,), events (n,) bool, False for a censored subject. Returns
    ``(grid, curve)``: the distinct event times and a function from positive
    weights (..., n) to the survival just after each of them.
    """
    times = np.asarray(times, dtype=float)
    events = np.asarray(events, dtype=bool)
    grid = np.unique(times[events])
    at_risk = torch.as_tensor(times[None, :] >= grid[:, None], dtype=dtype)
    dying = torch.as_tensor((times[None, :] == grid[:, None]) & events[None, :], dtype=dtype)

    class Curve(Function):

        @staticmethod
        def forward(ctx, weight):
            n = weight @ at_risk.T
            keep = 1 - (weight @ dying.T) / n
            survival = keep.cumprod(-1)
            ctx.save_for_backward(n, keep, survival)
            return survival

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            n, keep, survival = ctx.saved_tensors
            earlier = torch.cat([torch.ones_like(survival[..., :1]), survival[..., :-1]], -1)
            carry = torch.zeros_like(grad[..., 0]) if len(grid) else None
            g_keep = torch.empty_like(keep)
            for j in reversed(range(len(grid))):
                carry = grad[..., j] + (carry * keep[..., j + 1] if j + 1 < len(grid) else 0)
                g_keep[..., j] = earlier[..., j] * carry
            rate = g_keep / n
            return (rate * (1 - keep)) @ at_risk - rate @ dying

    return grid, Curve.apply


def median_survival(times, events, weight):
    grid, curve = make_kaplan_meier(times, events, weight.dtype)
    s = curve(weight)
    below = (s <= 0.5).nonzero()
    return float(grid[below[0, 0]]) if len(below) else float("inf")
