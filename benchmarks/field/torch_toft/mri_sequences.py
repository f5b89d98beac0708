import math
from dataclasses import dataclass

import torch
from torch.autograd import Function


@dataclass(frozen=True)
class SPGRProtocol:
    flips_deg: tuple = (2.0, 5.0, 10.0, 18.0)
    tr: float = 0.015
    te: float = 0.004

    def flips(self, like):
        return like.new_tensor(self.flips_deg) * (math.pi / 180.0)


class SpoiledGradientEcho(Function):
    """Steady-state SPGR (Ernst) signal for variable-flip-angle mapping.

    m0, t1 : (V,) proton density and T1 in seconds, t1 > 0
    b1     : (V,) relative transmit field, or None for a perfect one
    t2star : (V,) seconds, or None to leave out the echo decay
    protocol : SPGRProtocol
    returns (V, K), one column for each flip angle
    """

    @staticmethod
    def forward(ctx, m0, t1, b1, t2star, protocol):
        flips = protocol.flips(m0)
        alpha = flips[None, :] if b1 is None else flips[None, :] * b1[:, None]
        one_minus_e1 = -torch.expm1(-protocol.tr / t1)[:, None]
        e1 = 1.0 - one_minus_e1
        sin, cos = alpha.sin(), alpha.cos()
        denom = 1.0 - cos * e1
        shape = sin * one_minus_e1 / denom
        if t2star is not None:
            decay = torch.exp(-protocol.te / t2star)[:, None]
        else:
            decay = torch.ones_like(e1)
        ctx.save_for_backward(m0, t1, b1, t2star, sin, cos, e1, denom, shape, decay)
        ctx.protocol = protocol
        return m0[:, None] * shape * decay

    @staticmethod
    def backward(ctx, g):
        m0, t1, b1, t2star, sin, cos, e1, denom, shape, decay = ctx.saved_tensors
        p = ctx.protocol
        scaled = g * m0[:, None] * decay
        g_m0 = (g * shape * decay).sum(1)
        g_e1 = (scaled * sin * (cos - 1.0) / denom**2).sum(1)
        g_t1 = g_e1 * e1[:, 0] * p.tr / t1**2
        g_b1 = g_t2 = None
        if b1 is not None:
            d_alpha = (1.0 - e1) * (cos - e1) / denom**2
            g_b1 = (scaled * d_alpha * p.flips(m0)).sum(1)
        if t2star is not None:
            g_t2 = (scaled * shape).sum(1) * p.te / t2star**2
        return g_m0, g_t1, g_b1, g_t2, None


class CoilCombine(Function):
    """Root-sum-of-squares image and relative maps of complex coil images (B, C, H, W), weights (C,)."""

    @staticmethod
    def forward(ctx, coils, weights, eps=1e-8):
        w = weights[None, :, None, None]
        rss = ((coils.abs() ** 2 * w).sum(1, keepdim=True) + eps).sqrt()
        ctx.save_for_backward(coils, w, rss)
        return rss.squeeze(1), coils / rss

    @staticmethod
    def backward(ctx, grad_image, grad_maps):
        coils, w, rss = ctx.saved_tensors
        g = grad_image.unsqueeze(1) / rss
        grad_coils = g * w * coils + grad_maps / rss
        grad_weights = (0.5 * g * coils.abs() ** 2).sum((0, 2, 3))
        return grad_coils, grad_weights, None


def relative_maps(coils, weights=None, eps=1e-8):
    if weights is None:
        weights = torch.ones(coils.shape[1], dtype=coils.real.dtype, device=coils.device)
    return CoilCombine.apply(coils, weights, eps)
