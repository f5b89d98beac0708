import torch
from torch import nn
from torch.autograd.function import once_differentiable


def _fit(grad, like):
    return grad.sum_to_size(like.shape)


class SigmoidalGrazing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, density, attack, handling, exponent=1.0):
        dq = density.pow(exponent)
        denom = 1.0 + attack * handling * dq
        ctx.save_for_backward(density, attack, handling, dq, denom)
        ctx.exponent = exponent
        return attack * dq / denom

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        density, attack, handling, dq, denom = ctx.saved_tensors
        inv2 = g / denom.square()
        g_density = inv2 * attack * density.pow(ctx.exponent - 1.0)
        g_attack = inv2 * dq
        g_handling = -inv2 * (attack * dq).square()
        return _fit(g_density, density), _fit(g_attack, attack), _fit(g_handling, handling), None


class ThermalNiche(torch.autograd.Function):
    """Asymmetric thermal performance curve of ectotherms.

    Performance rises as a Gaussian up to the optimum and falls as a parabola
    to zero at the critical maximum::

        P(T) = exp(-((T - t_opt) / (2 sigma))^2)             T <= t_opt
        P(T) = 1 - ((T - t_opt) / (t_opt - ct_max))^2        t_opt < T < ct_max
        P(T) = 0                                             T >= ct_max

    Args:
        temp: body temperatures, e.g. ``(sites, days, 1)``.
        t_opt: thermal optimum, broadcastable against ``temp``, e.g. ``(species,)``.
        sigma: width of the rising limb, > 0, broadcastable.
        ct_max: critical thermal maximum, > ``t_opt``, broadcastable.

    Returns:
        Performance in [0, 1] with the broadcast shape.

    Note:
        The curve has a kink at ``ct_max``; the slope from above (zero) is used there.
    """

    @staticmethod
    def forward(ctx, temp, t_opt, sigma, ct_max):
        d = temp - t_opt
        span = ct_max - t_opt
        rise = torch.exp(-(d / (2.0 * sigma)).square())
        fall = 1.0 - (d / span).square()
        cold = d <= 0
        dead = temp >= ct_max
        out = torch.where(cold, rise, torch.where(dead, torch.zeros_like(fall), fall))
        ctx.save_for_backward(temp, t_opt, sigma, ct_max)
        return out

    @staticmethod
    def backward(ctx, g):
        temp, t_opt, sigma, ct_max = ctx.saved_tensors
        d = temp - t_opt
        span = ct_max - t_opt
        cold = d <= 0
        warm = ~cold & (temp < ct_max)
        zero = torch.zeros_like(g)

        rise = torch.exp(-(d / (2.0 * sigma)).square())
        g_cold = torch.where(cold, g, zero)
        g_warm = torch.where(warm, g, zero)

        slope_cold = -rise * d / (2.0 * sigma.square())
        slope_warm = -2.0 * d / span.square()
        wrt_span = g_warm * 2.0 * d.square() / span.pow(3)

        g_temp = g_cold * slope_cold + g_warm * slope_warm
        g_opt = -g_temp - wrt_span
        g_sigma = g_cold * rise * d.square() / (2.0 * sigma.pow(3))
        return _fit(g_temp, temp), _fit(g_opt, t_opt), _fit(g_sigma, sigma), _fit(wrt_span, ct_max)


class DetectionCloglog(torch.autograd.Function):
    @staticmethod
    def forward(ctx, eta, log_effort, detected):
        lin = eta + log_effort
        mu = torch.exp(lin)
        log_p = torch.where(lin < -30.0, lin, torch.log(-torch.expm1(-mu.clamp(min=1e-20))))
        ctx.save_for_backward(eta, log_effort, mu, detected)
        return torch.where(detected, -log_p, mu)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        eta, log_effort, mu, detected = ctx.saved_tensors
        m = mu.clamp(max=80.0)
        ratio = torch.where(m < 1e-12, torch.ones_like(m), m / torch.expm1(m).clamp(min=1e-30))
        ratio = torch.where(mu > 80.0, mu.clamp(max=1e4) * torch.exp(-mu), ratio)
        gl = g * torch.where(detected, -ratio, mu)
        return _fit(gl, eta), _fit(gl, log_effort), None


class GrazerCommunity(nn.Module):
    """Per-species intake with temperature-scaled attack rates."""

    def __init__(self, species: int, exponent: float = 1.0):
        super().__init__()
        self.log_attack = nn.Parameter(torch.zeros(species))
        self.log_handling = nn.Parameter(torch.full((species,), -1.0))
        self.t_opt = nn.Parameter(torch.full((species,), 24.0))
        self.sigma = nn.Parameter(torch.full((species,), 4.0))
        self.margin = nn.Parameter(torch.full((species,), 8.0))
        self.exponent = exponent

    def forward(self, density: torch.Tensor, temp: torch.Tensor) -> torch.Tensor:
        perf = ThermalNiche.apply(temp, self.t_opt, self.sigma, self.t_opt + self.margin)
        attack = self.log_attack.exp() * perf
        return SigmoidalGrazing.apply(density, attack, self.log_handling.exp(), self.exponent)


def survey_nll(eta, effort_hours, detected):
    return DetectionCloglog.apply(eta, effort_hours.log(), detected.bool()).sum()
