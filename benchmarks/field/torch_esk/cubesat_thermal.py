"""Node model of a small satellite: radiative/conductive exchange, survival heaters, blanket leak."""

import torch
from torch.autograd import Function

SIGMA = 5.670374419e-8


class NodeExchange(Function):
    """Net heat (W) into each node of a thermal network.

    ``q[b, i] = sum_j rad[i, j] * sigma * (T_j^4 - T_i^4) + sum_j cond[i, j] * (T_j - T_i)``

    Parameters
    ----------
    temp : (B, N) kelvin
    rad : (N, N) radiative factors as the ray tracer gives them, row = receiving node.  They need not be
        reciprocal (diffuse-specular runs and one-way ports to deep space are not).
    cond : (N, N) conductances, W/K, row = receiving node.
    """

    @staticmethod
    def forward(ctx, temp, rad, cond):
        ctx.save_for_backward(temp, rad, cond)
        t4 = SIGMA * temp**4
        return t4 @ rad.T - t4 * rad.sum(1) + temp @ cond.T - temp * cond.sum(1)

    @staticmethod
    def backward(ctx, g):
        temp, rad, cond = ctx.saved_tensors
        g_temp = g_rad = g_cond = None
        t4 = SIGMA * temp**4
        if ctx.needs_input_grad[0]:
            g_t4 = g @ rad.T - g * rad.sum(1)
            g_temp = g_t4 * 4.0 * SIGMA * temp**3 + g @ cond.T - g * cond.sum(1)
        if ctx.needs_input_grad[1]:
            g_rad = g.T @ t4 - (g * t4).sum(0)[:, None]
        if ctx.needs_input_grad[2]:
            g_cond = g.T @ temp - (g * temp).sum(0)[:, None]
        return g_temp, g_rad, g_cond


class SurvivalHeaters(Function):
    """Heater powers (B, H) from node temperatures, shed in proportion when the bus budget (B,) is exceeded."""

    @staticmethod
    def forward(ctx, temp, setpoint, rating, budget, width=2.0):
        duty = torch.sigmoid((setpoint - temp) / width)
        wanted = rating * duty
        total = wanted.sum(1)
        limited = total > budget
        scale = torch.where(limited, budget / total.clamp_min(1e-12), torch.ones_like(total))
        ctx.save_for_backward(duty, rating, wanted, total, scale, limited)
        ctx.width = width
        return wanted * scale[:, None]

    @staticmethod
    def backward(ctx, g):
        duty, rating, wanted, total, scale, limited = ctx.saved_tensors
        g_scale = (g * wanted).sum(1)
        g_budget = torch.where(limited, g_scale / total.clamp_min(1e-12), torch.zeros_like(total))
        g_wanted = g * scale[:, None]
        g_rating = (g_wanted * duty).sum(0)
        g_arg = g_wanted * rating * duty * (1.0 - duty) / ctx.width
        return -g_arg, g_arg.sum(0), g_rating, g_budget, None


class BlanketLeak(Function):
    # Lockheed-type equation for multilayer blankets, W/m2
    CS, CR = 8.95e-8, 5.39e-10

    @staticmethod
    def forward(hot, cold, emittance, density, layers):
        solid = BlanketLeak.CS * density**2.56 * 0.5 * (hot**2 - cold**2) / (layers + 1)
        radiant = BlanketLeak.CR * emittance * (hot**4.67 - cold**4.67) / layers
        return solid + radiant

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.layers = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, g):
        hot, cold, emittance, density = ctx.saved_tensors
        n = ctx.layers
        ks = BlanketLeak.CS * density**2.56 / (n + 1)
        kr = BlanketLeak.CR * emittance / n
        grads = [
            g * (ks * hot + 4.67 * kr * hot**3.67),
            -g * (ks * cold + 4.67 * kr * cold**3.67),
            g * BlanketLeak.CR * (hot**4.67 - cold**4.67) / n,
            g * 2.56 * BlanketLeak.CS * density**1.56 * 0.5 * (hot**2 - cold**2) / (n + 1),
        ]
        return (*(d.sum_to_size(x.shape) for d, x in zip(grads, ctx.saved_tensors)), None)


class ThermalNodes(torch.nn.Module):
    def __init__(self, rad, cond, capacity):
        super().__init__()
        self.rad = torch.nn.Parameter(rad)
        self.cond = torch.nn.Parameter(cond)
        self.register_buffer("capacity", capacity)

    def step(self, temp, load, dt):
        return temp + dt * (NodeExchange.apply(temp, self.rad, self.cond) + load) / self.capacity
