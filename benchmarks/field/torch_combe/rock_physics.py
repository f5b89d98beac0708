"""Rock-physics forward operators used by the elastic inversion code.

All operators work on plain tensors, in SI units, and broadcast like ordinary
torch arithmetic unless the docstring says otherwise.
"""
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd import Function


def _reduce_to(grad: Tensor, shape: torch.Size) -> Tensor:
    """Sum ``grad`` down to ``shape`` (inverse of broadcasting)."""
    if grad.shape == shape:
        return grad
    return grad.sum_to_size(shape)


class ThomsenVelocity(Function):
    r"""Exact qP phase velocity of a VTI medium in Thomsen notation.

    Tsvankin's (1996) form,

    .. math::
        \frac{v^2}{v_{P0}^2} = 1 + \epsilon s^2 - \frac f2
            + \frac f2 \sqrt{\left(1 + \frac{2 \epsilon s^2}{f}\right)^2
            - \frac{2 (\epsilon - \delta) \sin^2 2\theta}{f}},
        \qquad f = 1 - v_{S0}^2 / v_{P0}^2, \; s = \sin\theta

    Parameters
    ----------
    theta : Tensor
        Phase angle from the symmetry axis, radians.
    vp0, vs0 : Tensor
        Vertical velocities, ``0 <= vs0 < vp0``.
    epsilon, delta : Tensor
        Thomsen parameters, such that the square root is real and positive.

    Returns
    -------
    Tensor
        Phase velocity, with the broadcast shape of the five arguments.

    Notes
    -----
    All five arguments are differentiable.
    """

    @staticmethod
    def forward(theta, vp0, vs0, epsilon, delta):
        s2 = torch.sin(theta) ** 2
        q2 = torch.sin(2.0 * theta) ** 2
        f = 1.0 - (vs0 / vp0) ** 2
        root = torch.sqrt((1.0 + 2.0 * epsilon * s2 / f) ** 2 - 2.0 * (epsilon - delta) * q2 / f)
        return vp0 * torch.sqrt(1.0 + epsilon * s2 - 0.5 * f + 0.5 * f * root)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad_out):
        theta, vp0, vs0, epsilon, delta, v = ctx.saved_tensors
        s2 = torch.sin(theta) ** 2
        s2t, c2t = torch.sin(2.0 * theta), torch.cos(2.0 * theta)
        q2 = s2t**2
        f = 1.0 - (vs0 / vp0) ** 2
        a = 1.0 + 2.0 * epsilon * s2 / f
        root = torch.sqrt(a**2 - 2.0 * (epsilon - delta) * q2 / f)
        w = v / vp0
        # everything below is d(w^2)/d(.)
        d_s2 = epsilon + epsilon * a / root
        d_q2 = -0.5 * (epsilon - delta) / root
        d_f = -0.5 + 0.5 * root + (-2.0 * a * epsilon * s2 + (epsilon - delta) * q2) / (2.0 * f * root)
        d_eps = s2 + (a * s2 - 0.5 * q2) / root
        d_del = 0.5 * q2 / root
        g = grad_out * vp0 / (2.0 * w)
        g_theta = g * (d_s2 * s2t + d_q2 * 4.0 * s2t * c2t)
        g_vp0 = grad_out * w + g * d_f * 2.0 * vs0**2 / vp0**3
        g_vs0 = -g * d_f * 2.0 * vs0 / vp0**2
        grads = (g_theta, g_vp0, g_vs0, g * d_eps, g * d_del)
        return tuple(
            _reduce_to(gr, x.shape) if need else None
            for gr, x, need in zip(grads, (theta, vp0, vs0, epsilon, delta), ctx.needs_input_grad)
        )


class HashinShtrikmanBulk(Function):
    """Two-phase Hashin-Shtrikman (lower, upper) bounds on the bulk modulus; f1 is the fraction of phase 1."""

    @staticmethod
    def forward(ctx, f1, k1, k2, mu1, mu2):
        f1, k1, k2, mu1, mu2 = torch.broadcast_tensors(f1, k1, k2, mu1, mu2)
        z_lo = 4.0 / 3.0 * torch.minimum(mu1, mu2)
        z_hi = 4.0 / 3.0 * torch.maximum(mu1, mu2)
        lower = 1.0 / (f1 / (k1 + z_lo) + (1.0 - f1) / (k2 + z_lo)) - z_lo
        upper = 1.0 / (f1 / (k1 + z_hi) + (1.0 - f1) / (k2 + z_hi)) - z_hi
        ctx.save_for_backward(f1, k1, k2, z_lo, z_hi)
        return lower, upper

    @staticmethod
    def backward(ctx, g_lower, g_upper):
        f1, k1, k2, z_lo, z_hi = ctx.saved_tensors

        def one(g, z):
            p, q = 1.0 / (k1 + z), 1.0 / (k2 + z)
            m2 = 1.0 / (f1 * p + (1.0 - f1) * q) ** 2
            df = -m2 * (p - q)
            dk1 = m2 * f1 * p * p
            dk2 = m2 * (1.0 - f1) * q * q
            return g * df, g * dk1, g * dk2, g * (dk1 + dk2 - 1.0)

        lf, lk1, lk2, lz = one(g_lower, z_lo)
        uf, uk1, uk2, uz = one(g_upper, z_hi)
        return lf + uf, lk1 + uk1, lk2 + uk2, 4.0 / 3.0 * uz, 4.0 / 3.0 * lz


def _running_sum(x: Tensor, before: int, after: int) -> Tensor:
    """``out[i] = sum(x[i - before : i + after + 1])``, cut at both ends."""
    n = x.shape[-1]
    c = torch.nn.functional.pad(x.cumsum(-1), (1, 0))
    i = torch.arange(n, device=x.device)
    hi = (i + after + 1).clamp(max=n)
    lo = (i - before).clamp(min=0)
    return c[..., hi] - c[..., lo]


class BackusWindow(Function):
    """Running Backus (thickness-weighted harmonic) average along a log.

    For every sample ``i`` the layers ``i - (window - 1) // 2`` to
    ``i + window // 2`` (inclusive, cut at the ends of the log) are replaced by
    one effective layer of modulus ``sum(h) / sum(h / M)``.

    Parameters
    ----------
    modulus : Tensor, shape (..., n)
        P- or S-wave modulus, positive.
    thickness : Tensor, shape (..., n)
        Layer thickness, positive, same shape as ``modulus``.
    window : int
        Window length in samples, ``>= 1``; both odd and even lengths are fine.

    Returns
    -------
    Tensor, shape (..., n)
    """

    @staticmethod
    def forward(ctx, modulus, thickness, window):
        ctx.span = ((window - 1) // 2, window // 2)
        total = _running_sum(thickness, *ctx.span)
        compliance = _running_sum(thickness / modulus, *ctx.span)
        ctx.save_for_backward(modulus, thickness, total, compliance)
        return total / compliance

    @staticmethod
    def backward(ctx, grad):
        modulus, thickness, total, compliance = ctx.saved_tensors
        g_total = _running_sum(grad / compliance, *ctx.span)
        g_comp = _running_sum(-grad * total / compliance**2, *ctx.span)
        g_mod = -g_comp * thickness / modulus**2
        g_thick = g_total + g_comp / modulus
        return g_mod, g_thick, None


class UpscaledLog(nn.Module):
    def __init__(self, n: int, window: int = 11):
        super().__init__()
        self.log_modulus = nn.Parameter(torch.full((n,), 23.0))
        self.register_buffer("thickness", torch.ones(n))
        self.window = window

    def forward(self) -> Tensor:
        return BackusWindow.apply(self.log_modulus.exp(), self.thickness, self.window)
