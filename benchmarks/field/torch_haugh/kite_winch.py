"""Airborne wind energy: tether, sheaves and reel-out / reel-in cycle of a pumping kite."""

from typing import NamedTuple

import torch
from torch.autograd import Function

RHO = 1.225


class TetherSpec(NamedTuple):
    diameter: float = 0.012
    drag_coeff: float = 1.1
    ref_height: float = 10.0
    stations: int = 8


def _stations(spec, like):
    k = torch.arange(spec.stations, dtype=like.dtype, device=like.device)
    return (k + 0.5) / spec.stations


def _profile(wind, length, elevation, shear, spec):
    u = _stations(spec, length)
    z = (length * torch.sin(elevation)).unsqueeze(-1) * u
    ratio = z / spec.ref_height
    return u, ratio, wind.unsqueeze(-1) * ratio ** shear.unsqueeze(-1)


class TetherDragLoad(Function):
    """Drag moment share that the tether puts on the kite, in newton.

    The wind follows the power law v(z) = wind * (z / ref_height) ** shear along a straight tether, and each
    station loads the kite with its share u = s / length of the lever arm:

        load = 1/2 rho C_d D length * mean_k u_k v(z_k)^2

    wind, length (m), elevation (rad, in (0, pi/2)) and shear have one common shape, e.g. (B,).
    """

    @staticmethod
    def forward(ctx, wind, length, elevation, shear, spec=TetherSpec()):
        u, ratio, v = _profile(wind, length, elevation, shear, spec)
        moment = (u * v.square()).mean(-1)
        area = 0.5 * RHO * spec.drag_coeff * spec.diameter * length
        ctx.save_for_backward(wind, length, elevation, shear)
        ctx.spec = spec
        return area * moment

    @staticmethod
    def backward(ctx, grad):
        wind, length, elevation, shear = ctx.saved_tensors
        spec = ctx.spec
        u, ratio, v = _profile(wind, length, elevation, shear, spec)
        per_metre = 0.5 * RHO * spec.drag_coeff * spec.diameter
        pull = u * v.square()
        moment = pull.mean(-1)
        d_wind = grad * per_metre * length * 2.0 * moment / wind
        d_length = grad * per_metre * moment
        d_elev = grad * per_metre * length * moment * 2.0 * shear / torch.tan(elevation)
        d_shear = grad * per_metre * length * 2.0 * (pull * ratio.log()).mean(-1)
        return d_wind, d_length, d_elev, d_shear, None


class CapstanHold(Function):
    """Rope tension behind each sheave (Euler-Eytelwein); friction adds when paying in."""

    @staticmethod
    def forward(load, friction, wrap, pay_in=False):
        sign = 1.0 if pay_in else -1.0
        return load.unsqueeze(-1) * torch.exp(sign * torch.cumsum(friction * wrap, dim=-1))

    @staticmethod
    def setup_context(ctx, inputs, output):
        load, friction, wrap, pay_in = inputs
        ctx.sign = 1.0 if pay_in else -1.0
        ctx.save_for_backward(friction, wrap, output)
        ctx.gain = torch.exp(ctx.sign * torch.cumsum((friction * wrap).detach(), dim=-1))
        ctx.load_shape = load.shape

    @staticmethod
    def backward(ctx, grad):
        friction, wrap, tension = ctx.saved_tensors
        d_load = (grad * ctx.gain).sum(-1).sum_to_size(ctx.load_shape)
        tail = (grad * tension).flip(-1).cumsum(-1).flip(-1) * ctx.sign
        return (
            d_load,
            (tail * wrap).sum_to_size(friction.shape),
            (tail * friction).sum_to_size(wrap.shape),
            None,
        )


class PumpingCycle(Function):
    """Mean electrical power of a cycle and the share of its time spent reeling out."""

    @staticmethod
    def forward(ctx, force_out, force_in, v_out, v_in, eta):
        total = v_out + v_in
        stroke_rate = v_out * v_in / total
        net = eta * force_out - force_in / eta
        ctx.save_for_backward(force_in, force_out, v_out, v_in, eta)
        return net * stroke_rate, v_in / total

    @staticmethod
    def backward(ctx, g_power, g_duty):
        force_in, force_out, v_out, v_in, eta = ctx.saved_tensors
        total = v_out + v_in
        rate = v_out * v_in / total
        net = eta * force_out - force_in / eta
        gp = g_power * rate
        inv2 = total.pow(-2)
        d_vout = g_power * net * v_in.square() * inv2 - g_duty * v_out * inv2
        d_vin = g_power * net * v_out.square() * inv2 + g_duty * v_in * inv2
        d_eta = gp * (force_out + force_in / eta.square())
        return (
            (gp * eta).sum_to_size(force_out.shape),
            (-gp / eta).sum_to_size(force_in.shape),
            d_vout.sum_to_size(v_out.shape),
            d_vin.sum_to_size(v_in.shape),
            d_eta.sum_to_size(eta.shape),
        )


if __name__ == "__main__":
    v = torch.tensor([2.0, 2.5], requires_grad=True)
    p, duty = PumpingCycle.apply(
        torch.tensor(9e3), torch.tensor(1.2e3), v, torch.tensor(6.0), torch.tensor(0.85)
    )
    print(p.tolist(), duty.tolist())
