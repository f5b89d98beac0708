"""Readings of artificial skin: pressure arrays, fingertip wrenches and marker-based gel sensors."""

import torch
from torch import nn
from torch.autograd import Function

SKINS = {
    "palm": {"rows": 4, "cols": 6, "pitch": 4.0},
    "tip": {"rows": 3, "cols": 3, "pitch": 2.5},
}


def taxel_grid(name):
    """Positions (N, 2) of the taxels of a skin, in millimetres."""
    spec = SKINS[name]
    y, x = torch.meshgrid(torch.arange(spec["rows"]), torch.arange(spec["cols"]), indexing="ij")
    return spec["pitch"] * torch.stack([x, y], dim=-1).reshape(-1, 2).to(torch.get_default_dtype())


class TaxelCentroid(Function):
    r"""Centre of pressure and total load above the dead band.

    .. math:: e_i = \max(p_i - t_i, 0), \quad c = \sum_i e_i r_i / \sum_i e_i

    Shapes: ``pressure`` (B, N), ``band`` () or (N,), ``position`` (N, 2), ``alive`` (N,) bool for taxels that work.
    Returns ``(centre, load)`` of shapes (B, 2) and (B,).  With no contact the centre is zero.
    """

    @staticmethod
    def forward(ctx, pressure, band, position, alive):
        excess = (pressure - band).clamp_min(0.0) * alive
        load = excess.sum(-1)
        touched = load > 0
        safe = torch.where(touched, load, torch.ones_like(load))[:, None]
        centre = excess @ position / safe
        ctx.save_for_backward(excess, band, position, safe, touched, centre)
        return centre, load

    @staticmethod
    def backward(ctx, g_centre, g_load):
        excess, band, position, safe, touched, centre = ctx.saved_tensors
        pull = g_centre * touched[:, None] / safe
        g_excess = g_load[:, None] + pull @ position.T - (pull * centre).sum(-1, keepdim=True)
        g_pressure = g_excess * (excess > 0)
        g_band = -g_pressure.sum_to_size(band.shape)
        g_position = excess.T @ pull
        return g_pressure, g_band, g_position, None


class SlipMargin(Function):
    """Smallest distance to slip over the fingers of a grasp, soft-minimum over the finger axis.

    Each finger carries a soft contact: tangential force and torsion share one friction limit,

        margin = mu * f_n - sqrt(f_x ** 2 + f_y ** 2 + (torsion / radius) ** 2)

    force (B, K, 3) is (f_x, f_y, f_n); torsion (B, K); mu () or (K,); radius () or (K,) is the torsional radius of
    the contact patch.  temperature is a float.  Gives (B,).
    """

    @staticmethod
    def forward(ctx, force, torsion, mu, radius, temperature=0.1, floor=1e-12):
        twist = torsion / radius
        shear = torch.sqrt(force[..., :2].square().sum(-1) + twist.square() + floor)
        margin = mu * force[..., 2] - shear
        ctx.save_for_backward(
            force, twist, mu, radius, shear, torch.softmax(-margin / temperature, dim=-1)
        )
        return -temperature * torch.logsumexp(-margin / temperature, dim=-1)

    @staticmethod
    def backward(ctx, grad):
        force, twist, mu, radius, shear, active = ctx.saved_tensors
        g = grad[..., None] * active
        pull = -g / shear
        g_force = torch.cat([pull[..., None] * force[..., :2], (g * mu)[..., None]], dim=-1)
        g_torsion = pull * twist
        g_mu = (g * force[..., 2]).sum_to_size(mu.shape)
        g_radius = (-pull * twist.square() / radius).sum_to_size(radius.shape)
        return g_force, g_torsion, g_mu, g_radius, None, None


def _apply(matrix, vectors):
    return (matrix @ vectors[..., None]).squeeze(-1)


class GelShear(Function):
    """Force at each marker from its displacement.

    The calibration ``stiffness`` (M, 2, 2) maps the displacement (B, M, 2) to a force, with cross talk between the
    axes; ``hardening`` (M,) stiffens the gel with the squared displacement.
    """

    @staticmethod
    def forward(shift, stiffness, hardening):
        gain = 1.0 + hardening * shift.square().sum(-1)
        return gain[..., None] * _apply(stiffness, shift)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        shift, stiffness, hardening = ctx.saved_tensors
        square = shift.square().sum(-1)
        scaled = (1.0 + hardening * square)[..., None] * grad
        g_gain = (grad * _apply(stiffness, shift)).sum(-1)
        g_shift = _apply(stiffness, scaled) + 2.0 * (g_gain * hardening)[..., None] * shift
        g_stiffness = torch.einsum("bmi,bmj->mij", scaled, shift)
        g_hardening = (g_gain * square).sum(0)
        return g_shift, g_stiffness, g_hardening


class GelSensor(nn.Module):
    """Layer with a learnt calibration per marker."""

    def __init__(self, markers: int):
        super().__init__()
        self.stiffness = nn.Parameter(torch.eye(2).repeat(markers, 1, 1))
        self.hardening = nn.Parameter(torch.zeros(markers))

    def forward(self, shift):
        return GelShear.apply(shift, self.stiffness, self.hardening).sum(dim=-2)


class GraspMonitor(nn.Module):
    def __init__(self, fingers: int, radius_mm: float = 3.0, temperature: float = 0.1):
        super().__init__()
        self.mu = nn.Parameter(torch.full((fingers,), 0.6))
        self.radius = nn.Parameter(torch.full((fingers,), radius_mm))
        self.temperature = temperature

    def forward(self, force, torsion):
        return SlipMargin.apply(force, torsion, self.mu, self.radius, self.temperature)
