# Chromatogram peaks and damped dispersion for the fitting scripts.
import math

import torch
from torch import nn

_SQRT2 = math.sqrt(2.0)
_SQRT2PI = math.sqrt(2.0 * math.pi)


def _emg_shape(d, sigma, tau):
    """Unit-area exponentially modified Gaussian and the plain Gaussian at offset d."""
    ratio = sigma / tau
    z = (ratio - d / sigma) / _SQRT2
    bell = torch.exp(-0.5 * (d / sigma) ** 2)
    front = bell * torch.special.erfcx(z.clamp_min(0.0))
    tail = torch.exp((0.5 * ratio ** 2 - d / tau).clamp_max(0.0)) * torch.special.erfc(z.clamp_max(0.0))
    return torch.where(z >= 0, front, tail) / (2.0 * tau), bell / (sigma * _SQRT2PI)


class ModifiedGaussianPeak(torch.autograd.Function):
    """Sum of exponentially modified Gaussian (EMG) peaks.

    Parameters
    ----------
    t : Tensor, shape (T,)
        Retention times.
    area, mu, sigma, tau : Tensor, shape (..., P)
        Peak areas, centres of the Gaussian part, its widths (> 0) and the time
        constants of the tail (> 0). All four have the same shape.

    Returns
    -------
    Tensor, shape (..., T)

    Notes
    -----
    With ``h`` the unit peak and ``g`` its Gaussian, ``tau h' + h = g`` and
    ``dg/dsigma = sigma g''``, which give all derivatives without another call of
    the error function.
    """

    @staticmethod
    def forward(ctx, t, area, mu, sigma, tau):
        d = t - mu.unsqueeze(-1)
        h, _ = _emg_shape(d, sigma.unsqueeze(-1), tau.unsqueeze(-1))
        ctx.save_for_backward(t, area, mu, sigma, tau)
        return (area.unsqueeze(-1) * h).sum(-2)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        t, area, mu, sigma, tau = ctx.saved_tensors
        s, c = sigma.unsqueeze(-1), tau.unsqueeze(-1)
        d = t - mu.unsqueeze(-1)
        h, g = _emg_shape(d, s, c)
        slope = (g - h) / c
        curve = (-d / s ** 2 * g - slope) / c
        d_tau = h * (d / c ** 2 - 1.0 / c - s ** 2 / c ** 3) + s ** 2 * g / c ** 3

        up = grad.unsqueeze(-2)
        weighted = up * area.unsqueeze(-1)
        g_area = (up * h).sum(-1)
        g_d = weighted * slope
        g_t = g_d.sum_to_size(t.shape)
        g_sigma = (weighted * s * curve).sum(-1)
        g_tau = (weighted * d_tau).sum(-1)
        return g_t, g_area, -g_d.sum(-1), g_sigma, g_tau


class TangToennies(torch.autograd.Function):
    """Damped dispersion energy of atom pairs.

        E_m = - sum_n C[n, type_m] f_n(b r_m) / r_m^n       (r_m < cutoff, else 0)
        f_n(x) = 1 - exp(-x) sum_{k<=n} x^k / k!

    r          (M,) distances, > 0
    b          scalar tensor, range of the damping
    coeff      (len(orders), n_types) dispersion coefficients
    pair_type  (M,) integer
    orders     powers of 1/r
    cutoff     None (no cutoff) or a distance

    f_n is the regularised lower incomplete gamma function P(n + 1, x).
    """

    @staticmethod
    def _terms(r, b, orders):
        n = torch.tensor(orders, dtype=r.dtype, device=r.device).unsqueeze(1)
        x = b * r
        damp = torch.special.gammainc(n + 1.0, x.expand(len(orders), -1))
        ddamp = torch.exp(n * torch.log(x) - x - torch.lgamma(n + 1.0))
        return n, damp, ddamp, r.pow(-n)

    @staticmethod
    def forward(ctx, r, b, coeff, pair_type, orders=(6, 8, 10), cutoff=None):
        _, damp, _, inv = TangToennies._terms(r, b, orders)
        energy = -(coeff[:, pair_type] * damp * inv).sum(0)
        if cutoff is not None:
            energy = torch.where(r < cutoff, energy, torch.zeros_like(energy))
        ctx.save_for_backward(r, b, coeff, pair_type)
        ctx.orders, ctx.cutoff = tuple(orders), cutoff
        return energy

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        r, b, coeff, pair_type = ctx.saved_tensors
        n, damp, ddamp, inv = TangToennies._terms(r, b, ctx.orders)
        c = coeff[:, pair_type]
        per_r = (c * inv * (n * damp / r - b * ddamp)).sum(0)
        per_b = -(c * inv * ddamp * r).sum(0)
        if ctx.cutoff is not None:
            inside = (r < ctx.cutoff).to(r.dtype)
            per_r, per_b = per_r * inside, per_b * inside
        g_coeff = torch.zeros_like(coeff).index_add_(1, pair_type, -grad * damp * inv)
        return grad * per_r, (grad * per_b).sum(), g_coeff, None, None, None


class PeakModel(nn.Module):
    def __init__(self, centres, width=0.1, tail=0.05):
        super().__init__()
        centres = torch.as_tensor(centres)
        self.mu = nn.Parameter(centres.clone())
        self.log_area = nn.Parameter(torch.zeros_like(centres))
        self.log_sigma = nn.Parameter(torch.full_like(centres, math.log(width)))
        self.log_tau = nn.Parameter(torch.full_like(centres, math.log(tail)))

    def forward(self, t):
        return ModifiedGaussianPeak.apply(
            t, self.log_area.exp(), self.mu, self.log_sigma.exp(), self.log_tau.exp())


def fit_dispersion(r, pair_type, reference, n_types, steps=200, lr=1e-2, cutoff=None):
    """Least squares fit of the coefficients and the damping range."""
    log_b = torch.zeros((), dtype=r.dtype, requires_grad=True)
    coeff = torch.ones(3, n_types, dtype=r.dtype, requires_grad=True)
    opt = torch.optim.Adam([log_b, coeff], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        energy = TangToennies.apply(r, log_b.exp(), coeff, pair_type, (6, 8, 10), cutoff)
        loss = (energy - reference).square().mean()
        loss.backward()
        opt.step()
    return log_b.exp().detach(), coeff.detach()
