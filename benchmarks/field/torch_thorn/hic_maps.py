"""Chromatin contact maps (Hi-C): distance decay, domain borders, coverage balancing."""

import math

import torch
from torch.autograd import Function

LN2 = math.log(2.0)


def _separation(n, device):
    i = torch.arange(n, device=device)
    return (i[:, None] - i[None, :]).abs()


class ObservedOverExpected(Function):
    """Divide each contact by the mean contact at its genomic separation.

    contacts: (batch, n, n), positive.  valid: (n,) bool, bins that map uniquely.  The mean at separation d
    runs over the pairs |i - j| = d of valid bins, and pairs with an invalid bin come out as zero.
    """

    @staticmethod
    def forward(ctx, contacts, valid):
        n = contacts.shape[-1]
        sep = _separation(n, contacts.device).reshape(-1)
        ok = (valid[:, None] & valid[None, :]).reshape(-1).to(contacts.dtype)
        flat = contacts.reshape(contacts.shape[0], -1) * ok
        count = torch.zeros(n, dtype=contacts.dtype).index_add_(0, sep, ok).clamp(min=1)
        total = torch.zeros(contacts.shape[0], n, dtype=contacts.dtype).index_add_(1, sep, flat)
        expected = (total / count)[:, sep]
        expected = torch.where(ok.bool(), expected, torch.ones_like(expected))
        ratio = flat / expected
        ctx.save_for_backward(ratio, expected, sep, ok, count)
        return ratio.view_as(contacts)

    @staticmethod
    def backward(ctx, g):
        ratio, expected, sep, ok, count = ctx.saved_tensors
        batch, n = g.shape[0], g.shape[-1]
        g = g.reshape(batch, -1) * ok
        pooled = torch.zeros(batch, n, dtype=g.dtype).index_add_(1, sep, g * ratio)
        grad = ok * (g - (pooled / count)[:, sep]) / expected
        return grad.view(batch, n, n), None


class InsulationProfile(Function):
    """log2 of the mean contact in the diamond of `window` bins up- and downstream of every bin."""

    @staticmethod
    def forward(ctx, contacts, window, chrom=None):
        n = contacts.shape[-1]
        diamond = torch.zeros(n, n, n, dtype=contacts.dtype)
        for k in range(n):
            lo, hi = max(0, k - window), min(n, k + window + 1)
            if k > 0 and k + 1 < n:
                diamond[k, lo:k, k + 1 : hi] = 1
        area = diamond.sum((1, 2))
        inner = area > 0
        mean = torch.einsum("kij,...ij->...k", diamond, contacts) / area.clamp(min=1)
        mean = torch.where(inner, mean, torch.ones_like(mean))
        score = mean.log2()
        if chrom is not None:
            # per chromosome: the profile relative to the mean over its inner bins
            groups = int(chrom.max()) + 1
            w = inner.to(score.dtype)
            num = torch.zeros(*score.shape[:-1], groups, dtype=score.dtype).index_add_(
                -1, chrom, score * w
            )
            den = torch.zeros(groups, dtype=score.dtype).index_add_(0, chrom, w).clamp(min=1)
            score = torch.where(inner, score - (num / den)[..., chrom], score)
        ctx.save_for_backward(diamond, area, mean, inner)
        return score

    @staticmethod
    def backward(ctx, g):
        diamond, area, mean, inner = ctx.saved_tensors
        coef = torch.where(inner, g / (mean * LN2 * area.clamp(min=1)), torch.zeros_like(g))
        return torch.einsum("kij,...k->...ij", diamond, coef), None, None


class CoverageBalance(Function):
    """One pass of coverage balancing,  out_ij = c_ij / (r_i s_j)  with relative row and column sums.

    Rectangular maps (baits, ends) are welcome; leading batch dimensions too.
    """

    @staticmethod
    def forward(ctx, c):
        rows, cols = c.sum(-1, keepdim=True), c.sum(-2, keepdim=True)
        r = rows / rows.mean(-2, keepdim=True)
        s = cols / cols.mean(-1, keepdim=True)
        out = c / (r * s)
        ctx.save_for_backward(out, r, s, rows, cols)
        return out

    @staticmethod
    def backward(ctx, g):
        out, r, s, rows, cols = ctx.saved_tensors
        go = g * out
        # d log r_i = d log rows_i - d log mean(rows), the same for the columns
        a = -go.sum(-1, keepdim=True)
        b = -go.sum(-2, keepdim=True)
        g_rows = a / rows - a.sum(-2, keepdim=True) / rows.sum(-2, keepdim=True)
        g_cols = b / cols - b.sum(-1, keepdim=True) / cols.sum(-1, keepdim=True)
        return g / (r * s) + g_rows + g_cols


def border_loss(contacts, target, window=3, chrom=None, valid=None):
    if valid is not None:
        contacts = ObservedOverExpected.apply(contacts, valid) + 1e-3
    return (
        (InsulationProfile.apply(CoverageBalance.apply(contacts), window, chrom) - target)
        .square()
        .mean()
    )
