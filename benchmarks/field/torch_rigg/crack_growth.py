import math

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# single edge notch, tension (Gross & Srawley)
EDGE_NOTCH = (1.12, -0.231, 10.55, -21.72, 30.39)
LN10 = math.log(10.0)


def _horner(coefs, x):
    y = torch.zeros_like(x) + coefs[-1]
    for c in reversed(coefs[:-1].unbind()):
        y = y * x + c
    return y


class CrackTipIntensity(Function):
    """K_I = stress * sqrt(pi a) * Y(a / W), Y a polynomial with coefficients (P,); the rest broadcast, a > 0."""

    @staticmethod
    def forward(stress, length, width, coefs):
        return stress * torch.sqrt(math.pi * length) * _horner(coefs, length / width)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_k):
        stress, length, width, coefs = ctx.saved_tensors
        x = length / width
        root = torch.sqrt(math.pi * length)
        y = _horner(coefs, x)
        orders = torch.arange(coefs.numel(), dtype=coefs.dtype, device=coefs.device)
        slope = torch.zeros_like(x)
        if coefs.numel() > 1:
            slope = _horner((coefs * orders)[1:], x)
        d_stress = d_length = d_width = d_coefs = None
        if ctx.needs_input_grad[0]:
            d_stress = (grad_k * root * y).sum_to_size(stress.shape)
        if ctx.needs_input_grad[1]:
            d_length = (grad_k * stress * root * (y / (2 * length) + slope / width)).sum_to_size(length.shape)
        if ctx.needs_input_grad[2]:
            d_width = (-grad_k * stress * root * slope * x / width).sum_to_size(width.shape)
        if ctx.needs_input_grad[3]:
            base = grad_k * stress * root
            d_coefs = torch.stack([(base * x**p).sum() for p in range(coefs.numel())])
        return d_stress, d_length, d_width, d_coefs


class WalkerGrowthRate(Function):
    """Crack growth per cycle with the Walker mean-stress correction.

    rate = 10**log_c * dk_eff**m, with dk_eff = k_max * (1 - R)**gamma for R >= 0 and dk_eff = k_max for R < 0
    (the compressive part of the cycle does no work on the tip). Below ``threshold`` the crack is dormant, rate 0.

    Shapes: ``k_max`` and ``ratio`` (N,), R < 1; ``log_c``, ``m``, ``gamma`` scalars, one material; ``threshold`` a float.
    """

    @staticmethod
    def forward(ctx, k_max, ratio, log_c, m, gamma, threshold=0.0):
        closing = ratio < 0
        open_share = torch.where(closing, torch.ones_like(ratio), (1 - ratio) ** gamma)
        dk = k_max * open_share
        rate = 10.0**log_c * dk**m
        rate = torch.where(dk > threshold, rate, torch.zeros_like(rate))
        ctx.save_for_backward(k_max, ratio, dk, rate, closing, m, gamma)
        return rate

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_rate):
        k_max, ratio, dk, rate, closing, m, gamma = ctx.saved_tensors
        gr = grad_rate * rate
        d_k = gr * m / k_max
        d_ratio = -gr * m * gamma / (1 - ratio)
        d_log_c = (gr * LN10).sum()
        d_m = (gr * torch.log(dk)).sum()
        d_gamma = (gr * m * torch.log1p(-ratio)).masked_fill(closing, 0.0).sum()
        return d_k, d_ratio, d_log_c, d_m, d_gamma, None


class MixedModeToughness(Function):
    # Benzeggagh-Kenane; mode I release rate only counts when the faces open

    @staticmethod
    def forward(ctx, g1, g2, g3, gc1, gc2, eta):
        opening = g1.clamp(min=0.0)
        shear = g2 + g3
        total = opening + shear
        mix = shear / total
        ctx.save_for_backward(g1, g2, g3, gc1, gc2, eta)
        return gc1 + (gc2 - gc1) * mix**eta

    @staticmethod
    def backward(ctx, grad):
        g1, g2, g3, gc1, gc2, eta = ctx.saved_tensors
        opening = g1.clamp(min=0.0)
        shear = g2 + g3
        total = opening + shear
        mix = shear / total
        share = mix**eta
        d_mix = grad * (gc2 - gc1) * eta * mix ** (eta - 1)
        d_open = torch.where(g1 > 0, -d_mix * shear / total**2, torch.zeros_like(d_mix))
        d_shear = d_mix * opening / total**2
        # material constants may be shared by all the nodes; autograd sums what was broadcast
        return d_open, d_shear, d_shear, grad * (1 - share), grad * share, grad * (gc2 - gc1) * share * torch.log(mix)


class Laminate(torch.nn.Module):
    """Cohesive ply interface; g2 + g3 must be positive."""

    def __init__(self, gc1=0.3, gc2=0.9, eta=2.1):
        super().__init__()
        self.gc1 = torch.nn.Parameter(torch.tensor(float(gc1)))
        self.gc2 = torch.nn.Parameter(torch.tensor(float(gc2)))
        self.eta = torch.nn.Parameter(torch.tensor(float(eta)))

    def forward(self, g1, g2, g3):
        return MixedModeToughness.apply(g1, g2, g3, self.gc1, self.gc2, self.eta)


def edge_notch_intensity(stress, length, width):
    coefs = torch.tensor(EDGE_NOTCH, dtype=length.dtype, device=length.device)
    return CrackTipIntensity.apply(stress, length, width, coefs)
