import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.autograd import Function

PROTON = 1.007276466
LN4 = math.log(4.0)


def _masked(x, mask):
    return x if mask is None else x * mask.to(x.dtype)


def _unit_sum(x):
    total = x.sum(-1, keepdim=True)
    return x / total, total


def _reweight(p):
    """Low-entropy spectra (S < 3) are flattened by the exponent 0.25 + 0.25 S."""
    s = torch.special.entr(p).sum(-1, keepdim=True)
    w = torch.where(s < 3.0, 0.25 + 0.25 * s, torch.ones_like(s))
    raised = torch.where(p > 0, p.clamp(min=1e-300 if p.dtype == torch.float64 else 1e-37) ** w, torch.zeros_like(p))
    out, total = _unit_sum(raised)
    return out, total, w


def _unit_sum_back(g, y, total):
    return (g - (g * y).sum(-1, keepdim=True)) / total


class SpectralEntropySimilarity(Function):
    """Spectral entropy similarity of aligned centroid spectra (Li et al., Nature Methods 2021).

    query, reference: (..., P) intensities on a common peak list, positive at the peaks that ``mask`` keeps.
    mask: (..., P) bool or None. weighted: apply the low-entropy reweighting. Returns (...) in [0, 1].
    """

    @staticmethod
    def forward(ctx, query, reference, mask=None, weighted=True):
        p, zp = _unit_sum(_masked(query, mask))
        q, zq = _unit_sum(_masked(reference, mask))
        if weighted:
            a, ta, wa = _reweight(p)
            b, tb, wb = _reweight(q)
        else:
            a, b = p, q
            ta = tb = wa = wb = torch.ones_like(zp)
        ctx.save_for_backward(p, q, a, b, zp, zq, ta, tb, wa, wb, mask)
        ctx.weighted = weighted
        ent = torch.special.entr
        return 1.0 - (2.0 * ent(0.5 * (a + b)) - ent(a) - ent(b)).sum(-1) / LN4

    @staticmethod
    def backward(ctx, grad_out):
        p, q, a, b, zp, zq, ta, tb, wa, wb, mask = ctx.saved_tensors
        g = grad_out.unsqueeze(-1) / LN4
        log_mid = torch.log(0.5 * (a + b))
        grads = []
        for x, y, z, t, w in ((p, a, zp, ta, wa), (q, b, zq, tb, wb)):
            keep = y > 0
            gy = torch.where(keep, g * (log_mid - torch.log(y)), torch.zeros_like(y))
            if ctx.weighted:
                g_raised = _unit_sum_back(gy, y, t)
                gx = torch.where(keep, g_raised * w * (y * t) / x.clamp(min=1e-37), torch.zeros_like(y))
            else:
                gx = gy
            grads.append(_masked(_unit_sum_back(gx, x, z), mask))
        return grads[0], grads[1], None, None


class ReporterPurity(Function):
    """Isobaric-tag impurity correction: solves counts = true @ purity, with rows of purity summing to one."""

    @staticmethod
    def forward(ctx, counts, purity, normalize_rows=True, clip=True):
        rows = purity.sum(1, keepdim=True)
        m = purity / rows if normalize_rows else purity
        true = torch.linalg.solve(m.T, counts.reshape(-1, counts.shape[-1]).T).T
        ctx.save_for_backward(m, rows, true)
        ctx.normalize_rows, ctx.clip = normalize_rows, clip
        out = true.clamp(min=0.0) if clip else true
        return out.reshape(counts.shape).clone()

    @staticmethod
    def backward(ctx, grad_out):
        m, rows, true = ctx.saved_tensors
        g = grad_out.reshape(true.shape)
        if ctx.clip:
            g = g * (true > 0).to(g.dtype)
        v = torch.linalg.solve(m, g.T).T
        g_m = -(true.T @ v)
        if ctx.normalize_rows:
            g_m = (g_m - (g_m * m).sum(1, keepdim=True)) / rows
        return v.reshape(grad_out.shape), g_m, None, None


@dataclass(frozen=True)
class Extraction:
    width: float = 0.4   # Da
    polarity: int = 1


class ExtractedIonTrace(Function):

    @staticmethod
    def forward(ctx, neutral_mass, mz, intensity, charge, n_peaks, cfg):
        z = charge.to(mz.dtype)
        target = neutral_mass / z + cfg.polarity * PROTON
        valid = torch.arange(mz.shape[-1], device=mz.device) < n_peaks[:, None]
        u = (mz[:, None, :] - target[None, :, None]) / cfg.width
        kernel = torch.exp(-0.5 * u * u) * valid[:, None, :]
        ctx.save_for_backward(u, kernel, intensity)
        ctx.width = cfg.width
        return torch.einsum("skp,sp->sk", kernel, intensity)

    @staticmethod
    def backward(ctx, g):
        u, kernel, intensity = ctx.saved_tensors
        gi = torch.einsum("sk,skp->sp", g, kernel)
        slope = g[:, :, None] * intensity[:, None, :] * kernel * u / ctx.width
        return slope.sum((0, 2)), -slope.sum(1), gi, None, None, None


class PurityLayer(nn.Module):
    def __init__(self, channels, leak=0.03):
        super().__init__()
        eye = torch.eye(channels)
        side = torch.diag(torch.full((channels - 1,), leak), 1) + torch.diag(torch.full((channels - 1,), leak / 2), -1)
        self.purity = nn.Parameter(eye + side)

    def forward(self, counts):
        return ReporterPurity.apply(counts, self.purity)
