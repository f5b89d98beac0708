"""Smooth cost terms for the relaxed berth allocation problem."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch.autograd import Function


@dataclass
class Terminal:
    moves_per_hour: float = 27.0
    interference: str = "power"          # or "linear"
    speed_limits: tuple = (10.0, 24.0)   # knots
    tau: float = 0.5                     # hours, smoothing of lateness
    extras: dict = field(default_factory=dict)


class CraneService(Function):
    """Handling time of every vessel in hours.

    ``moves`` and ``cranes`` are (V,), ``offset`` is (V, K): signed distance (km) between
    candidate berth k and the yard block of vessel v. ``alpha`` (interference) and ``beta``
    (drayage) are 0-d. With interference 'power' a gang of c cranes works like c**alpha
    cranes, with 'linear' like c * (1 - alpha * (c - 1)) where alpha is a small loss
    per additional crane. Cranes are relaxed to real numbers of at least one.
    """

    @staticmethod
    def forward(ctx, moves, cranes, offset, alpha, beta, rate, interference="power"):
        if interference == "power":
            gang = cranes ** alpha
        elif interference == "linear":
            gang = cranes * (1 - alpha * (cranes - 1))
        else:
            raise ValueError(f"unknown interference {interference!r}")
        base = moves / (rate * gang)
        stretch = 1 + beta * offset.abs()
        ctx.save_for_backward(moves, cranes, offset, alpha, beta, gang, base)
        ctx.rate, ctx.interference = rate, interference
        return base[:, None] * stretch

    @staticmethod
    def backward(ctx, grad):
        moves, cranes, offset, alpha, beta, gang, base = ctx.saved_tensors
        g_base = (grad * (1 + beta * offset.abs())).sum(1)
        g_gang = -g_base * base / gang
        if ctx.interference == "power":
            g_cranes = g_gang * alpha * gang / cranes
            g_alpha = (g_gang * gang * cranes.log()).sum()
        else:
            g_cranes = g_gang * (1 - alpha * (cranes - 1))
            g_alpha = -(g_gang * cranes * (cranes - 1)).sum()
        g_offset = grad * base[:, None] * beta * offset.sign()
        g_beta = (grad * base[:, None] * offset.abs()).sum()
        return g_base / (ctx.rate * gang), g_cranes, g_offset, g_alpha, g_beta, None, None


class SailingBurn(Function):
    """Bunker burnt on the approach, tonnes: coef * miles * v ** (power - 1), v = miles / hours.

    Speed saturates at ``limits``: a vessel with too much time waits at anchor, one with too
    little sails at full speed and arrives late. ``coef`` and ``power`` hold one entry per
    ship class and ``ship_class`` (V,) picks the entry of every vessel.
    """

    @staticmethod
    def forward(ctx, miles, hours, coef, power, ship_class, limits=(10.0, 24.0)):
        raw = miles / hours
        v = raw.clamp(*limits)
        p = power[ship_class] - 1
        unit = v ** p
        c = coef[ship_class]
        ctx.save_for_backward(miles, hours, v, p, unit, c, ship_class, (raw > limits[0]) & (raw < limits[1]))
        ctx.n_class = coef.shape[0]
        return c * miles * unit

    @staticmethod
    def backward(ctx, grad):
        miles, hours, v, p, unit, c, ship_class, free = ctx.saved_tensors
        burn = c * miles * unit
        slope = torch.where(free, p, torch.zeros_like(p))
        g_miles = g_hours = g_coef = g_power = None
        if ctx.needs_input_grad[0]:
            g_miles = grad * c * unit * (1 + slope)
        if ctx.needs_input_grad[1]:
            g_hours = -grad * burn * slope / hours
        bins = grad.new_zeros(ctx.n_class)
        if ctx.needs_input_grad[2]:
            g_coef = bins.index_add(0, ship_class, grad * miles * unit)
        if ctx.needs_input_grad[3]:
            g_power = bins.index_add(0, ship_class, grad * burn * v.log())
        return g_miles, g_hours, g_coef, g_power, None, None


class WeightedTardiness(Function):

    @staticmethod
    def forward(finish, due, weight, tau, berthed, normalise):
        late = tau * F.softplus((finish - due) / tau)
        w = weight * berthed
        total = (w * late).sum(-1)
        return total / w.sum(-1) if normalise else total

    @staticmethod
    def setup_context(ctx, inputs, output):
        finish, due, weight, tau, berthed, normalise = inputs
        ctx.save_for_backward(finish, due, weight, tau, berthed, output)
        ctx.normalise = normalise

    @staticmethod
    def backward(ctx, grad):
        finish, due, weight, tau, berthed, out = ctx.saved_tensors
        z = (finish - due) / tau
        sp, s = F.softplus(z), torch.sigmoid(z)
        w = weight * berthed
        g = grad[..., None]
        g_w = tau * sp
        if ctx.normalise:
            g = g / w.sum(-1, keepdim=True)
            g_w = g_w - out[..., None]
        g_finish = g * w * s
        g_due = -g_finish.reshape(-1, due.shape[-1]).sum(0)
        g_weight = (g * g_w * berthed).reshape(-1, weight.shape[-1]).sum(0)
        g_tau = (g * w * (sp - z * s)).sum()
        return g_finish, g_due, g_weight, g_tau, None, None


def plan_cost(terminal, fleet, choice, cranes, hours, params):
    """Expected cost of a relaxed plan.

    choice: (S, V, K) soft berth choice for S scenarios, cranes: (V,), hours: (V,)
    fleet["berthed"]: (S, V) bool, False where the scenario cancels the call.
    """
    service = CraneService.apply(
        fleet["moves"], cranes, fleet["offset"], params["alpha"], params["beta"],
        terminal.moves_per_hour, terminal.interference,
    )
    finish = hours + (choice * service).sum(-1)                       # (S, V)
    tau = torch.as_tensor(terminal.tau, dtype=finish.dtype)
    late = WeightedTardiness.apply(finish, fleet["due"], fleet["priority"], tau, fleet["berthed"], True)
    burn = SailingBurn.apply(
        fleet["miles"], hours, params["coef"], params["power"], fleet["ship_class"], terminal.speed_limits,
    )
    return params["late_cost"] * late.mean() + params["bunker_price"] * burn.sum()


def optimise(terminal, fleet, params, scenarios, berths, steps=200, lr=0.05):
    n = fleet["moves"].shape[0]
    logits = torch.zeros(scenarios, n, berths, dtype=torch.float64, requires_grad=True)
    raw_cranes = torch.zeros(n, dtype=torch.float64, requires_grad=True)
    raw_hours = (fleet["miles"] / 17.0).log().requires_grad_()
    opt = torch.optim.Adam([logits, raw_cranes, raw_hours], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        cost = plan_cost(terminal, fleet, logits.softmax(-1), 1 + F.softplus(raw_cranes), raw_hours.exp(), params)
        cost.backward()
        opt.step()
    return logits.detach().softmax(-1), 1 + F.softplus(raw_cranes.detach()), raw_hours.detach().exp()
