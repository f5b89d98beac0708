"""Two-port algebra for the matching-network tuner. Complex gradients follow torch's convention (dL/dRe + i dL/dIm)."""
import math
from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

DB = math.log(10.0) / 10.0


class ChainBudget(NamedTuple):
    noise_figure: Tensor
    gain: Tensor


def _fit(grad, x):
    grad = grad if x.is_complex() else grad.real
    return grad.sum_to_size(x.shape)


def _db_to_lin(x):
    return torch.exp(DB * x)


class CascadeSections(Function):
    """Chain (ABCD) matrix of a ladder.

    Args:
        sections: ``(..., K, 2, 2)`` chain matrices from source to load, real or complex, K >= 1; the leading dims are
            usually (design, frequency).

    Returns:
        the ordered product ``sections[..., 0] @ ... @ sections[..., K-1]``, shape ``(..., 2, 2)``.

    Backward keeps the running products from the left and builds those from the right, O(K), no inverses, so sections
    may be singular.
    """

    @staticmethod
    def forward(ctx, sections):
        running = torch.eye(2, dtype=sections.dtype, device=sections.device).expand(sections.shape[:-3] + (2, 2))
        before = []
        for k in range(sections.shape[-3]):
            before.append(running)
            running = running @ sections[..., k, :, :]
        ctx.save_for_backward(sections, torch.stack(before, -3))
        return running

    @staticmethod
    def backward(ctx, g):
        sections, before = ctx.saved_tensors
        out = [None] * sections.shape[-3]
        for k in reversed(range(sections.shape[-3])):
            out[k] = before[..., k, :, :].mT @ g
            g = g @ sections[..., k, :, :].mT
        return torch.stack(out, -3)


class RenormalizeReflection(Function):
    """Reflection at real reference z_old -> power-wave reflection at the complex reference z_new (Kurokawa)."""

    @staticmethod
    def forward(ctx, gamma, z_old, z_new):
        up, down = 1 + gamma, 1 - gamma
        lower = z_old * up + z_new * down
        moved = (z_old * up - z_new.conj() * down) / lower
        ctx.save_for_backward(gamma, z_old, z_new, lower, moved)
        return moved

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        gamma, z_old, z_new, lower, moved = ctx.saved_tensors
        by_gamma = ((z_old + z_new.conj()) - moved * (z_old - z_new)) / lower
        by_old = (1 + gamma) * (1 - moved) / lower
        by_new = -moved * (1 - gamma) / lower
        by_new_conj = -(1 - gamma) / lower
        d_gamma = _fit(g * by_gamma.conj(), gamma)
        d_old = _fit(g * by_old.conj(), z_old)
        d_new = _fit(g * by_new.conj() + g.conj() * by_new_conj, z_new)
        return d_gamma, d_old, d_new


class StageBudget(Function):
    @staticmethod
    def forward(ctx, nf_db, gain_db, bypass: Optional[Tensor]):
        if bypass is not None:
            on = (~bypass).to(nf_db.dtype)
            nf_db, gain_db = nf_db * on, gain_db * on
        else:
            on = torch.ones_like(nf_db)
        factor = _db_to_lin(nf_db)
        ahead = _db_to_lin(gain_db.cumsum(-1) - gain_db)
        terms = (factor - 1.0) / ahead
        total = 1.0 + terms.sum(-1)
        ctx.save_for_backward(factor, ahead, terms, total, on)
        return total.log() / DB, gain_db.sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, g_nf, g_gain):
        factor, ahead, terms, total, on = ctx.saved_tensors
        lead = (g_nf / total).unsqueeze(-1)
        d_nf = lead * factor / ahead * on
        later = terms.flip(-1).cumsum(-1).flip(-1) - terms
        d_gain = -lead * later * on + g_gain.unsqueeze(-1)
        return d_nf, d_gain, None


def chain_budget(nf_db, gain_db, bypass=None) -> ChainBudget:
    return ChainBudget(*StageBudget.apply(nf_db, gain_db, bypass))


def series_element(z):
    one, zero = torch.ones_like(z), torch.zeros_like(z)
    return torch.stack([torch.stack([one, z], -1), torch.stack([zero, one], -1)], -2)


def shunt_element(y):
    one, zero = torch.ones_like(y), torch.zeros_like(y)
    return torch.stack([torch.stack([one, zero], -1), torch.stack([y, one], -1)], -2)


def ladder(series_l, shunt_c, freq, series_r=0.05):
    w = 2 * math.pi * freq
    parts = []
    for l, c in zip(series_l, shunt_c):
        parts += [series_element(torch.complex(torch.full_like(w, series_r), w * l)), shunt_element(1j * w * c)]
    return CascadeSections.apply(torch.stack(parts, -3))


if __name__ == "__main__":
    f = torch.linspace(0.5e9, 2e9, 7, dtype=torch.float64)
    L = torch.tensor([4e-9, 6e-9], dtype=torch.float64, requires_grad=True)
    C = torch.tensor([2e-12, 2e-12], dtype=torch.float64, requires_grad=True)
    m = ladder(L, C, f)
    print((m[..., 0, 0].abs() ** 2).sum())
