"""Pressures in silos filled with layers of bulk solids."""
from dataclasses import dataclass

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_SMALL = 0.05
_PHI = [1.0, -1 / 2, 1 / 6, -1 / 24, 1 / 120, -1 / 720, 1 / 5040, -1 / 40320]
_DPHI = [-1 / 2, 1 / 3, -1 / 8, 1 / 30, -1 / 144, 1 / 840, -1 / 5760]


def _poly(coefs, z):
    out = torch.zeros_like(z)
    for c in reversed(coefs):
        out = out * z + c
    return out


def _phi(z):
    """(1 - exp(-z)) / z and its derivative, both smooth through z = 0."""
    small = z.abs() < _SMALL
    zs = torch.where(small, torch.ones_like(z), z)
    phi = -torch.expm1(-zs) / zs
    dphi = (torch.exp(-zs) - phi) / zs
    return torch.where(small, _poly(_PHI, z), phi), torch.where(small, _poly(_DPHI, z), dphi)


class LayeredJanssen(Function):
    r"""Vertical stress and wall pressure at the foot of each layer (Janssen's slice balance).

    From the top down, with :math:`z_i = \mu_i K_i h_i / R`,

    .. math:: \sigma_i = \sigma_{i-1} e^{-z_i} + \gamma_i h_i\, \frac{1 - e^{-z_i}}{z_i}, \qquad p_i = K_i \sigma_i

    Args:
        thickness: ``(..., layers)`` layer heights h >= 0, top layer first; padding layers have h = 0.
        unit_weight: ``(..., layers)`` or ``(layers,)``, kN/m3.
        wall_friction: same, >= 0 (a frictionless wall is fine).
        lateral_ratio: same, K.
        radius: ``(..., 1)`` or ``()``: hydraulic radius, area over perimeter, > 0.
        surcharge: ``(...)`` or ``()``: stress on top of the fill.

    Returns:
        ``(stress, pressure)``, each ``(..., layers)``.
    """

    @staticmethod
    def forward(ctx, thickness, unit_weight, wall_friction, lateral_ratio, radius, surcharge):
        z = wall_friction * lateral_ratio * thickness / radius
        phi, _ = _phi(z)
        keep = torch.exp(-z)
        added = unit_weight * thickness * phi
        full = torch.broadcast_shapes(added.shape, surcharge.shape + (1,))
        keep, added = keep.expand(full), added.expand(full)
        level = surcharge.expand(full[:-1])
        steps = []
        for i in range(full[-1]):
            level = level * keep[..., i] + added[..., i]
            steps.append(level)
        stress = torch.stack(steps, -1)
        ctx.save_for_backward(thickness, unit_weight, wall_friction, lateral_ratio, radius, surcharge, stress)
        return stress, lateral_ratio * stress

    @staticmethod
    @once_differentiable
    def backward(ctx, g_stress, g_pressure):
        h, gamma, mu, k, radius, surcharge, stress = ctx.saved_tensors
        z = mu * k * h / radius
        phi, dphi = _phi(z)
        keep = torch.exp(-z).expand(stress.shape)

        direct = g_stress + g_pressure * k
        lam = torch.zeros_like(direct[..., 0])
        adjoint = []
        for i in reversed(range(stress.shape[-1])):
            lam = lam + direct[..., i]
            adjoint.append(lam)
            lam = lam * keep[..., i]
        adjoint = torch.stack(adjoint[::-1], -1)

        top = surcharge.expand(stress.shape[:-1])[..., None]
        above = torch.cat([top, stress[..., :-1]], -1)
        d_z = adjoint * (gamma * h * dphi - above * keep)
        d_h = adjoint * gamma * phi + d_z * mu * k / radius
        d_gamma = adjoint * h * phi
        d_mu = d_z * k * h / radius
        d_k = d_z * mu * h / radius + g_pressure * stress
        d_radius = -d_z * z / radius
        return (
            d_h.sum_to_size(h.shape),
            d_gamma.sum_to_size(gamma.shape),
            d_mu.sum_to_size(mu.shape),
            d_k.sum_to_size(k.shape),
            d_radius.sum_to_size(radius.shape),
            lam.sum_to_size(surcharge.shape),
        )


@dataclass
class Silo:
    diameter: float
    wall_friction: torch.Tensor
    lateral_ratio: torch.Tensor

    def loads(self, thickness, unit_weight, surcharge=None):
        radius = thickness.new_tensor(self.diameter / 4)
        if surcharge is None:
            surcharge = thickness.new_zeros(())
        return LayeredJanssen.apply(
            thickness, unit_weight, self.wall_friction, self.lateral_ratio, radius, surcharge
        )


if __name__ == "__main__":
    silo = Silo(6.0, torch.tensor([0.4, 0.5]), torch.tensor([0.45, 0.5]))
    print(silo.loads(torch.tensor([4.0, 8.0]), torch.tensor([8.0, 9.0])))
