"""Teleseismic receiver functions with gradients.

Even sampling with ``dt`` seconds; km, s/km and km/s.
"""
from typing import NamedTuple

import numpy as np
import torch
from torch.autograd import Function


class DeconOptions(NamedTuple):
    dt: float = 0.1
    water: float = 0.1      # fraction of the largest spectral power
    gauss: float = 2.5      # Gaussian parameter, rad/s
    shift: float = 5.0      # seconds before the direct arrival


def _fft_size(nt):
    return 1 << int(np.ceil(np.log2(2 * nt)))


def _bin_weights(n, like):
    w = torch.full((n // 2 + 1,), 2.0, dtype=like.dtype, device=like.device)
    w[0] = w[-1] = 1.0
    return w


def _pulse(n, opt, like):
    omega = 2 * np.pi * torch.fft.rfftfreq(n, opt.dt, dtype=like.dtype, device=like.device)
    return torch.polar(torch.exp(-(omega**2) / (4 * opt.gauss**2)), -omega * opt.shift)


class WaterLevelDecon(Function):
    """Water-level deconvolution of the radial by the vertical component.

    Parameters
    ----------
    radial, vertical : Tensor, shape (..., nt)

    Returns
    -------
    ``irfft(H R Z* / max(|Z|^2, water * max |Z|^2))``, maximum of each trace.
    """

    @staticmethod
    def forward(radial, vertical, opt):
        nt = radial.shape[-1]
        n = _fft_size(nt)
        R, Z = torch.fft.rfft(radial, n), torch.fft.rfft(vertical, n)
        power = Z.abs().square()
        floor = opt.water * power.amax(-1, keepdim=True)
        Q = _pulse(n, opt, radial) * R * Z.conj() / torch.maximum(power, floor)
        return torch.fft.irfft(Q, n)[..., :nt]

    @staticmethod
    def setup_context(ctx, inputs, output):
        radial, vertical, ctx.opt = inputs
        ctx.save_for_backward(radial, vertical)

    @staticmethod
    def backward(ctx, g):
        radial, vertical = ctx.saved_tensors
        nt = radial.shape[-1]
        n = _fft_size(nt)
        w = _bin_weights(n, radial)
        H = _pulse(n, ctx.opt, radial)
        R, Z = torch.fft.rfft(radial, n), torch.fft.rfft(vertical, n)
        power = Z.abs().square()
        floor = ctx.opt.water * power.amax(-1, keepdim=True)
        D = torch.maximum(power, floor)
        gQ = torch.fft.rfft(g, n) * w / n
        gR = gQ * H.conj() * Z / D
        gD = -(gQ.conj() * H * R * Z.conj()).real / D.square()
        gP = torch.where(power > floor, gD, torch.zeros_like(gD))
        gZ = gQ.conj() * H * R / D + 2 * Z * gP
        return *(torch.fft.irfft(S / w, n)[..., :nt] * n for S in (gR, gZ)), None


class HKappaStack(Function):
    """Stack of Ps, PpPs and PpSs+PsPs amplitudes (Zhu and Kanamori, 2000).

    Parameters
    ----------
    rf : Tensor, shape (events, nt)
    p : Tensor, shape (events,)
    depth, kappa, weights : Tensor, shapes (grid,), (grid,), (3,)
    vp, dt, t0 : float
        ``t0`` is the time of the first sample.

    The mean over events, shape (grid,); arrivals outside a trace count as zero.
    """

    @staticmethod
    def _phases(p, depth, kappa, vp):
        ep = (vp**-2 - p**2).sqrt()
        es = ((kappa[:, None] / vp) ** 2 - p**2).sqrt()
        h = depth[:, None]
        return ep, es, torch.stack([h * (es - ep), h * (es + ep), 2 * h * es])

    @staticmethod
    def _sign(rf):
        return rf.new_tensor([1.0, 1.0, -1.0])

    @staticmethod
    def _cells(t, nt, dt, t0):
        pos = (t - t0) / dt
        inside = (pos >= 0) & (pos < nt - 1)
        i = pos.floor().long().clamp(0, nt - 2)
        return i, pos - i, inside

    @staticmethod
    def _sample(rf, i):
        return rf.expand(*i.shape[:2], *rf.shape).gather(-1, i.unsqueeze(-1)).squeeze(-1)

    @staticmethod
    def forward(rf, p, depth, kappa, weights, vp, dt, t0):
        _, _, t = HKappaStack._phases(p, depth, kappa, vp)
        i, f, inside = HKappaStack._cells(t, rf.shape[-1], dt, t0)
        a = (1 - f) * HKappaStack._sample(rf, i) + f * HKappaStack._sample(rf, i + 1)
        return torch.einsum("m,mgn->g", weights * HKappaStack._sign(rf), a * inside) / rf.shape[0]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:5])
        ctx.vp, ctx.dt, ctx.t0 = inputs[5:]

    @staticmethod
    def backward(ctx, g):
        rf, p, depth, kappa, weights = ctx.saved_tensors
        events, nt = rf.shape
        ep, es, t = HKappaStack._phases(p, depth, kappa, ctx.vp)
        i, f, inside = HKappaStack._cells(t, nt, ctx.dt, ctx.t0)
        lo, hi = HKappaStack._sample(rf, i), HKappaStack._sample(rf, i + 1)
        ga = inside * g[:, None] / events
        sign = HKappaStack._sign(rf)
        g_w = sign * (ga * ((1 - f) * lo + f * hi)).sum((1, 2))
        ga = (sign * weights)[:, None, None] * ga
        rows = torch.arange(events).expand_as(i)
        g_rf = torch.zeros_like(rf)
        g_rf.index_put_((rows, i), ga * (1 - f), accumulate=True)
        g_rf.index_put_((rows, i + 1), ga * f, accumulate=True)
        gt = ga * (hi - lo) / ctx.dt
        h = depth[:, None]
        g_es = h * (gt[0] + gt[1] + 2 * gt[2])
        g_ep = h * (gt[1] - gt[0])
        g_h = (gt * t).sum((0, 2)) / depth
        g_k = (g_es / es).sum(1) * kappa / ctx.vp**2
        g_p = -p * (g_es / es + g_ep / ep).sum(0)
        return g_rf, g_p, g_h, g_k, g_w, None, None, None


class FreeSurfaceTransfer(Function):
    """Upgoing P, SV and SH from surface records.

    Parameters
    ----------
    zrt : Tensor, shape (events, 3, nt)
    p : Tensor, shape (events,), below ``1 / alpha``
    alpha, beta : Tensor, shape () or (events,)
        Velocities under the station.
    """

    @staticmethod
    def forward(zrt, p, alpha, beta):
        z, r, t = zrt.unbind(1)
        qa, qb = (alpha**-2 - p**2).sqrt(), (beta**-2 - p**2).sqrt()
        k = 0.5 - (beta * p) ** 2
        up = (p * beta**2 / alpha)[:, None] * r - (k / (alpha * qa))[:, None] * z
        usv = (k / (beta * qb))[:, None] * r + (p * beta)[:, None] * z
        return torch.stack([up, usv, 0.5 * t], 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        zrt, p, alpha, beta = ctx.saved_tensors
        z, r, _ = zrt.unbind(1)
        gp, gs, gt = g.unbind(1)
        qa, qb = (alpha**-2 - p**2).sqrt(), (beta**-2 - p**2).sqrt()
        k = 0.5 - (beta * p) ** 2
        pr, pz, sr, sz = p * beta**2 / alpha, -k / (alpha * qa), k / (beta * qb), p * beta
        g_z = pz[:, None] * gp + sz[:, None] * gs
        g_r = pr[:, None] * gp + sr[:, None] * gs
        a, b, c, d = ((u * v).sum(-1) for u in (gp, gs) for v in (r, z))
        g_slow = (a * beta**2 / alpha + b * (2 * beta**2 * p / (alpha * qa) + pz * p / qa**2)
                  - c * 2 * beta * p / qb + d * beta)
        g_alpha = -a * pr / alpha - b * pz / alpha * (1 - 1 / (alpha * qa) ** 2)
        g_beta = (2 * a * pr / beta + b * 2 * beta * p**2 / (alpha * qa) + d * p
                  - c * (2 * p**2 / qb + sr / beta * (1 - 1 / (beta * qb) ** 2)))
        return (torch.stack([g_z, g_r, 0.5 * gt], 1), g_slow,
                g_alpha.sum_to_size(alpha.shape), g_beta.sum_to_size(beta.shape))


def crust_search(zrt, p, alpha, beta, depth, kappa, vp=6.3, opt=DeconOptions()):
    up = FreeSurfaceTransfer.apply(zrt, p, alpha, beta)
    rf = WaterLevelDecon.apply(up[:, 1], up[:, 0], opt)
    return HKappaStack.apply(rf, p, depth, kappa, rf.new_tensor([0.6, 0.3, 0.1]), vp, opt.dt, -opt.shift)
