"""Steady behaviour of a PEM fuel cell stack, one value per cell.

Current densities in A/cm2, temperatures in K, pressures in bar, areal resistance in ohm cm2.
"""
from typing import Optional

import math
import torch
from torch import Tensor
from torch.autograd import Function

R_GAS = 8.314462618
FARADAY = 96485.33212
T_REF = 298.15


def sum_to(g: Tensor, like: Tensor) -> Tensor:
    return g.sum_to_size(like.shape)


class PolarizationVoltage(Function):
    """Cell voltage at a current density.

    All arguments but the last two broadcast against each other: current, temperature, hydrogen and
    oxygen pressure, exchange current density, transfer coefficient, areal resistance.

    Args:
        limit: limiting current density, a float above every current.
        kinetics: ``"asinh"`` for the symmetric Butler-Volmer form, ``"tafel"`` for the logarithmic
            form, which costs nothing below the exchange current.
    """

    @staticmethod
    def forward(current, temp, p_h2, p_o2, exchange, alpha, asr, limit, kinetics):
        rt_f = R_GAS * temp / FARADAY
        open_circuit = 1.229 - 8.5e-4 * (temp - T_REF) + rt_f / 2 * (torch.log(p_h2) + torch.log(p_o2) / 2)
        if kinetics == "asinh":
            activation = torch.asinh(current / (2 * exchange))
        elif kinetics == "tafel":
            activation = torch.log(torch.maximum(current, exchange) / exchange)
        else:
            raise ValueError(kinetics)
        supply = torch.log1p(-current / limit)
        return open_circuit - rt_f / alpha * activation - current * asr + rt_f / 2 * supply

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.limit, ctx.kinetics = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, g):
        current, temp, p_h2, p_o2, exchange, alpha, asr = ctx.saved_tensors
        k = R_GAS / FARADAY
        rt_f = k * temp
        if ctx.kinetics == "asinh":
            ratio = current / (2 * exchange)
            act = torch.asinh(ratio)
            d_current = 1 / (2 * exchange * torch.sqrt(1 + ratio**2))
            d_exchange = -d_current * current / exchange
        else:
            above = current > exchange
            act = torch.log(torch.maximum(current, exchange) / exchange)
            d_current = torch.where(above, 1 / torch.maximum(current, exchange), torch.zeros_like(act))
            d_exchange = torch.where(above, -1 / exchange, torch.zeros_like(act))
        supply = torch.log1p(-current / ctx.limit)
        d_temp = -8.5e-4 + k / 2 * (torch.log(p_h2) + torch.log(p_o2) / 2 + supply) - k / alpha * act
        return (
            sum_to(g * (-rt_f / alpha * d_current - asr - rt_f / 2 / (ctx.limit - current)), current),
            sum_to(g * d_temp, temp),
            sum_to(g * rt_f / (2 * p_h2), p_h2),
            sum_to(g * rt_f / (4 * p_o2), p_o2),
            sum_to(-g * rt_f / alpha * d_exchange, exchange),
            sum_to(g * rt_f * act / alpha**2, alpha),
            sum_to(-g * current, asr),
            None,
            None,
        )


def water_content(a: Tensor):
    """Water molecules per acid group in equilibrium with activity ``a``, and the slope.

    Cubic up to saturation, linear up to a = 3, full beyond; never below one.
    """
    cubic = 0.043 + a * (17.81 + a * (-39.85 + a * 36.0))
    slope = 17.81 + a * (-79.7 + a * 108.0)
    wet = a > 1
    content = torch.where(wet, 14.0 + 1.4 * (a.clamp(max=3.0) - 1), cubic)
    slope = torch.where(wet, torch.where(a < 3, 1.4, 0.0).to(a.dtype), slope)
    return content.clamp(min=1.0), torch.where(content > 1, slope, torch.zeros_like(slope))


def profile(nodes: int, like: Tensor):
    """Positions from anode (0) to cathode (1) and the trapezoid weights, (nodes, 1) each."""
    z = torch.linspace(0, 1, nodes, dtype=like.dtype, device=like.device)[:, None]
    w = torch.full_like(z, 1 / (nodes - 1))
    w[0] = w[-1] = 0.5 / (nodes - 1)
    return z, w


class MembraneResistance(Function):
    """Areal resistance of the membrane with a straight water profile between its faces.

    ``anode`` and ``cathode`` are the water activities at the faces, ``temp`` the temperature, each (cells,);
    ``thickness`` in cm, 0-d.  Springer's conductivity, trapezoid rule over ``nodes`` positions.
    """

    @staticmethod
    def forward(ctx, anode, cathode, temp, thickness, nodes=21):
        z, w = profile(nodes, anode)
        dry, dry_slope = water_content(anode)
        wet, wet_slope = water_content(cathode)
        content = dry + (wet - dry) * z
        heat = torch.exp(1268.0 * (1 / 303.0 - 1 / temp))
        sigma = (0.005139 * content - 0.00326) * heat
        out = thickness * (w / sigma).sum(0)
        ctx.save_for_backward(sigma, heat, dry_slope, wet_slope, temp, thickness, out)
        ctx.nodes = nodes
        return out

    @staticmethod
    def backward(ctx, g):
        sigma, heat, dry_slope, wet_slope, temp, thickness, out = ctx.saved_tensors
        z, w = profile(ctx.nodes, g)
        per_content = -g * thickness * 0.005139 * heat * w / sigma**2
        g_anode = (per_content * z).sum(0) * dry_slope
        g_cathode = (per_content * (1 - z)).sum(0) * wet_slope
        g_temp = -g * out * 1268.0 / temp**2
        return g_anode, g_cathode, g_temp, (g * out).sum() / thickness, None


class WeakestCellVoltage(Function):
    """Smooth minimum of the cell voltages of each stack.

    volts (stacks, cells); active (stacks, cells) bool, false for cells that are bridged, at least one true a
    stack; sharp, 0-d, in 1/V.  Without ``averaged`` the value is below the smallest voltage, with it
    the mean over the active cells is taken inside the logarithm and equal cells give their voltage.
    """

    @staticmethod
    def forward(ctx, volts, active, sharp, averaged=True):
        z = (-sharp * volts).masked_fill(~active, float("-inf"))
        level = torch.logsumexp(z, -1)
        if averaged:
            level = level - torch.log(active.sum(-1).to(volts.dtype))
        ctx.save_for_backward(volts, active, sharp)
        ctx.averaged = averaged
        return -level / sharp

    @staticmethod
    def backward(ctx, g):
        volts, active, sharp = ctx.saved_tensors
        z = (-sharp * volts).masked_fill(~active, float("-inf"))
        share = torch.softmax(z, -1)
        level = torch.logsumexp(z, -1)
        if ctx.averaged:
            level = level - math.log(volts.shape[-1])
        g_sharp = (g * (level / sharp + (share * volts).sum(-1)) / sharp).sum()
        return g[:, None] * share, None, g_sharp, None


def stack_voltage(current: Tensor, temp: Tensor, humidity: Tensor, active: Optional[Tensor] = None):
    """Sum over the active cells and the smooth weakest one, for (cells,) inputs."""
    one = torch.ones((), dtype=current.dtype)
    asr = MembraneResistance.apply(humidity, humidity, temp, 0.0051 * one)
    volts = PolarizationVoltage.apply(current, temp, 1.5 * one, 0.3 * one, 1e-4 * one, 0.5 * one, asr, 1.8, "asinh")
    if active is None:
        active = torch.ones_like(volts, dtype=torch.bool)
    weakest = WeakestCellVoltage.apply(volts[None], active[None], 200.0 * one)
    return (volts * active).sum(), weakest[0]
