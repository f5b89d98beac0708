"""Rate laws for fitting plate-reader data.

Concentrations are batched as (wells, enzymes); constants are per enzyme and broadcast.
"""

from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn


def _fit(g, like_shape):
    return g.sum_to_size(like_shape)


class PingPongVelocity(torch.autograd.Function):
    """Ping-pong bi-bi velocity.

        v = Vmax A B / (Ka B (1 + B / Ki) + Kb A + A B)

    ``a`` and ``b`` (> 0) and the constants (> 0) broadcast against each other.
    ``ki=None`` switches the substrate inhibition by B off.
    """

    @staticmethod
    def forward(a, b, vmax, ka, kb, ki=None):
        inhib = 1.0 if ki is None else 1.0 + b / ki
        return vmax * a * b / (ka * b * inhib + kb * a + a * b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_v):
        a, b, vmax, ka, kb, ki = ctx.saved_tensors
        inhib = torch.ones_like(b) if ki is None else 1.0 + b / ki
        den = ka * b * inhib + kb * a + a * b
        u = grad_v * vmax / den.square()
        g_den = -u * a * b  # cotangent of the denominator

        # the quotient rule with the common terms cancelled by hand
        grad_a = u * ka * b.square() * inhib
        grad_b = u * a * (kb * a + ka * b * (1.0 - inhib))
        grad_vmax = grad_v * a * b / den
        grad_ka = g_den * b * inhib
        grad_kb = g_den * a
        grad_ki = None
        if ki is not None and ctx.needs_input_grad[5]:
            grad_ki = _fit(-g_den * ka * (b / ki).square(), ki.shape)
        return (
            _fit(grad_a, a.shape),
            _fit(grad_b, b.shape),
            _fit(grad_vmax, vmax.shape),
            _fit(grad_ka, ka.shape),
            _fit(grad_kb, kb.shape),
            grad_ki,
        )


class MwcSaturation(torch.autograd.Function):
    """Monod-Wyman-Changeux fractional saturation of an n-site protein; c is K_R/K_T (0: exclusive binding to R)."""

    @staticmethod
    def forward(ctx, alpha, log_l, c, n):
        big_l = log_l.exp()
        x, y = 1 + alpha, 1 + c * alpha
        den = x**n + big_l * y**n
        sat = (alpha * x ** (n - 1) + big_l * c * alpha * y ** (n - 1)) / den
        ctx.save_for_backward(alpha, big_l, c, den, sat)
        ctx.n = n
        return sat

    @staticmethod
    def backward(ctx, grad_out):
        alpha, big_l, c, den, sat = ctx.saved_tensors
        n = ctx.n
        x, y = 1 + alpha, 1 + c * alpha
        lc = big_l * c
        # alpha
        dnum = x ** (n - 2) * (1 + n * alpha) + lc * y ** (n - 1)
        dden = n * (x ** (n - 1) + lc * y ** (n - 1))
        g_alpha = grad_out * (dnum - sat * dden) / den
        # log L
        g_logl = grad_out * big_l * (c * alpha * y ** (n - 1) - sat * y**n) / den
        # c
        dnum_c = big_l * alpha * y ** (n - 2) * (1 + n * c * alpha)
        g_c = grad_out * (dnum_c - sat * n * big_l * alpha * y ** (n - 1)) / den
        return _fit(g_alpha, alpha.shape), _fit(g_logl, big_l.shape), _fit(g_c, c.shape), None


# (e^-x (1 + x) - 1) / x^2 = sum_m COEF[m] x^m
_COEF = (
    -1 / 2,
    1 / 3,
    -1 / 8,
    1 / 30,
    -1 / 144,
    1 / 840,
    -1 / 5760,
    1 / 45360,
    -1 / 403200,
    1 / 3991680,
)


def _psi(x):
    small = x.abs() < 0.25
    xs = torch.where(small, x, torch.zeros_like(x))
    series = torch.zeros_like(x)
    for coef in reversed(_COEF):
        series = series * xs + coef
    xl = torch.where(small, torch.ones_like(x), x)
    return torch.where(small, series, (torch.expm1(-xl) + xl * torch.exp(-xl)) / xl.square())


def _phi(x):
    xl = torch.where(x == 0, torch.ones_like(x), x)
    return torch.where(x == 0, torch.ones_like(x), -torch.expm1(-xl) / xl)


class SlowBindingProgress(torch.autograd.Function):
    @staticmethod
    def forward(t, v0, vs, k):
        return vs * t + (v0 - vs) * t * _phi(k * t)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        t, v0, vs, k = ctx.saved_tensors
        x = k * t
        lag = t * _phi(x)
        gt = g * (vs + (v0 - vs) * torch.exp(-x))
        gk = g * (v0 - vs) * t.square() * _psi(x)
        return (
            _fit(gt, t.shape),
            _fit(g * lag, v0.shape),
            _fit(g * (t - lag), vs.shape),
            _fit(gk, k.shape),
        )


@dataclass
class AssayConfig:
    n_enzymes: int
    n_sites: int = 4
    exclusive: bool = True


class AllostericModel(nn.Module):
    def __init__(self, cfg: AssayConfig):
        super().__init__()
        self.cfg = cfg
        self.log_kr = nn.Parameter(torch.zeros(cfg.n_enzymes))
        self.log_l = nn.Parameter(torch.full((cfg.n_enzymes,), 5.0))
        self.log_c: Optional[nn.Parameter] = None
        if not cfg.exclusive:
            self.log_c = nn.Parameter(torch.full((cfg.n_enzymes,), -3.0))

    def forward(self, substrate):
        alpha = substrate * torch.exp(-self.log_kr)
        c = torch.zeros_like(self.log_l) if self.log_c is None else self.log_c.exp()
        return MwcSaturation.apply(alpha, self.log_l, c, self.cfg.n_sites)


def progress_curve(t, v0, vs, k):
    """Product formed at time t (wells, reads, enzymes) for a slow-binding inhibitor; k, t >= 0."""
    return SlowBindingProgress.apply(t, v0, vs, k)
