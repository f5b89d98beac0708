"""Composition, chain statistics and glass transition of copolymers."""

import torch
from torch import nn

KELVIN = 273.15

#: reactivity ratios (r1, r2) at 60 degC
PAIRS = {
    "styrene/mma": (0.52, 0.46),
    "styrene/acrylonitrile": (0.40, 0.04),
    "vinyl acetate/vinyl chloride": (0.23, 1.68),
}


def _terms(f1, r1, r2):
    f2 = 1.0 - f1
    like = r1 * f1 * f1
    cross = f1 * f2
    other = r2 * f2 * f2
    return f2, like, cross, other


class MayoLewis(torch.autograd.Function):
    """Instantaneous copolymer composition under the terminal model.

    Parameters
    ----------
    f1 : Tensor
        Mole fraction of monomer 1 in the feed, ``0 < f1 < 1``.
    r1, r2 : Tensor
        Positive reactivity ratios, broadcastable against ``f1``.
    as_ratio : bool
        Give ``F1 / F2`` in place of the fraction ``F1``.
    """

    @staticmethod
    def forward(f1, r1, r2, as_ratio=False):
        _, like, cross, other = _terms(f1, r1, r2)
        top = like + cross
        bottom = cross + other
        return top / bottom if as_ratio else top / (top + bottom)

    @staticmethod
    def setup_context(ctx, inputs, output):
        f1, r1, r2, ctx.as_ratio = inputs
        ctx.save_for_backward(f1, r1, r2)

    @staticmethod
    def backward(ctx, grad):
        f1, r1, r2 = ctx.saved_tensors
        f2, like, cross, other = _terms(f1, r1, r2)
        top, bottom = like + cross, cross + other
        if ctx.as_ratio:
            d_top = 1.0 / bottom
            d_bottom = -top / bottom**2
        else:
            whole = (top + bottom) ** 2
            d_top = bottom / whole
            d_bottom = -top / whole
        top_f = 2 * r1 * f1 + f2 - f1
        bottom_f = f2 - f1 - 2 * r2 * f2
        g_f = grad * (d_top * top_f + d_bottom * bottom_f)
        g_r1 = grad * d_top * f1 * f1
        g_r2 = grad * d_bottom * f2 * f2
        return (
            g_f.sum_to_size(f1.shape),
            g_r1.sum_to_size(r1.shape),
            g_r2.sum_to_size(r2.shape),
            None,
        )


class ChainMoments(torch.autograd.Function):
    """Number average, weight average and dispersity of a chain distribution.

    Args:
        amount: moles of each species, shape ``(batch, species)``; positive somewhere in every row's mask.
        mass: molar mass of each species, shape ``(species,)`` or ``(batch, species)``.
        detected: boolean ``(batch, species)``, species within the detector's window, or None for all.

    Returns:
        Tuple ``(mn, mw, dispersity)``, each ``(batch,)``.
    """

    @staticmethod
    def forward(ctx, amount, mass, detected=None):
        ctx.set_materialize_grads(False)
        n = amount if detected is None else torch.where(detected, amount, torch.zeros_like(amount))
        m0 = n.sum(-1)
        m1 = (n * mass).sum(-1)
        m2 = (n * mass * mass).sum(-1)
        mn, mw = m1 / m0, m2 / m1
        ctx.save_for_backward(n, mass, m0, m1, mn, mw)
        ctx.detected = detected
        return mn, mw, mw / mn

    @staticmethod
    def backward(ctx, g_mn, g_mw, g_d):
        n, mass, m0, m1, mn, mw = ctx.saved_tensors
        a = torch.zeros_like(mn)
        b = torch.zeros_like(mw)
        if g_mn is not None:
            a = a + g_mn
        if g_mw is not None:
            b = b + g_mw
        if g_d is not None:
            a = a - g_d * mw / mn**2
            b = b + g_d / mn
        a = (a / m0)[:, None]
        b = (b / m1)[:, None]
        mn, mw = mn[:, None], mw[:, None]
        g_amount = a * (mass - mn) + b * mass * (mass - mw)
        g_mass = n * (a + b * (2 * mass - mw))
        if ctx.detected is not None:
            g_amount = torch.where(ctx.detected, g_amount, torch.zeros_like(g_amount))
        return g_amount, g_mass.sum_to_size(mass.shape), None


class FoxBlend(torch.autograd.Function):
    """Glass transition of a blend by the Fox equation, ``1/Tg = sum_i w_i / Tg_i``.

    Parameters
    ----------
    weight : Tensor, ``(..., components)``
        Amounts by weight; brought to unit sum when `normalise` is set.
    tg : Tensor, ``(components,)``
        Transitions of the pure components.
    normalise : bool
    celsius : bool
        `tg` and the result are in degrees Celsius and not in kelvin.
    """

    @staticmethod
    def forward(ctx, weight, tg, normalise=True, celsius=False):
        recip = 1.0 / (tg + KELVIN if celsius else tg)
        scale = weight.sum(-1, keepdim=True) if normalise else torch.ones_like(weight[..., :1])
        fraction = weight / scale
        inverse = (fraction * recip).sum(-1, keepdim=True)
        ctx.save_for_backward(fraction, scale, tg, recip, inverse)
        ctx.normalise = normalise
        blend = inverse.reciprocal().squeeze(-1)
        return blend - KELVIN if celsius else blend

    @staticmethod
    def backward(ctx, grad):
        fraction, scale, tg, recip, inverse = ctx.saved_tensors
        g_inverse = -grad[..., None] / inverse**2
        g_weight = g_inverse * (recip - inverse if ctx.normalise else recip) / scale
        g_tg = -g_inverse * fraction / tg**2
        return g_weight, g_tg.sum_to_size(tg.shape), None, None


class TransitionModel(nn.Module):
    """Glass transition of the copolymer made at a given feed."""

    def __init__(self, pair="styrene/mma", tg=(373.0, 378.0), celsius=False):
        super().__init__()
        r1, r2 = PAIRS[pair]
        self.r1 = nn.Parameter(torch.tensor(r1))
        self.r2 = nn.Parameter(torch.tensor(r2))
        self.tg = nn.Parameter(torch.tensor(tg))
        self.celsius = celsius

    def forward(self, f1):
        share = MayoLewis.apply(f1, self.r1, self.r2, False)
        return FoxBlend.apply(torch.stack([share, 1 - share], -1), self.tg, True, self.celsius)
