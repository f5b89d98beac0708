from dataclasses import dataclass

import torch
from torch.autograd import Function

U235_LINE_KEV = (143.8, 163.4, 185.7, 205.3)
NATURAL = 0.00711


@dataclass
class Contract:
    product_kg: torch.Tensor   # (n,)
    assay: torch.Tensor        # (n,)
    feed: torch.Tensor         # scalar, one feed for all deliveries, or (n,)
    tails: torch.Tensor        # scalar or (n,)


@dataclass
class Cylinder:
    assay: torch.Tensor    # (n,)
    fill: torch.Tensor     # (n,) g/cm2 of UF6 seen by the collimator
    wall: torch.Tensor     # (n,) cm of steel


def value(x):
    return (2 * x - 1) * torch.log(x / (1 - x))


def dvalue(x):
    return 2 * torch.log(x / (1 - x)) + (2 * x - 1) / (x * (1 - x))


class SeparativeWork(Function):
    @staticmethod
    def forward(p, xp, xf, xt):
        f = (xp - xt) / (xf - xt)
        return p * (value(xp) - value(xt) + f * (value(xt) - value(xf)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        p, xp, xf, xt = ctx.saved_tensors
        span = xf - xt
        f = (xp - xt) / span
        dv = value(xt) - value(xf)
        gp = g * (value(xp) - value(xt) + f * dv)
        gxp = g * p * (dvalue(xp) + dv / span)
        gxf = -g * p * f * (dvalue(xf) + dv / span)
        gxt = g * p * (f - 1) * (dvalue(xt) + dv / span)
        return tuple(a.sum_to_size(b.shape) for a, b in zip((gp, gxp, gxf, gxt), ctx.saved_tensors))


class StageLadder(Function):
    # r0: abundance ratio of the feed, shape of alpha without `dim`
    # alpha: separation factor of each stage, stages along `dim`
    # -> assay after each stage, shape of alpha
    @staticmethod
    def forward(r0, alpha, dim=-1):
        r = r0.unsqueeze(dim) * torch.cumprod(alpha, dim)
        return r / (1 + r)

    @staticmethod
    def setup_context(ctx, inputs, output):
        r0, alpha, dim = inputs
        ctx.dim = dim
        ctx.save_for_backward(r0, alpha, output)

    @staticmethod
    def backward(ctx, g):
        r0, alpha, x = ctx.saved_tensors
        t = g * x * (1 - x)
        above = t.flip(-1).cumsum(-1).flip(-1)
        return t.sum(ctx.dim) / r0, above / alpha, None


class EnrichmentMeter(Function):
    # x, fill, wall: (n,)   cal, mu_u, mu_w: (lines,)   -> (n, lines)
    # thick: the fill is beyond the escape depth of every line
    @staticmethod
    def forward(x, fill, wall, cal, mu_u, mu_w, thick):
        rate = x[:, None] * cal * torch.exp(-wall[:, None] * mu_w)
        if not thick:
            rate = rate * -torch.expm1(-fill[:, None] * mu_u)
        return rate

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.thick = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    def backward(ctx, g):
        x, fill, wall, cal, mu_u, mu_w, rate = ctx.saved_tensors
        open_ = cal * torch.exp(-wall[:, None] * mu_w)
        h = g * rate
        g_wall = -(h @ mu_w)
        g_mw = -(wall @ h)
        if ctx.thick:
            g_fill, g_mu = torch.zeros_like(fill), torch.zeros_like(mu_u)
            sat = torch.ones_like(open_)
        else:
            od = fill[:, None] * mu_u
            sat = -torch.expm1(-od)
            e = g * x[:, None] * open_ * torch.exp(-od)
            g_fill = e @ mu_u
            g_mu = fill @ e
        g_x = (g * open_ * sat).sum(1)
        g_cal = (g * x[:, None] * sat * torch.exp(-wall[:, None] * mu_w)).sum(0)
        return g_x, g_fill, g_wall, g_cal, g_mu, g_mw, None


def swu(contract):
    return SeparativeWork.apply(contract.product_kg, contract.assay, contract.feed, contract.tails)


def feed_kg(contract):
    return contract.product_kg * (contract.assay - contract.tails) / (contract.feed - contract.tails)


def cheapest_tails(contract, swu_price, feed_price, steps=200, lr=2e-5):
    tails = contract.tails.clone().requires_grad_()
    for _ in range(steps):
        c = Contract(contract.product_kg, contract.assay, contract.feed, tails)
        cost = (swu_price * swu(c) + feed_price * feed_kg(c)).sum() / contract.product_kg.sum()
        (d,) = torch.autograd.grad(cost, tails)
        with torch.no_grad():
            tails -= lr * d.sign()
            tails.clamp_(5e-4, 0.006)
    return tails.detach()


class Cascade(torch.nn.Module):
    def __init__(self, stages, trains=1, stages_first=False):
        super().__init__()
        shape = (stages, trains) if stages_first else (trains, stages)
        self.dim = 0 if stages_first else -1
        self.log_alpha = torch.nn.Parameter(torch.full(shape, 0.18))

    def forward(self, feed_assay):   # (trains,)
        return StageLadder.apply(feed_assay / (1 - feed_assay), self.log_alpha.exp(), self.dim)


class GammaMeter(torch.nn.Module):
    def __init__(self, lines=len(U235_LINE_KEV), thick=True):
        super().__init__()
        self.thick = thick
        self.cal = torch.nn.Parameter(torch.ones(lines))
        self.register_buffer("mu_u", torch.linspace(2.1, 0.9, lines))
        self.mu_w = torch.nn.Parameter(torch.linspace(1.3, 1.0, lines))

    def forward(self, cyl):
        return EnrichmentMeter.apply(cyl.assay, cyl.fill, cyl.wall, self.cal, self.mu_u, self.mu_w, self.thick)


def calibrate(meter, cyl, counts, steps=300):
    opt = torch.optim.LBFGS(meter.parameters(), max_iter=steps)

    def closure():
        opt.zero_grad()
        loss = ((meter(cyl) - counts) ** 2 / counts.clamp_min(1e-3)).mean()
        loss.backward()
        return loss

    return opt.step(closure).item()
