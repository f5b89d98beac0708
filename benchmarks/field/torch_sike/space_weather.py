from dataclasses import dataclass

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


@dataclass
class SolarWind:
    speed: torch.Tensor  # km/s   (storms, hours)
    density: torch.Tensor  # cm^-3
    by: torch.Tensor  # nT, GSM
    bz: torch.Tensor  # nT, GSM

    def pressure(self):
        return 1.6726e-6 * self.density * self.speed**2  # nPa

    def vbs(self):
        return 1e-3 * self.speed * torch.relu(-self.bz)  # mV/m


class ShueStandoff(Function):
    # Shue et al. 1998.  bz, pdyn: (T,);  theta: (A,), |theta| < pi  ->  (T, A) earth radii
    @staticmethod
    def forward(ctx, bz, pdyn, theta):
        squash = torch.tanh(0.184 * (bz + 8.14))
        nose = (10.22 + 1.29 * squash) * pdyn ** (-1 / 6.6)
        flare = (0.58 - 0.007 * bz) * (1 + 0.024 * torch.log(pdyn))
        lens = torch.log(2 / (1 + torch.cos(theta)))
        r = nose[:, None] * torch.exp(flare[:, None] * lens)
        ctx.save_for_backward(bz, pdyn, theta, squash, flare, lens, r)
        return r

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        bz, pdyn, theta, squash, flare, lens, r = ctx.saved_tensors
        gr = g * r
        along = gr.sum(1)
        dlog_nose = 1.29 * 0.184 * (1 - squash**2) / (10.22 + 1.29 * squash)
        dflare = -0.007 * (1 + 0.024 * torch.log(pdyn))
        g_bz = along * dlog_nose + dflare * (gr @ lens)
        g_p = -along / (6.6 * pdyn)
        g_theta = (gr * flare[:, None]).sum(0) * torch.tan(theta / 2)
        return g_bz, g_p, g_theta


class RingCurrent(Function):
    """Burton equation with the O'Brien & McPherron decay time, explicit Euler.

    vbs (storms, hours) in mV/m, start (storms,) in nT -> Dst* (storms, hours), nT, the value after each step.
    """

    Q, EC = -4.4, 0.49

    @staticmethod
    def forward(ctx, vbs, start, dt):
        drive = RingCurrent.Q * (vbs - RingCurrent.EC).clamp(min=0)
        tau = 2.4 * torch.exp(9.74 / (4.69 + vbs))
        keep = 1 - dt / tau
        level, path = start, [start]
        for k in range(vbs.shape[1]):
            level = keep[:, k] * level + dt * drive[:, k]
            path.append(level)
        path = torch.stack(path, dim=1)
        ctx.dt = dt
        ctx.save_for_backward(vbs, keep, tau, path)
        return path[:, 1:].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        vbs, keep, tau, path = ctx.saved_tensors
        dt = ctx.dt
        adj = torch.zeros_like(g[:, 0])
        g_vbs = torch.empty_like(vbs)
        on = (vbs > RingCurrent.EC).to(vbs.dtype)
        # d(1/tau)/dvbs = 9.74 / (4.69 + vbs)^2 / tau
        dkeep = -dt * 9.74 / ((4.69 + vbs) ** 2 * tau)
        for k in range(vbs.shape[1] - 1, -1, -1):
            adj = adj + g[:, k]
            g_vbs[:, k] = adj * (dt * RingCurrent.Q * on[:, k] + path[:, k] * dkeep[:, k])
            adj = adj * keep[:, k]
        return g_vbs, adj, None


def _clock_gap(bt, by, bz):
    # bt - bz without cancellation for northward field
    return torch.where(bz > 0, by**2 / (bt + bz.abs()), bt - bz)


class NewellCoupling(Function):
    """v^(4/3) B_T^(2/3) |sin(clock/2)|^(8/3); any broadcastable shapes, transverse field nowhere zero."""

    @staticmethod
    def forward(ctx, v, by, bz):
        bt = torch.hypot(by, bz)
        half = 0.5 * _clock_gap(bt, by, bz)
        out = v ** (4 / 3) * half ** (4 / 3) * bt ** (-2 / 3)
        ctx.save_for_backward(v, by, bz, bt, half, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        v, by, bz, bt, half, out = ctx.saved_tensors
        g_half = g * (4 / 3) * v ** (4 / 3) * half ** (1 / 3) * bt ** (-2 / 3)
        g_bt = -g * (2 / 3) * out / bt
        g_v = g * (4 / 3) * out / v
        g_by = (0.5 * g_half + g_bt) * by / bt
        g_bz = g_bt * bz / bt - g_half * half / bt
        return g_v.sum_to_size(v.shape), g_by.sum_to_size(by.shape), g_bz.sum_to_size(bz.shape)


def pressure_corrected(dst_star, pdyn, b=7.26, c=11.0):
    return dst_star + b * pdyn.sqrt() - c


def storm_misfit(wind: SolarWind, start, observed, dt=1.0):
    model = pressure_corrected(RingCurrent.apply(wind.vbs(), start, dt), wind.pressure())
    return (model - observed).square().mean()


def crossing_misfit(bz, pdyn, theta, radius, seen):
    """seen: (T, A) True where a spacecraft crossed the magnetopause at that hour and angle."""
    r = ShueStandoff.apply(bz, pdyn, theta)
    return torch.where(seen, (r - radius).square(), torch.zeros_like(r)).sum() / seen.sum().clamp(
        min=1
    )


def invert_upstream(radius, seen, theta, steps=200, lr=0.05):
    hours = radius.shape[0]
    bz = torch.zeros(hours, requires_grad=True)
    log_p = torch.zeros(hours, requires_grad=True)
    opt = torch.optim.Adam([bz, log_p], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        loss = crossing_misfit(bz, log_p.exp(), theta, radius, seen) + 1e-3 * bz.square().mean()
        loss.backward()
        opt.step()
    return bz.detach(), log_p.detach().exp()
