"""Odds and ends from the physics / vision side: linear algebra, likelihoods, rendering."""
import math

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class LinearSolve(Function):
    """X such that A X = B, with the adjoint method in reverse.

    A : (..., n, n) non-singular
    B : (..., n, m)
    """

    @staticmethod
    def forward(ctx, A, B):
        X = torch.linalg.solve(A, B)
        ctx.save_for_backward(A, X)
        return X

    @staticmethod
    def backward(ctx, gX):
        A, X = ctx.saved_tensors
        lam = torch.linalg.solve(A, gX)
        return -lam @ X.mT, lam


class LogAbsDet(Function):
    @staticmethod
    def forward(ctx, A):
        ctx.save_for_backward(A)
        return torch.linalg.slogdet(A)[1]

    @staticmethod
    def backward(ctx, g):
        (A,) = ctx.saved_tensors
        return g[..., None, None] * torch.linalg.inv(A).transpose(-2, -1)


class SmoothCdist(Function):
    """Distance matrix sqrt(|x_i - y_j|^2 + eps).

    Args:
        x: (..., N, D)
        y: (..., M, D), same leading axes
        eps: keeps the root smooth at coincident points

    Returns:
        (..., N, M)
    """

    @staticmethod
    def forward(ctx, x, y, eps=1e-6):
        diff = x.unsqueeze(-2) - y.unsqueeze(-3)
        dist = (diff.square().sum(-1) + eps).sqrt()
        ctx.save_for_backward(x, y, dist)
        return dist

    @staticmethod
    def backward(ctx, grad):
        x, y, dist = ctx.saved_tensors
        diff = x.unsqueeze(-2) - y.unsqueeze(-3)
        pull = (grad / dist).unsqueeze(-1) * diff
        gx = pull.sum(-2) if ctx.needs_input_grad[0] else None
        gy = -pull.sum(-3) if ctx.needs_input_grad[1] else None
        return gx, gy, None


class GaussianMixtureLogProb(Function):
    """log p(x_n) under a mixture of diagonal Gaussians.

    :param x: points, (N, D)
    :param means: (K, D)
    :param log_scales: (K, D)
    :param logits: unnormalised log weights, (K,)
    :returns: (N,)
    """

    @staticmethod
    def forward(ctx, x, means, log_scales, logits):
        u = (x[:, None] - means) * torch.exp(-log_scales)
        comp = -0.5 * (u ** 2).sum(-1) - log_scales.sum(-1) - 0.5 * x.shape[1] * math.log(2 * math.pi)
        joint = comp + torch.log_softmax(logits, 0)
        ctx.save_for_backward(u, log_scales, torch.softmax(joint, 1), torch.softmax(logits, 0))
        return torch.logsumexp(joint, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        u, log_scales, resp, pi = ctx.saved_tensors
        r = g[:, None] * resp
        t = r[..., None] * u * torch.exp(-log_scales)
        g_x = -t.sum(1)
        g_means = t.sum(0)
        g_scales = (r[..., None] * (u ** 2 - 1)).sum(0)
        g_logits = r.sum(0) - pi
        return g_x, g_means, g_scales, g_logits


class CRFLogPartition(Function):
    """log Z of a linear-chain CRF by the forward algorithm.

    emissions "b t c", transitions "c c" (from, to), mask "b t" bool with the padding False;
    the first step must be real. Gradients are the posterior marginals.
    """

    @staticmethod
    def forward(ctx, emissions, transitions, mask):
        alpha = [emissions[:, 0]]
        for t in range(1, emissions.shape[1]):
            nxt = torch.logsumexp(alpha[-1][:, :, None] + transitions, 1) + emissions[:, t]
            alpha.append(torch.where(mask[:, t, None], nxt, alpha[-1]))
        alpha = torch.stack(alpha, 1)
        logz = torch.logsumexp(alpha[:, -1], -1)
        ctx.save_for_backward(emissions, transitions, mask, alpha, logz)
        return logz

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        emissions, transitions, mask, alpha, logz = ctx.saved_tensors
        ge = torch.zeros_like(emissions)
        gt = torch.zeros_like(transitions)
        beta = torch.zeros_like(emissions[:, 0])
        for t in range(emissions.shape[1] - 1, 0, -1):
            live = mask[:, t]
            right = emissions[:, t] + beta
            edge = (alpha[:, t - 1, :, None] + transitions + right[:, None] - logz[:, None, None]).exp()
            edge = edge * (g * live)[:, None, None]
            ge[:, t] = edge.sum(1)
            gt += edge.sum(0)
            beta = torch.where(live[:, None], torch.logsumexp(transitions + right[:, None], 2), beta)
        ge[:, 0] = (alpha[:, 0] + beta - logz[:, None]).exp() * g[:, None]
        return ge, gt, None


class VolumeRender(Function):
    """NeRF quadrature along rays.

    Parameters
    ----------
    sigma : (R, S) densities
    delta : (R, S) step lengths
    rgb : (R, S, C) radiance

    Returns
    -------
    colour : (R, C)
    opacity : (R,)
    """

    @staticmethod
    def weights(sigma, delta):
        tau = sigma * delta
        after = torch.exp(-torch.cumsum(tau, -1))
        before = torch.cat([torch.ones_like(after[:, :1]), after[:, :-1]], -1)
        return before * -torch.expm1(-tau), after

    @staticmethod
    def forward(ctx, sigma, delta, rgb):
        w, _ = VolumeRender.weights(sigma, delta)
        ctx.save_for_backward(sigma, delta, rgb)
        return (w[..., None] * rgb).sum(1), w.sum(1)

    @staticmethod
    def backward(ctx, g_colour, g_opacity):
        sigma, delta, rgb = ctx.saved_tensors
        w, after = VolumeRender.weights(sigma, delta)
        q = (rgb * g_colour[:, None]).sum(-1) + g_opacity[:, None]
        wq = w * q
        behind = wq.flip(-1).cumsum(-1).flip(-1) - wq
        g_tau = after * q - behind
        return g_tau * delta, g_tau * sigma, w[..., None] * g_colour[:, None]


def _corner(img, ix, iy):
    """img (B, C, H, W) at integer pixels (B, P); zero outside. Returns (B, C, P), flat index, inside."""
    b, c, h, w = img.shape
    inside = (ix >= 0) & (ix < w) & (iy >= 0) & (iy < h)
    flat = iy.clamp(0, h - 1) * w + ix.clamp(0, w - 1)
    val = img.flatten(2).gather(2, flat[:, None].expand(b, c, -1))
    return val * inside[:, None], flat, inside


class BilinearSample(Function):
    """Sample ``img`` (B, C, H, W) at ``grid`` (B, P, 2), (x, y) in [-1, 1], corners aligned."""

    @staticmethod
    def forward(ctx, img, grid):
        h, w = img.shape[-2:]
        x = (grid[..., 0] + 1) * 0.5 * (w - 1)
        y = (grid[..., 1] + 1) * 0.5 * (h - 1)
        x0, y0 = x.floor(), y.floor()
        fx, fy = (x - x0)[:, None], (y - y0)[:, None]
        x0, y0 = x0.long(), y0.long()
        ctx.save_for_backward(img, fx, fy, x0, y0)
        v00, v01 = _corner(img, x0, y0)[0], _corner(img, x0 + 1, y0)[0]
        v10, v11 = _corner(img, x0, y0 + 1)[0], _corner(img, x0 + 1, y0 + 1)[0]
        return (v00 * (1 - fx) + v01 * fx) * (1 - fy) + (v10 * (1 - fx) + v11 * fx) * fy

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        img, fx, fy, x0, y0 = ctx.saved_tensors
        b, c, h, w = img.shape
        g_img = img.new_zeros(b, c, h * w)
        vals = []
        for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1)):
            val, flat, inside = _corner(img, x0 + dx, y0 + dy)
            vals.append(val)
            wt = (fx if dx else 1 - fx) * (fy if dy else 1 - fy) * inside[:, None]
            g_img.scatter_add_(2, flat[:, None].expand(b, c, -1), g * wt)
        v00, v01, v10, v11 = vals
        gx = (g * ((v01 - v00) * (1 - fy) + (v11 - v10) * fy)).sum(1)
        gy = (g * ((v10 - v00) * (1 - fx) + (v11 - v01) * fx)).sum(1)
        g_grid = torch.stack((gx, gy), -1) * (0.5 * (w - 1))
        return g_img.view_as(img), g_grid


def nll(points, params):
    """Mean negative log likelihood; ``params`` is a dict of means, log_scales and logits."""
    lp = GaussianMixtureLogProb.apply(points, params["means"], params["log_scales"], params["logits"])
    return -lp.mean()


def crf_loss(emissions, transitions, tags, mask):
    """Negative log likelihood of tag sequences (B, T) under the chain."""
    m = mask.to(emissions.dtype)
    em = (emissions.gather(2, tags[..., None]).squeeze(2) * m).sum(1)
    tr = (transitions[tags[:, :-1], tags[:, 1:]] * m[:, 1:]).sum(1)
    return (CRFLogPartition.apply(emissions, transitions, mask) - em - tr).mean()


def demo():
    rays = VolumeRender.apply(torch.rand(4, 16), torch.full((4, 16), 0.1), torch.rand(4, 16, 3))
    pts = BilinearSample.apply(torch.rand(1, 3, 8, 12), torch.rand(1, 20, 2) * 2 - 1)
    return rays, pts


if __name__ == "__main__":
    demo()
