"""Progress curves and patch networks for the wetland study (denitrification assays, amphibian ponds)."""
import torch
from torch.autograd.function import once_differentiable


def _shrink(g, like):
    """Undo broadcasting."""
    while g.dim() > like.dim():
        g = g.sum(0)
    for d in range(like.dim()):
        if like.shape[d] == 1 and g.shape[d] > 1:
            g = g.sum(d, keepdim=True)
    return g


def _omega(y, iters=12):
    # solves w + log(w) = y
    e = torch.exp(y.clamp_max(1.0))
    w = torch.where(y > 1.0, y - torch.log(y.clamp_min(1.0)), e / (1.0 + 0.5 * e))
    for _ in range(iters):
        w = w * (1.0 + y - torch.log(w)) / (1.0 + w)
    return w


class SubstrateProgress(torch.autograd.Function):
    """Integrated Michaelis-Menten curve (Schnell & Mendoza).

    Parameters
    ----------
    t : time, >= 0
    s0, vmax, km : initial substrate, limiting rate, Michaelis constant, > 0
    species : "substrate" or "product"

    All four tensors broadcast, e.g. ``t`` of shape (T,) against parameters of shape (assays, 1).  Curves are meant to
    be followed down to about 1e-100 of km, not further.
    """

    @staticmethod
    def forward(ctx, t, s0, vmax, km, species="substrate"):
        s = km * _omega(torch.log(s0 / km) + (s0 - vmax * t) / km)
        ctx.save_for_backward(t, s0, vmax, km, s)
        ctx.product = species == "product"
        return s0 - s if ctx.product else s

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        t, s0, vmax, km, s = ctx.saved_tensors
        gs = -grad if ctx.product else grad
        common = gs * s / (km + s)
        g_t = -common * vmax
        g_vmax = -common * t
        g_s0 = common * (km + s0) / s0
        if ctx.product:
            g_s0 = g_s0 + grad
        # log(s0 / s), from the rate law itself so that it stays finite when s is tiny
        g_km = common * (vmax * t - s0 + s) / km
        return _shrink(g_t, t), _shrink(g_s0, s0), _shrink(g_vmax, vmax), _shrink(g_km, km), None


def _landscape(dist, area, alpha, immigration, emigration):
    kernel = torch.exp(-alpha * dist)
    kernel = kernel - torch.diag(torch.diagonal(kernel))
    return area[:, None] ** immigration * kernel * area[None, :] ** emigration


class PatchCapacity(torch.autograd.Function):
    """Metapopulation capacity: leading eigenvalue of the landscape matrix (Hanski & Ovaskainen).

    ``m[i, j] = area[i] ** immigration * exp(-alpha * dist[i, j]) * area[j] ** emigration``, zero on the diagonal.

    Parameters
    ----------
    dist : (n, n) distances between ponds, or travel costs (which need not be the same both ways)
    area : (n,) positive areas
    alpha : () inverse of the dispersal distance
    exponents : (immigration, emigration), plain numbers
    """

    @staticmethod
    def forward(ctx, dist, area, alpha, exponents=(0.5, 0.5)):
        m = _landscape(dist, area, alpha, *exponents)
        values, vectors = torch.linalg.eig(m)
        top = values.real.argmax()
        v = vectors[:, top].real
        ctx.save_for_backward(dist, area, alpha, m, v / v.norm())
        ctx.exponents = exponents
        return values[top].real.clone()

    @staticmethod
    def backward(ctx, grad):
        dist, area, alpha, m, v = ctx.saved_tensors
        immigration, emigration = ctx.exponents
        flow = grad * torch.outer(v, v) * m
        g_dist = -alpha * flow
        g_area = (immigration * flow.sum(1) + emigration * flow.sum(0)) / area
        g_alpha = -(flow * dist).sum()
        return g_dist, g_area, g_alpha, None


def fit_assay(t, observed, steps=200, lr=0.05):
    """Fit (s0, vmax, km) of each row of ``observed`` (assays, T) by least squares on the log parameters."""
    logp = torch.zeros(3, observed.shape[0], 1, dtype=observed.dtype, requires_grad=True)
    opt = torch.optim.Adam([logp], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        s0, vmax, km = logp.exp()
        loss = (SubstrateProgress.apply(t, s0, vmax, km) - observed).square().mean()
        loss.backward()
        opt.step()
    return logp.detach().exp().squeeze(-1)


class RestorationPlan(torch.nn.Module):
    """Pond areas under a fixed total, to be trained for capacity."""

    def __init__(self, dist, total, alpha=1.0, exponents=(0.5, 0.5)):
        super().__init__()
        self.register_buffer("dist", dist)
        self.register_buffer("alpha", torch.as_tensor(alpha, dtype=dist.dtype))
        self.share = torch.nn.Parameter(torch.zeros(dist.shape[0], dtype=dist.dtype))
        self.total = total
        self.exponents = exponents

    def forward(self):
        area = self.total * torch.softmax(self.share, 0)
        return PatchCapacity.apply(self.dist, area, self.alpha, self.exponents)
