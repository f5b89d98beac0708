"""Finding the same suitcase again on another belt camera.

Training pieces of our re-identification network: a batch-hard hinge on the
embeddings, an auxiliary classifier with normalised logits, a coding-rate
regulariser and a colour (hue) descriptor of the segmented bag.
"""
import math

import torch
import torch.nn as nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

IGNORE = -100      # tag not legible
UNLABELLED = -1    # bag seen once, owner unknown


def _pair_geometry(x):
    delta = x[:, None, :] - x[None, :, :]
    dist = delta.pow(2).sum(-1).clamp_min(1e-12).sqrt()
    return delta, dist


class HardestPairHinge(Function):
    """Batch-hard triplet hinge.

    Args:
        x: embeddings, one row per crop.
        bag: int64, the bag of each crop.
        margin: float.

    Returns:
        Mean over the anchors that have a partner and a stranger in the batch of
        relu(margin + farthest partner - nearest stranger), Euclidean distances.
    """

    @staticmethod
    def forward(ctx, x, bag, margin=0.3):
        delta, dist = _pair_geometry(x)
        same = bag[:, None] == bag[None, :]
        eye = torch.eye(len(x), dtype=torch.bool, device=x.device)
        partner = same & ~eye
        pos = dist.masked_fill(~partner, -math.inf).max(1)
        neg = dist.masked_fill(same, math.inf).min(1)
        valid = partner.any(1) & (~same).any(1)
        rows = valid.nonzero().squeeze(1)
        dp, dn = pos.values[rows], neg.values[rows]
        hinge = (margin + dp - dn).clamp_min(0)
        ctx.save_for_backward(x, rows, pos.indices[rows], neg.indices[rows], dp, dn, hinge)
        return hinge.sum() / max(len(rows), 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        x, rows, jp, jn, dp, dn, hinge = ctx.saved_tensors
        scale = grad_out * (hinge > 0).to(x.dtype) / max(len(rows), 1)
        up = (x[rows] - x[jp]) * (scale / dp)[:, None]
        un = (x[rows] - x[jn]) * (scale / dn)[:, None]
        grad = torch.zeros_like(x)
        grad[rows] += up - un
        grad[jp] -= up
        grad[jn] += un
        return grad, None, None


class LogitNormCE(Function):
    """Cross-entropy of z = logits / (tau * (|logits| + eps)), rows with IGNORE left out of the mean.

    tau is a tensor with one element (we learn it); a batch without legible tags gives 0.
    """

    EPS = 1e-7

    @staticmethod
    def forward(ctx, logits, target, tau):
        keep = target != IGNORE
        n = torch.linalg.vector_norm(logits, dim=1, keepdim=True)
        z = logits / (tau * (n + LogitNormCE.EPS))
        logp = torch.log_softmax(z, 1)
        idx = target.masked_fill(~keep, 0)
        nll = -logp.gather(1, idx[:, None]).squeeze(1)
        ctx.save_for_backward(logits, idx, keep, tau)
        return torch.where(keep, nll, torch.zeros_like(nll)).sum() / keep.sum().clamp_min(1)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, idx, keep, tau = ctx.saved_tensors
        n = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        m = n + LogitNormCE.EPS
        z = x / (tau * m)
        gz = torch.softmax(z, 1)
        gz = gz - torch.zeros_like(gz).scatter_(1, idx[:, None], 1.0)
        gz = gz * keep[:, None] * (g / keep.sum().clamp_min(1))
        unit = torch.where(n > 0, x / n.clamp_min(torch.finfo(x.dtype).tiny), torch.zeros_like(x))
        gx = (gz - unit * (gz * x).sum(1, keepdim=True) / m) / (tau * m)
        gtau = -(gz * z).sum() / tau
        return gx, None, gtau.reshape(tau.shape)


def _rate(z, alpha):
    gram = torch.eye(z.shape[1], dtype=z.dtype, device=z.device) + alpha * z.T @ z
    return 0.5 * torch.linalg.slogdet(gram)[1], gram


class CodingRateGap(Function):
    """Rate reduction: bits of the whole batch minus the mean bits of the bags.

    z is (crops, dim).  Crops that are UNLABELLED count in the whole only; the bags are
    weighted with their share of the labelled crops.  `eps` is the allowed distortion.
    """

    @staticmethod
    def forward(ctx, z, bag, eps=0.5):
        n, d = z.shape
        total, _ = _rate(z, d / (n * eps**2))
        labelled = int((bag != UNLABELLED).sum())
        for c in bag.unique().tolist():
            if c == UNLABELLED:
                continue
            part = z[bag == c]
            total = total - len(part) / labelled * _rate(part, d / (len(part) * eps**2))[0]
        ctx.save_for_backward(z, bag)
        ctx.eps, ctx.labelled = eps, labelled
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        z, bag = ctx.saved_tensors
        n, d = z.shape
        alpha = d / (n * ctx.eps**2)
        out = alpha * torch.linalg.solve(_rate(z, alpha)[1], z.T).T
        if ctx.labelled:
            beta = d / (ctx.labelled * ctx.eps**2)   # share * d / (members * eps^2): members cancel
            for c in bag.unique().tolist():
                if c == UNLABELLED:
                    continue
                rows = bag == c
                part = z[rows]
                gram = _rate(part, d / (len(part) * ctx.eps**2))[1]
                out[rows] -= beta * torch.linalg.solve(gram, part.T).T
        return g * out, None, None


class HueHistogram(Function):
    """Soft, normalised histogram of hue.

    hue (B, P) in turns [0, 1); weight (B, P), the soft mask of the bag; centres (K,), fixed;
    log_width a scalar tensor.  With `circular` the distance to a bin is taken around
    the colour wheel, without it along the line (for saturation or lightness).
    """

    @staticmethod
    def forward(ctx, hue, weight, centres, log_width, circular=True):
        diff = hue[..., None] - centres
        if circular:
            diff = diff - torch.round(diff)
        kern = torch.exp(-0.5 * (diff / log_width.exp()) ** 2)
        count = (weight[..., None] * kern).sum(1)
        total = count.sum(-1, keepdim=True) + 1e-8
        hist = count / total
        ctx.save_for_backward(hue, weight, centres, log_width, kern, total, hist)
        return hist

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        hue, weight, centres, log_width, kern, total, hist = ctx.saved_tensors
        g_count = (grad - (grad * hist).sum(-1, keepdim=True)) / total
        flow = g_count[:, None, :] * kern
        z = (hue[..., None] - centres) / log_width.exp()
        g_hue = -(flow * z).sum(-1) * weight / log_width.exp()
        g_width = (flow * z**2 * weight[..., None]).sum()
        return g_hue, flow.sum(-1), None, g_width.reshape(log_width.shape), None


class ColourBranch(nn.Module):
    def __init__(self, bins=24, dim=32):
        super().__init__()
        self.register_buffer("centres", torch.arange(bins) / bins)
        self.log_width = nn.Parameter(torch.tensor(math.log(0.6 / bins)))
        self.out = nn.Linear(bins, dim)

    def forward(self, hue, mask):
        return self.out(HueHistogram.apply(hue.flatten(1), mask.flatten(1), self.centres, self.log_width))
