# Ripening-room model for hard and semi-hard wheels.
#
# Three little models that the cave master fits to the weekly log: how the rind dries, how far the paste has broken down, and how salt
# creeps inward from the brine. Units: days, degrees Celsius, centimetres, grams per 100 g.

from dataclasses import dataclass

import torch

REFERENCE_C = 12.0


@dataclass(frozen=True)
class Cave:
    """Constants of one cave."""

    half_activity: float = 1.5    # rind moisture at which the rind's water activity is one half
    dormant_below: float = 2.0    # enzymes stand still under this temperature


class RindMoisture(torch.autograd.Function):
    """Daily moisture of the rinds.

        m[t+1] = m[t] + k * (h[t] - m[t] / (m[t] + c))

    start (wheels,), exchange k (wheels,), humidity h as a fraction: (days,) when one probe serves the whole cave, (days, wheels)
    otherwise. c is a python number. The result (days, wheels) holds the moisture after each day.
    """

    @staticmethod
    def forward(start, exchange, humidity, half):
        if humidity.dim() == 1:
            humidity = humidity[:, None]
        m, out = start, []
        for h in humidity:
            m = m + exchange * (h - m / (m + half))
            out.append(m)
        return torch.stack(out)

    @staticmethod
    def setup_context(ctx, inputs, output):
        start, exchange, humidity, ctx.half = inputs
        ctx.save_for_backward(start, exchange, humidity, output)

    @staticmethod
    def backward(ctx, grad):
        start, exchange, humidity, track = ctx.saved_tensors
        shared = humidity.dim() == 1
        h = humidity[:, None] if shared else humidity
        before = torch.cat([start[None], track[:-1]])
        pull = h - before / (before + ctx.half)
        slope = ctx.half / (track + ctx.half) ** 2

        lam = torch.zeros_like(start)
        g_exchange = torch.zeros_like(exchange)
        g_humidity = []
        for t in range(grad.shape[0] - 1, -1, -1):
            lam = lam + grad[t]
            g_exchange = g_exchange + lam * pull[t]
            g_humidity.append(lam * exchange)
            lam = lam * (1 - exchange * slope[t])
        g_humidity = torch.stack(g_humidity[::-1])
        if shared:
            g_humidity = g_humidity.sum(1)
        return lam, g_exchange, g_humidity, None


class ProteolysisIndex(torch.autograd.Function):
    """Share of casein broken down, 1 - exp(-R).

    R = rate * integral of q10 ** ((T - 12) / 10) over the log, by the trapezoid rule at the (irregular, ascending) reading times;
    a reading under the dormant temperature counts as zero activity.

    temps: (..., readings); times: (readings,), the same for all wheels; rate: (...,) one a wheel; q10: a scalar tensor.
    """

    @staticmethod
    def forward(ctx, temps, times, rate, q10, dormant):
        awake = temps >= dormant
        power = (temps - REFERENCE_C) / 10
        act = torch.where(awake, q10 ** power, torch.zeros_like(temps))
        dose = torch.trapezoid(act, times, dim=-1)
        left = torch.exp(-rate * dose)
        ctx.save_for_backward(act, power, times, rate, q10, dose, left)
        return 1 - left

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        act, power, times, rate, q10, dose, left = ctx.saved_tensors
        g_R = grad * left
        g_dose = (g_R * rate).unsqueeze(-1)

        half_gap = times.diff() / 2
        weight = torch.nn.functional.pad(half_gap, (0, 1)) + torch.nn.functional.pad(half_gap, (1, 0))
        g_act = g_dose * weight
        g_temps = g_act * act * torch.log(q10) / 10
        g_q10 = (g_act * act * power).sum() / q10

        panel = (g_dose * (act[..., 1:] + act[..., :-1]) / 2).reshape(-1, times.numel() - 1).sum(0)
        g_times = torch.nn.functional.pad(panel, (1, 0)) - torch.nn.functional.pad(panel, (0, 1))
        return g_temps, g_times, g_R * dose, g_q10, None


def exchange_matrix(diffusivity, thickness):
    """Rate matrix L and brine intake s of a stack of layers, dc/dt = -L c + s * brine; layer 0 touches the brine."""
    resist = thickness / (2 * diffusivity)
    surface = 1 / resist[0]
    between = 1 / (resist[1:] + resist[:-1])
    to_outer = torch.cat([surface.reshape(1), between])
    to_inner = torch.cat([between, between.new_zeros(1)])
    L = torch.diag((to_outer + to_inner) / thickness)
    L = L - torch.diag(between / thickness[1:], -1) - torch.diag(between / thickness[:-1], 1)
    intake = torch.cat([(surface / thickness[0]).reshape(1), between.new_zeros(thickness.numel() - 1)])
    return L, intake


class CurdSaltProfile(torch.autograd.Function):
    """Salt in each layer after bathing, implicit Euler with one linear solve a step.

    salt (layers,), brine (steps,) strength during each step, diffusivity (layers,), thickness (layers,) - thin layers outside and
    thick ones in the heart are usual. `dt` is in days.
    """

    @staticmethod
    def forward(salt, brine, diffusivity, thickness, dt):
        L, intake = exchange_matrix(diffusivity, thickness)
        M = torch.eye(salt.numel(), dtype=salt.dtype) + dt * L
        trail = [salt]
        for b in brine:
            trail.append(torch.linalg.solve(M, trail[-1] + dt * intake * b))
        return trail[-1]

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.dt = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, grad):
        salt, brine, diffusivity, thickness = ctx.saved_tensors
        dt = ctx.dt
        with torch.enable_grad():
            d = diffusivity.detach().requires_grad_()
            x = thickness.detach().requires_grad_()
            L, intake = exchange_matrix(d, x)
        M = torch.eye(salt.numel(), dtype=salt.dtype) + dt * L.detach()
        s = intake.detach()

        trail = [salt]
        for b in brine:
            trail.append(torch.linalg.solve(M, trail[-1] + dt * s * b))
        g_L, g_s, g_brine = torch.zeros_like(M), torch.zeros_like(s), torch.zeros_like(brine)
        lam = grad
        for t in reversed(range(len(brine))):
            lam = torch.linalg.solve(M.T, lam)
            g_L -= dt * torch.outer(lam, trail[t + 1])
            g_s += dt * brine[t] * lam
            g_brine[t] = dt * torch.dot(s, lam)
        g_d, g_x = torch.autograd.grad((L, intake), (d, x), (g_L, g_s))
        return lam, g_brine, g_d, g_x, None


def rind_track(start, exchange, humidity, cave=Cave()):
    return RindMoisture.apply(start, exchange, humidity, cave.half_activity)


def proteolysis(temps, times, rate, q10, cave=Cave()):
    return ProteolysisIndex.apply(temps, times, rate, q10, cave.dormant_below)


if __name__ == "__main__":
    layers = torch.tensor([0.2, 0.4, 0.8, 1.6, 3.0])
    out = CurdSaltProfile.apply(torch.full((5,), 0.1), torch.full((6,), 20.0), torch.full((5,), 0.3), layers, 0.25)
    print("salt after brining", [round(v, 2) for v in out.tolist()])
