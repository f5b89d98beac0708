import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

G0 = 9.80665
KW_H = 3.6e6


def _creep_scale(rho):
    inner = 1.0 - rho / 3.0 + rho * rho / 27.0
    return torch.where(rho <= 3.0, inner, 1.0 / rho.clamp_min(3.0))


class CreepSaturation(Function):
    """Limits Kalker's linear creep forces to the adhesion of the contact (Shen, Hedrick and Elkins).

    ``long_force`` and ``lat_force`` are the linear forces [N], any common shape; ``normal`` is the wheel load of that
    shape; ``friction`` is a 0-d tensor or broadcasts to it. Below three times the adhesion the cubic law of Johnson and
    Vermeulen holds, above it the contact slides and the resultant equals ``friction * normal`` in the direction of the
    linear force. Returns the pair of limited forces.
    """

    @staticmethod
    def forward(ctx, long_force, lat_force, normal, friction):
        adhesion = friction * normal
        resultant = torch.hypot(long_force, lat_force)
        rho = resultant / adhesion
        scale = _creep_scale(rho)
        ctx.save_for_backward(long_force, lat_force, normal, friction, resultant, rho, scale)
        return long_force * scale, lat_force * scale

    @staticmethod
    @once_differentiable
    def backward(ctx, g_long, g_lat):
        long_force, lat_force, normal, friction, resultant, rho, scale = ctx.saved_tensors
        adhesion = friction * normal
        g_scale = g_long * long_force + g_lat * lat_force
        slope = torch.where(rho <= 3.0, -1.0 / 3.0 + 2.0 * rho / 27.0, torch.zeros_like(rho))
        g_rho = g_scale * slope
        safe = torch.where(resultant > 0, resultant, torch.ones_like(resultant))
        d_long = g_long * scale + g_rho * long_force / (safe * adhesion)
        d_lat = g_lat * scale + g_rho * lat_force / (safe * adhesion)
        g_adhesion = -g_rho * rho / adhesion
        d_normal = (g_adhesion * friction).sum_to_size(normal.shape)
        d_friction = (g_adhesion * normal).sum_to_size(friction.shape)
        return d_long, d_lat, d_normal, d_friction


class ConsistResistance(Function):
    """Running resistance per train [N], summed over its cars; ``davis`` is (types, 3), ``speed`` and ``slope`` (trains,)."""

    @staticmethod
    def forward(ctx, davis, mass, speed, slope, car_type, train_id):
        a, b, c = davis[car_type].unbind(-1)
        v = speed[train_id]
        force = mass * (a + b * v) + c * v * v.abs() + G0 * mass * torch.sin(slope)[train_id]
        ctx.save_for_backward(davis, mass, speed, slope, car_type, train_id)
        return torch.zeros_like(speed).index_add_(0, train_id, force)

    @staticmethod
    def backward(ctx, g):
        davis, mass, speed, slope, car_type, train_id = ctx.saved_tensors
        a, b, c = davis[car_type].unbind(-1)
        v = speed[train_id]
        per_car = g[train_id]
        rows = torch.stack([per_car * mass, per_car * mass * v, per_car * v * v.abs()], -1)
        d_davis = torch.zeros_like(davis).index_add(0, car_type, rows)
        d_mass = per_car * (a + b * v + G0 * torch.sin(slope)[train_id])
        d_speed = torch.zeros_like(speed).index_add(0, train_id, per_car * (mass * b + 2.0 * c * v.abs()))
        d_slope = torch.zeros_like(slope).index_add(0, train_id, per_car * G0 * mass) * torch.cos(slope)
        return d_davis, d_mass, d_speed, d_slope, None, None


class TractiveEnergy(Function):
    @staticmethod
    def forward(ctx, force, speed, dt, drive_eff, regen_eff, valid, reduction):
        power = force * speed
        motoring = power > 0
        drawn = torch.where(motoring, power / drive_eff, power * regen_eff) * dt * valid / KW_H
        ctx.save_for_backward(force, speed, dt, drive_eff, regen_eff, valid)
        ctx.reduction = reduction
        if reduction == "none":
            return drawn
        total = drawn.sum(-1)
        if reduction == "mean":
            total = total / valid.sum(-1).clamp_min(1)
        return total

    @staticmethod
    def backward(ctx, g):
        force, speed, dt, drive_eff, regen_eff, valid = ctx.saved_tensors
        if ctx.reduction != "none":
            g = g.unsqueeze(-1).expand_as(force)
        if ctx.reduction == "mean":
            g = g / force.shape[-1]
        g = g * valid / KW_H
        power = force * speed
        motoring = power > 0
        g_power = g * dt * torch.where(motoring, 1.0 / drive_eff, regen_eff)
        d_dt = g * torch.where(motoring, power / drive_eff, power * regen_eff)
        zero = torch.zeros_like(power)
        d_drive = torch.where(motoring, -g * dt * power / drive_eff ** 2, zero).sum()
        d_regen = torch.where(motoring, zero, g * dt * power).sum()
        return g_power * speed, g_power * force, d_dt.sum_to_size(dt.shape), d_drive, d_regen, None, None


def tractive_energy(force, speed, dt, drive_eff=0.87, regen_eff=0.6, valid=None, reduction="sum"):
    """kWh at the pantograph per journey; force [N] and speed [m/s] are (journeys, samples), dt (samples,)."""
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"unknown reduction {reduction!r}")
    if valid is None:
        valid = torch.ones_like(force, dtype=torch.bool)
    drive_eff = torch.as_tensor(drive_eff, dtype=force.dtype)
    regen_eff = torch.as_tensor(regen_eff, dtype=force.dtype)
    return TractiveEnergy.apply(force, speed, dt, drive_eff, regen_eff, valid, reduction)


class Bogie(torch.nn.Module):
    def __init__(self, c11=9.0e6, c22=8.2e6, friction=0.35):
        super().__init__()
        self.stiffness = torch.nn.Parameter(torch.tensor([c11, c22]))
        self.friction = torch.nn.Parameter(torch.tensor(friction))

    def forward(self, creepage, normal):
        linear = -creepage * self.stiffness
        return CreepSaturation.apply(linear[..., 0], linear[..., 1], normal, self.friction)
