"""
Differentiable pieces of a plane-wave compounding chain.

The chain is used for autofocusing: the speed of sound, the element positions
and the receive weights are fitted by descending on an image-quality figure.
All lengths are metres, all times seconds, angles radians.
"""
from dataclasses import dataclass

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


@dataclass
class LinearProbe:
    n_elements: int = 64
    pitch: float = 3.0e-4
    f_number: float = 1.5

    def element_x(self, dtype=torch.float64):
        n = torch.arange(self.n_elements, dtype=dtype)
        return (n - 0.5 * (self.n_elements - 1)) * self.pitch

    def live_elements(self, points):
        """Dynamic aperture, bool (P, C): which elements see each pixel."""
        ex = self.element_x(points.dtype)
        half = points[:, 1:2] / (2.0 * self.f_number)
        return (points[:, 0:1] - ex).abs() <= half.clamp_min(self.pitch)


class PlaneWaveArrival(Function):
    """
    Transmit + receive travel time of a steered plane wave.

    Parameters
    ----------
    points : (P, 2)
        Pixel positions (x, z), z > 0.
    elements : (C,)
        Lateral element positions, on z = 0.
    angles : (A,)
        Steering angles.
    speed : () or (A,)
        Sound speed, one for all or one for each transmit event.

    Returns
    -------
    tau : (A, P, C)
    """

    @staticmethod
    def forward(ctx, points, elements, angles, speed):
        x, z = points[:, 0], points[:, 1]
        dx = x[:, None] - elements[None, :]
        rx = torch.sqrt(dx * dx + (z * z)[:, None])
        tx = torch.sin(angles)[:, None] * x + torch.cos(angles)[:, None] * z
        c = speed.expand(angles.shape[0])
        tau = (tx[:, :, None] + rx[None]) / c[:, None, None]
        ctx.save_for_backward(points, angles, c, dx, rx, tau)
        ctx.scalar_speed = speed.dim() == 0
        return tau

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        points, angles, c, dx, rx, tau = ctx.saved_tensors
        x, z = points[:, 0], points[:, 1]
        g_dist = g / c[:, None, None]
        g_tx = g_dist.sum(2)
        g_rx = g_dist.sum(0)

        g_x = torch.sin(angles) @ g_tx + (g_rx * dx / rx).sum(1)
        g_z = torch.cos(angles) @ g_tx + z * (g_rx / rx).sum(1)
        g_el = -(g_rx * dx / rx).sum(0)
        lateral = torch.cos(angles)[:, None] * x - torch.sin(angles)[:, None] * z
        g_ang = (g_tx * lateral).sum(1)
        g_c = -(g * tau).sum((1, 2)) / c
        if ctx.scalar_speed:
            g_c = g_c.sum()
        return torch.stack((g_x, g_z), 1), g_el, g_ang, g_c


class ApertureMean(Function):
    """
    Weighted mean over the live channels of each pixel.

    Parameters
    ----------
    x : (B, P, C)
        Delayed channel data.
    w : (C,)
        Positive receive weights.
    live : bool (P, C)
        Channels which take part; at least one per pixel.

    Returns
    -------
    out : (B, P)
        ``sum_c live w x / sum_c live w``
    """

    @staticmethod
    def forward(ctx, x, w, live):
        lw = live.to(x.dtype) * w
        norm = lw.sum(-1)
        out = torch.einsum("bpc,pc->bp", x, lw) / norm
        ctx.save_for_backward(x, w, live, norm, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, w, live, norm, out = ctx.saved_tensors
        on = live.to(x.dtype)
        gn = g / norm
        g_x = g_w = None
        if ctx.needs_input_grad[0]:
            g_x = gn[..., None] * (on * w)
        if ctx.needs_input_grad[1]:
            g_w = torch.einsum("bp,bpc,pc->c", gn, x, on) - (gn * out).sum()
        return g_x, g_w, None


class CoherenceFactor(Function):
    """
    Mallart-Fink coherence factor over the last axis, for RF (real) or IQ
    (complex) channel data.

    ``cf = |sum_c x|^2 / (C sum_c |x|^2 + eps)``, always real.
    """

    @staticmethod
    def forward(ctx, x, eps):
        total = x.sum(-1)
        power = (x * x.conj()).real.sum(-1) if x.is_complex() else (x * x).sum(-1)
        num = total.abs() ** 2
        den = x.shape[-1] * power + eps
        ctx.save_for_backward(x, total, den)
        return num / den

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, total, den = ctx.saved_tensors
        cf = total.abs() ** 2 / den
        scale = (2.0 * g / den)[..., None]
        return scale * (total[..., None] - (x.shape[-1] * cf)[..., None] * x), None


class NakagamiShape(Function):
    """
    Moment estimate of the Nakagami shape of an envelope patch.

    Parameters
    ----------
    env : tensor
        Envelope, non-negative.
    dim : int
        Axis which holds the samples of the patch (more than one).
    unbiased : bool
        Divide the variance of the power by ``n - 1`` instead of ``n``.

    Returns
    -------
    m : tensor without the axis ``dim``
        ``mean(env^2)^2 / var(env^2)``
    """

    @staticmethod
    def forward(ctx, env, dim, unbiased):
        p = env.square()
        mu = p.mean(dim, keepdim=True)
        var = p.var(dim, keepdim=True, unbiased=unbiased)
        ctx.save_for_backward(env, mu, var)
        ctx.dim = dim
        return (mu.square() / var).squeeze(dim)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        env, mu, var = ctx.saved_tensors
        n = env.shape[ctx.dim]
        g = g.unsqueeze(ctx.dim)
        d_mu = 2.0 * mu / var / n
        d_var = -(mu / var).square() * 2.0 * (env.square() - mu) / n
        return g * (d_mu + d_var) * 2.0 * env, None, None


def autofocus_step(rf_at, probe, points, angles, speed, weights):
    """One evaluation of the focusing criterion; ``rf_at(tau)`` samples the RF."""
    tau = PlaneWaveArrival.apply(points, probe.element_x(points.dtype), angles, speed)
    x = rf_at(tau)
    image = ApertureMean.apply(x, weights, probe.live_elements(points))
    cf = CoherenceFactor.apply(x, 1e-12)
    return -(cf * image.square()).mean()
