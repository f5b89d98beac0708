"""Small trainable deltas on a frozen backbone.

One checkpoint of the backbone serves many tenants; each tenant owns a few
kilobytes of delta.  A batch mixes tenants, so that the per-tenant tables are
gathered row by row.

Contents
--------
InhibitAmplify   per-tenant rescaling of a projection (Liu et al. 2022)
KroneckerDelta   additive delta ``gain * kron(a, b)`` (Edalati et al. 2022)
DiffPruneMask    sparse additive delta with element and group gates
                 (Guo, Rush & Kim 2021)
"""

from __future__ import annotations

import math
from typing import Iterable, NamedTuple, Tuple

import torch
from torch import Tensor, nn

GATE_TEMPERATURE = 2.0 / 3.0
GATE_LOW = -0.1
GATE_HIGH = 1.1
UNIFORM_EDGE = 1e-6


class DeltaBudget(NamedTuple):
    trainable: int
    frozen: int

    @property
    def share(self) -> float:
        return self.trainable / max(1, self.frozen)


def budget_of(module: nn.Module) -> DeltaBudget:
    sizes = [(p.numel(), p.requires_grad) for p in module.parameters()]
    return DeltaBudget(sum(n for n, g in sizes if g), sum(n for n, g in sizes if not g))


def freeze(module: nn.Module) -> nn.Module:
    for p in module.parameters():
        p.requires_grad_(False)
    return module


def kron_factors(size: int) -> Tuple[int, int]:
    """The factor pair of ``size`` closest to its square root, smaller first."""
    small = int(math.isqrt(size))
    while size % small:
        small -= 1
    return small, size // small


class InhibitAmplify(torch.autograd.Function):
    """``(x @ weight.T) * table[tenant]``.

    x: (B, S, D_in); weight: (D_out, D_in); table: (tenants, D_out);
    tenant: (B,) integer, repeats allowed.  The projection is recomputed in the
    backward pass instead of being stored.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, table: Tensor, tenant: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, table, tenant)
        return (x @ weight.t()) * table[tenant][:, None, :]

    @staticmethod
    def backward(ctx, grad):
        x, weight, table, tenant = ctx.saved_tensors
        scaled = grad * table[tenant][:, None, :]
        g_x = g_weight = g_table = None
        if ctx.needs_input_grad[0]:
            g_x = scaled @ weight
        if ctx.needs_input_grad[1]:
            g_weight = torch.einsum("bso,bsi->oi", scaled, x)
        if ctx.needs_input_grad[2]:
            rows = (grad * (x @ weight.t())).sum(1)
            g_table = torch.zeros_like(table).index_add(0, tenant, rows)
        return g_x, g_weight, g_table, None


class KroneckerDelta(torch.autograd.Function):
    """Apply ``gain * kron(a, b)`` without forming it.

    Parameters
    ----------
    x : (..., q * n)
    a : (p, q)
    b : (m, n)
    gain : scalar tensor

    Returns
    -------
    (..., p * m)
    """

    @staticmethod
    def forward(ctx, x, a, b, gain):
        p, q = a.shape
        m, n = b.shape
        grid = x.reshape(-1, q, n)
        inner = grid @ b.t()
        out = a @ inner
        ctx.save_for_backward(grid, a, b, gain)
        ctx.lead = x.shape[:-1]
        return (gain * out).reshape(*ctx.lead, p * m)

    @staticmethod
    def backward(ctx, grad):
        grid, a, b, gain = ctx.saved_tensors
        g = grad.reshape(-1, a.shape[0], b.shape[0])
        inner = grid @ b.t()
        back = a.t() @ g
        g_gain = (g * (a @ inner)).sum()
        g_a = gain * torch.einsum("zpm,zqm->pq", g, inner)
        g_b = gain * torch.einsum("zqm,zqn->mn", back, grid)
        g_x = gain * (back @ b)
        return g_x.reshape(*ctx.lead, -1), g_a, g_b, g_gain


def _stretched(log_alpha: Tensor, noise: Tensor) -> Tuple[Tensor, Tensor]:
    noise = noise.clamp(UNIFORM_EDGE, 1.0 - UNIFORM_EDGE)
    logit = torch.log(noise) - torch.log1p(-noise)
    soft = torch.sigmoid((logit + log_alpha) / GATE_TEMPERATURE)
    return soft, soft * (GATE_HIGH - GATE_LOW) + GATE_LOW


def _open_probability(log_alpha: Tensor) -> Tensor:
    return torch.sigmoid(log_alpha - GATE_TEMPERATURE * math.log(-GATE_LOW / GATE_HIGH))


def _gate_slope(soft: Tensor, raw: Tensor) -> Tensor:
    """Derivative of a clipped gate in its ``log_alpha``."""
    slope = soft * (1.0 - soft) * (GATE_HIGH - GATE_LOW) / GATE_TEMPERATURE
    return torch.where(raw > 0.0, slope, torch.zeros_like(slope))


class DiffPruneMask(torch.autograd.Function):
    """Gated delta of a flat parameter vector, and its expected size.

    Every entry has a gate of its own and one shared with its group; a gate is
    a binary-concrete variable stretched to (-0.1, 1.1) and clipped to [0, 1].

    Args:
        delta: dense differences, (P,).
        log_alpha: location of the entry gates, (P,).
        group_alpha: location of the group gates, (G,).
        group_of: group of each entry, (P,) integer.
        noise: uniform draws for the entries, (P,).
        group_noise: uniform draws for the groups, (G,).

    Returns:
        The gated delta (P,) and the expected number of entries left on.
    """

    @staticmethod
    def forward(ctx, delta, log_alpha, group_alpha, group_of, noise, group_noise):
        soft, raw = _stretched(log_alpha, noise)
        g_soft, g_raw = _stretched(group_alpha, group_noise)
        gate = raw.clamp(0.0, 1.0)
        g_gate = g_raw.clamp(0.0, 1.0)
        on = _open_probability(log_alpha)
        g_on = _open_probability(group_alpha)
        ctx.save_for_backward(delta, soft, raw, g_soft, g_raw, on, g_on, group_of)
        return delta * gate * g_gate[group_of], (on * g_on[group_of]).sum()

    @staticmethod
    def backward(ctx, grad, grad_size):
        delta, soft, raw, g_soft, g_raw, on, g_on, group_of = ctx.saved_tensors
        gate = raw.clamp(0.0, 1.0)
        g_gate = g_raw.clamp(0.0, 1.0)
        shared = g_gate[group_of]
        d_delta = grad * gate * shared
        d_alpha = grad * delta * shared * _gate_slope(soft, raw)
        d_alpha = d_alpha + grad_size * on * (1.0 - on) * g_on[group_of]
        d_shared = torch.zeros_like(g_on).index_add(0, group_of, grad * delta * gate)
        d_members = torch.zeros_like(g_on).index_add(0, group_of, on)
        d_group = d_shared * _gate_slope(g_soft, g_raw)
        d_group = d_group + grad_size * d_members * g_on * (1.0 - g_on)
        return d_delta, d_alpha, d_group, None, None, None


class TenantProjection(nn.Module):
    """A frozen linear layer, rescaled per tenant, plus a Kronecker delta."""

    def __init__(self, d_in: int, d_out: int, tenants: int):
        super().__init__()
        self.base = freeze(nn.Linear(d_in, d_out, bias=False))
        self.table = nn.Parameter(torch.ones(tenants, d_out))
        q, n = kron_factors(d_in)
        p, m = kron_factors(d_out)
        self.a = nn.Parameter(torch.randn(p, q) / math.sqrt(q))
        self.b = nn.Parameter(torch.zeros(m, n))
        self.gain = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor, tenant: Tensor) -> Tensor:
        main = InhibitAmplify.apply(x, self.base.weight, self.table, tenant)
        return main + KroneckerDelta.apply(x, self.a, self.b, self.gain)


class SparseTenant(nn.Module):
    """Sparse difference to a list of backbone tensors, one group per tensor."""

    def __init__(self, tensors: Iterable[Tensor], start_log_alpha: float = 2.0):
        super().__init__()
        sizes = [t.numel() for t in tensors]
        group_of = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        self.register_buffer("group_of", group_of)
        total = int(group_of.numel())
        self.delta = nn.Parameter(torch.zeros(total))
        self.log_alpha = nn.Parameter(torch.full((total,), start_log_alpha))
        self.group_alpha = nn.Parameter(torch.full((len(sizes),), start_log_alpha))

    def forward(self):
        if self.training:
            noise = torch.rand_like(self.log_alpha)
            group_noise = torch.rand_like(self.group_alpha)
        else:
            noise = torch.full_like(self.log_alpha, 0.5)
            group_noise = torch.full_like(self.group_alpha, 0.5)
        return DiffPruneMask.apply(
            self.delta, self.log_alpha, self.group_alpha, self.group_of, noise, group_noise
        )


if __name__ == "__main__":
    torch.manual_seed(5)
    layer = TenantProjection(12, 8, tenants=3)
    y = layer(torch.randn(4, 5, 12), torch.tensor([0, 2, 2, 1]))
    y.pow(2).mean().backward()
    print("budget", budget_of(layer), "table grad", layer.table.grad.norm().item())
    sparse = SparseTenant([torch.zeros(3, 4), torch.zeros(5)])
    delta, size = sparse()
    (delta.sum() + 0.01 * size).backward()
    print("expected size", size.item(), sparse.log_alpha.grad.shape)
