"""Time to rupture of furnace tubes by a Larson-Miller master curve."""

import torch
from torch.autograd import Function

ZERO_CELSIUS = 273.15


def powers(x, n):
    return torch.stack([x**k for k in range(n)], -1)


class LarsonMillerLife(Function):
    """log10 hours to rupture, P(log10 stress) / T - C.

    stress (n,) in MPa; temperature (n,) in kelvin, or in degrees Celsius with ``celsius=True``; heat (n,) long, the
    heat (alloy) of each tube; coef (heats, K) polynomial of the master curve, lowest power first; const (heats,).
    """

    @staticmethod
    def forward(ctx, stress, temperature, heat, coef, const, celsius=False):
        basis = powers(stress.log10(), coef.shape[1])
        kelvin = temperature + ZERO_CELSIUS if celsius else temperature
        param = (basis * coef[heat]).sum(-1)
        ctx.save_for_backward(stress, temperature, heat, coef, basis, param)
        return param / kelvin - const[heat]

    @staticmethod
    def backward(ctx, g):
        stress, temperature, heat, coef, basis, param = ctx.saved_tensors
        gp = g / temperature
        degree = torch.arange(1, coef.shape[1], dtype=coef.dtype)
        slope = (basis[:, :-1] * degree * coef[heat][:, 1:]).sum(-1)
        g_stress = gp * slope / (stress * 2.302585092994046)
        g_temp = -gp * param / temperature
        g_coef = torch.zeros_like(coef).index_add_(0, heat, gp.unsqueeze(-1) * basis)
        g_const = torch.zeros_like(coef[:, 0]).index_add_(0, heat, -g)
        return g_stress, g_temp, None, g_coef, g_const, None


def consumed_fraction(hours, stress, temperature, heat, coef, const):
    log_life = LarsonMillerLife.apply(stress, temperature, heat, coef, const)
    return (hours * 10.0**-log_life).sum()
