"""Activity models and adsorption isotherms for learned process models."""

import typing as t

import torch
import torch.nn as nn
import torch.nn.functional as F


class WilsonActivityFunction(torch.autograd.Function):
    """Log activity coefficients of the Wilson model.

        ln g_i = 1 - ln S_i - sum_k x_k L_ki / S_k,     S_k = sum_j L_kj x_j

    Args:
        x: mole fractions, shape (batch, n), positive.
        lam: binary interaction matrix, shape (n, n), positive entries. ``lam[i, j]``
            belongs to the pair (i, j), the matrix is in general not symmetric.

    Returns:
        ln gamma, shape (batch, n).
    """

    @staticmethod
    def forward(ctx, x: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        s = x @ lam.t()
        ratio = x / s
        ctx.save_for_backward(x, lam, s, ratio)
        return 1.0 - torch.log(s) - ratio @ lam

    @staticmethod
    def backward(ctx, g: torch.Tensor):
        x, lam, s, ratio = ctx.saved_tensors
        g_ratio = -(g @ lam.t())
        g_s = -g / s - g_ratio * ratio / s
        g_x = g_lam = None
        if ctx.needs_input_grad[0]:
            g_x = g_ratio / s + g_s @ lam.t()
        if ctx.needs_input_grad[1]:
            g_lam = g_s.t() @ x - ratio.t() @ g
        return g_x, g_lam


class DaviesActivity(torch.autograd.Function):
    """Davies activity coefficients of dissolved ions.

    Args:
        conc: molalities, shape (..., n), non-negative, with a positive ionic strength.
        debye_a: Debye-Hueckel constant, shape ``conc.shape[:-1]`` or a 0-d tensor.
        charges: tuple of n integer charges.
        slope: linear coefficient (0.3 after Davies, 0.2 in the older form).

    Returns:
        log10 gamma, shape (..., n), and the ionic strength, shape (...).
    """

    @staticmethod
    def forward(conc, debye_a, charges: t.Tuple[int, ...], slope: float = 0.3):
        z2 = conc.new_tensor(charges).square()
        strength = 0.5 * (conc * z2).sum(-1)
        root = strength.sqrt()
        f = root / (1 + root) - slope * strength
        return -(debye_a * f).unsqueeze(-1) * z2, strength

    @staticmethod
    def setup_context(ctx, inputs, output):
        conc, debye_a, charges, slope = inputs
        _, strength = output
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(debye_a, strength)
        ctx.charges, ctx.slope = charges, slope

    @staticmethod
    def backward(ctx, g_log, g_strength):
        debye_a, strength = ctx.saved_tensors
        z2 = strength.new_tensor(ctx.charges).square()
        root = strength.sqrt()
        g_i = torch.zeros_like(strength) if g_strength is None else g_strength
        g_a = None
        if g_log is not None:
            pulled = -(g_log * z2).sum(-1)
            df = 0.5 / (root * (1 + root) ** 2) - ctx.slope
            g_i = g_i + pulled * debye_a * df
            if ctx.needs_input_grad[1]:
                g_a = pulled * (root / (1 + root) - ctx.slope * strength)
                if debye_a.dim() == 0:
                    g_a = g_a.sum()
        return 0.5 * g_i.unsqueeze(-1) * z2, g_a, None, None


class CompetitiveAdsorption(torch.autograd.Function):
    """Langmuir coverages of gases that compete for one kind of site.

    ``theta_i = b_i / (1 + sum_j b_j)`` with ``b_i = (K_i p_i) ** (1 / n_i)``.
    ``pressure`` is (batch, gases), ``affinity`` is (gases,), both positive.
    ``pieces`` gives n_i, the number of fragments a molecule dissociates into on the
    surface (1 molecular, 2 for H2 or O2); None means that nothing dissociates.
    The vacant fraction is returned as second value.
    """

    @staticmethod
    def forward(ctx, pressure, affinity, pieces=None):
        b = affinity * pressure
        if pieces is not None:
            b = b ** (1.0 / b.new_tensor(pieces))
        vacant = 1.0 / (1.0 + b.sum(-1, keepdim=True))
        theta = b * vacant
        ctx.save_for_backward(pressure, affinity, theta, vacant)
        return theta, vacant.squeeze(-1)

    @staticmethod
    def backward(ctx, g_theta, g_vacant):
        pressure, affinity, theta, vacant = ctx.saved_tensors
        mixed = (g_theta * theta).sum(-1, keepdim=True) + g_vacant.unsqueeze(-1) * vacant
        # d log b_i: coverages are a softmax over (log b, 0)
        g_logb = theta * (g_theta - mixed)
        g_pressure = g_logb / pressure
        g_affinity = (g_logb / affinity).sum(0)
        return g_pressure, g_affinity, None


def wilson_log_gamma(x, lam):
    return WilsonActivityFunction.apply(x, lam)


def bubble_pressure(x: torch.Tensor, lam: torch.Tensor, p_sat: torch.Tensor) -> torch.Tensor:
    """Total pressure of a liquid of composition ``x`` (modified Raoult)."""
    return (x * wilson_log_gamma(x, lam).exp() * p_sat).sum(-1)


class WilsonNet(nn.Module):
    """Interaction matrix from component descriptors, then the Wilson model."""

    def __init__(self, n_descriptors: int, width: int = 16):
        super().__init__()
        self.pair = nn.Sequential(nn.Linear(2 * n_descriptors, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x, descriptors):
        n = descriptors.shape[0]
        left = descriptors[:, None].expand(n, n, -1)
        right = descriptors[None].expand(n, n, -1)
        lam = F.softplus(self.pair(torch.cat([left, right], -1)).squeeze(-1)) + 1e-3
        eye = torch.eye(n, dtype=torch.bool, device=x.device)
        return wilson_log_gamma(x, lam.masked_fill(eye, 1.0))


class SurfaceRate(nn.Module):
    """Bimolecular Langmuir-Hinshelwood rate ``k theta_a theta_b``."""

    def __init__(self, gases: int, a: int, b: int, pieces: t.Optional[t.Tuple[int, ...]] = None):
        super().__init__()
        self.log_affinity = nn.Parameter(torch.zeros(gases))
        self.log_k = nn.Parameter(torch.zeros(()))
        self.a, self.b, self.pieces = a, b, pieces

    def forward(self, pressure):
        theta, _ = CompetitiveAdsorption.apply(pressure, self.log_affinity.exp(), self.pieces)
        return self.log_k.exp() * theta[:, self.a] * theta[:, self.b]
