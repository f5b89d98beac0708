"""Kraft pulp line: digester, screen room and brown-stock washing.

Used for soft sensors (kappa number, shives, washing loss) and for the nightly
reconciliation of mill data, where the model's constants and the operating points
are adjusted together.

The digester's record is a temperature at regular minutes.  Lignin is lumped in
pools of different reactivity, as percent on wood; the alkali is in g/L of
effective NaOH.  Everything after the blow tank is on one tonne of dry pulp.
"""

import math
from collections import namedtuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

KELVIN = 273.15
COOK_REFERENCE = 170.0 + KELVIN
KAPPA_PER_LIGNIN = 6.55

CookConstants = namedtuple("CookConstants", "log_rate activation demand")
WashResult = namedtuple("WashResult", "carried loss filtrate")


def softwood(dtype=torch.float32):
    """Initial, bulk and residual lignin of pine."""
    pools = torch.tensor([6.0, 18.5, 2.5], dtype=dtype)
    constants = CookConstants(
        log_rate=torch.tensor([-4.3, -7.3, -9.6], dtype=dtype),
        activation=torch.tensor([6000.0, 16100.0, 14400.0], dtype=dtype),
        demand=torch.tensor([2.2, 0.55, 0.8], dtype=dtype),
    )
    return pools, constants


def _cook_rates(temps, log_rate, activation):
    inverse = 1.0 / (temps + KELVIN) - 1.0 / COOK_REFERENCE
    return torch.exp(log_rate - activation * inverse.unsqueeze(-1))


class KraftCook(torch.autograd.Function):
    """March the lignin pools and the alkali through a cook.

    Parameters
    ----------
    temps : (B, T) temperatures in Celsius, one per interval
    pools : (B, K) lignin at the start
    alkali : (B,) charge at the start
    log_rate, activation, demand : (K,) constants of the pools
    dt : float, minutes per interval

    Returns
    -------
    lignin : (B, T, K), at the end of each interval
    liquor : (B, T), residual alkali at the end of each interval

    Notes
    -----
    Within an interval the rates are those of the alkali at its start; the alkali
    then drops by ``demand`` for each percent of lignin dissolved.
    """

    @staticmethod
    def forward(ctx, temps, pools, alkali, log_rate, activation, demand, dt=1.0):
        batch, steps = temps.shape
        speed = _cook_rates(temps, log_rate, activation)
        lignin = pools.new_empty(batch, steps + 1, pools.shape[1])
        liquor = alkali.new_empty(batch, steps + 1)
        lignin[:, 0] = pools
        liquor[:, 0] = alkali
        for t in range(steps):
            left = torch.exp(-dt * speed[:, t] * liquor[:, t, None])
            lignin[:, t + 1] = lignin[:, t] * left
            gone = lignin[:, t] - lignin[:, t + 1]
            liquor[:, t + 1] = liquor[:, t] - (demand * gone).sum(-1)
        ctx.dt = dt
        ctx.save_for_backward(temps, activation, demand, speed, lignin, liquor)
        return lignin[:, 1:].clone(), liquor[:, 1:].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, g_lignin, g_liquor):
        temps, activation, demand, speed, lignin, liquor = ctx.saved_tensors
        dt = ctx.dt
        adj_l = torch.zeros_like(lignin[:, 0])
        adj_a = torch.zeros_like(liquor[:, 0])
        g_speed = torch.zeros_like(speed)
        g_demand = torch.zeros_like(demand)
        for t in reversed(range(temps.shape[1])):
            adj_l = adj_l + g_lignin[:, t]
            adj_a = adj_a + g_liquor[:, t]
            column = adj_a.unsqueeze(-1)
            g_demand -= (column * (lignin[:, t] - lignin[:, t + 1])).sum(0)
            # what reaches lignin[t + 1], directly and through the alkali
            reach = adj_l + column * demand
            g_exponent = reach * lignin[:, t + 1] * (-dt)
            g_speed[:, t] = g_exponent * liquor[:, t, None]
            left = torch.exp(-dt * speed[:, t] * liquor[:, t, None])
            adj_l = reach * left - column * demand
            adj_a = adj_a + (g_exponent * speed[:, t]).sum(-1)

        through = g_speed * speed
        kelvin = (temps + KELVIN).unsqueeze(-1)
        g_temps = (through * activation / kelvin.square()).sum(-1)
        g_log_rate = through.sum((0, 1))
        g_activation = -(through * (1.0 / kelvin - 1.0 / COOK_REFERENCE)).sum((0, 1))
        return g_temps, adj_l, adj_a, g_log_rate, g_activation, g_demand, None


class DisplacementWash(torch.autograd.Function):
    """One displacement washer.

    entering (B,) and shower (B,) are the dissolved solids (kg/t liquor) of the
    liquor in the incoming mat and of the shower, liquor (B,) the liquor held by
    the mat (t/t), dilution (B,) the dilution factor (t/t) and evenness () a
    machine constant.  The displacement ratio is

        DR = 1 - exp(-evenness * (liquor + dilution) / liquor).

    Returns the solids concentration carried on, the washing loss (kg/t) and the
    concentration of the filtrate.
    """

    @staticmethod
    def forward(ctx, entering, shower, liquor, dilution, evenness):
        flow = liquor + dilution
        ratio = flow / liquor
        missed = torch.exp(-evenness * ratio)
        displaced = 1.0 - missed
        carried = entering - displaced * (entering - shower)
        loss = carried * liquor
        filtrate = shower + (liquor / flow) * (entering - carried)
        ctx.save_for_backward(entering, shower, liquor, evenness, flow, ratio, missed, carried)
        return carried, loss, filtrate

    @staticmethod
    @once_differentiable
    def backward(ctx, g_carried, g_loss, g_filtrate):
        entering, shower, liquor, evenness, flow, ratio, missed, carried = ctx.saved_tensors
        held = liquor / flow
        washed = entering - carried
        gap = entering - shower
        g_carried = g_carried + g_loss * liquor - g_filtrate * held

        g_entering = g_filtrate * held + g_carried * missed
        g_shower = g_filtrate + g_carried * (1.0 - missed)
        g_missed = g_carried * gap
        g_ratio = -g_missed * missed * evenness
        g_evenness = -(g_missed * missed * ratio).sum()

        g_held = g_filtrate * washed
        # held = 1 / ratio
        g_ratio = g_ratio - g_held * held.square()
        g_dilution = g_ratio / liquor
        g_liquor = g_loss * carried + g_ratio * (liquor - flow) / liquor.square()
        return g_entering, g_shower, g_liquor, g_dilution, g_evenness


class ScreenRoom(torch.autograd.Function):
    """Shares of the fibre and of the shives leaving a cascade of screens as rejects.

    ``split`` (B, S) are the volumetric reject ratios of the S screens, the primary
    first.  A screen rejects ``split ** thickening`` of its fibre and
    ``split ** removal`` of its shives, with (S,) exponents.  Each screen's rejects
    feed the next one, whose accepts go back to the feed of the one before; only
    the last screen's rejects leave:

        G_S = E_S,   G_i = E_i G_{i+1} / (1 - E_i (1 - G_{i+1}))

    Returns ``(fibre_loss, shive_removal)``, both (B,).
    """

    @staticmethod
    def forward(ctx, split, thickening, removal):
        log_split = split.log()
        fibre = torch.exp(thickening * log_split)
        shive = torch.exp(removal * log_split)
        fibre_chain = _cascade(fibre)
        shive_chain = _cascade(shive)
        ctx.save_for_backward(split, thickening, removal, fibre, shive, fibre_chain, shive_chain)
        return fibre_chain[:, 0].clone(), shive_chain[:, 0].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, g_loss, g_removed):
        split, thickening, removal, fibre, shive, fibre_chain, shive_chain = ctx.saved_tensors
        log_split = split.log()
        g_fibre = _cascade_backward(fibre, fibre_chain, g_loss) * fibre
        g_shive = _cascade_backward(shive, shive_chain, g_removed) * shive
        g_split = (g_fibre * thickening + g_shive * removal) / split
        g_thickening = (g_fibre * log_split).sum(0)
        g_removal = (g_shive * log_split).sum(0)
        return g_split, g_thickening, g_removal


def _cascade(reject):
    """Share of what enters screen i that leaves the room as rejects, (B, S)."""
    chain = torch.empty_like(reject)
    chain[:, -1] = reject[:, -1]
    for i in range(reject.shape[1] - 2, -1, -1):
        below = chain[:, i + 1]
        chain[:, i] = reject[:, i] * below / (1.0 - reject[:, i] * (1.0 - below))
    return chain


def _cascade_backward(reject, chain, g_top):
    grad = torch.empty_like(reject)
    flow = g_top
    for i in range(reject.shape[1] - 1):
        below = chain[:, i + 1]
        feed = 1.0 - reject[:, i] * (1.0 - below)
        grad[:, i] = flow * below / feed.square()
        flow = flow * reject[:, i] / feed
    grad[:, -1] = flow
    return grad


def h_factor(temps, dt=1.0):
    """Vroom's H-factor of a cook, hours at the rate of 100 C."""
    return (torch.exp(43.2 - 16115.0 / (temps + KELVIN)) * dt / 60.0).sum(-1)


def ramp(start, top, ramp_minutes, total_minutes, dt):
    """Temperature record of a batch cook: a ramp and a hold."""
    time = torch.arange(0.0, total_minutes, dt)
    return start + (top - start) * (time / ramp_minutes).clamp(max=1.0)


class Digester(nn.Module):
    def __init__(self, dt=5.0):
        super().__init__()
        pools, start = softwood()
        self.register_buffer("pools", pools)
        self.log_rate = nn.Parameter(start.log_rate)
        self.log_activation = nn.Parameter(start.activation.log())
        self.log_demand = nn.Parameter(start.demand.log())
        self.dt = dt

    def forward(self, temps, alkali):
        lignin, liquor = KraftCook.apply(
            temps, self.pools.expand(temps.shape[0], -1), alkali, self.log_rate,
            self.log_activation.exp(), self.log_demand.exp(), self.dt,
        )
        kappa = KAPPA_PER_LIGNIN * lignin[:, -1].sum(-1)
        return kappa, liquor[:, -1]


class WashLine(nn.Module):
    """Washers in counter-current, solved by sweeping the filtrates backward."""

    def __init__(self, stages=3, sweeps=8):
        super().__init__()
        self.evenness_raw = nn.Parameter(torch.full((stages,), -0.2))
        self.stages, self.sweeps = stages, sweeps

    def forward(self, entering, liquor, dilution):
        clean = torch.zeros_like(entering)
        filtrates = [0.5 ** (s + 1) * entering for s in range(self.stages)] + [clean]
        for _ in range(self.sweeps):
            solids = entering
            fresh = []
            for s in range(self.stages):
                result = WashResult(*DisplacementWash.apply(
                    solids, filtrates[s + 1], liquor, dilution, self.evenness_raw[s].exp()
                ))
                solids = result.carried
                fresh.append(result.filtrate)
            filtrates = fresh + [clean]
        return result.loss, filtrates[0]


class Screens(nn.Module):
    """Primary, secondary and tertiary screens with fitted exponents."""

    def __init__(self, stages=3):
        super().__init__()
        self.thickening = nn.Parameter(torch.full((stages,), 0.8))
        self.removal_raw = nn.Parameter(torch.full((stages,), -2.0))

    def forward(self, split):
        return ScreenRoom.apply(split, self.thickening, self.removal_raw.exp())


class MillModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.digester = Digester()
        self.washers = WashLine()
        self.screens = Screens()

    def forward(self, record):
        kappa, residual = self.digester(record["temps"], record["alkali"])
        loss, black_liquor = self.washers(
            record["solids"] + 2.0 * residual, record["liquor"], record["dilution"]
        )
        fibre_loss, removed = self.screens(record["split"])
        shives = record["shives"] * (1.0 - removed) / (1.0 - fibre_loss)
        return {"kappa": kappa, "loss": loss, "black_liquor": black_liquor,
                "fibre_loss": fibre_loss, "shives": shives}


def demo_record(batch=4):
    tops = torch.linspace(160.0, 172.0, batch)
    return {
        "temps": torch.stack([ramp(80.0, float(top), 90.0, 180.0, 5.0) for top in tops]),
        "alkali": torch.full((batch,), 45.0),
        "solids": torch.full((batch,), 140.0),
        "liquor": torch.linspace(7.0, 9.0, batch),
        "dilution": torch.linspace(1.5, 3.0, batch),
        "split": 0.12 + 0.18 * torch.rand(batch, 3),
        "shives": torch.linspace(0.8, 1.6, batch),
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    mill = MillModel()
    figures = mill(demo_record())
    for name, value in figures.items():
        print(f"{name:14s}", [round(v, 2) for v in value.tolist()])
    ((figures["kappa"] - 30.0).square().mean() + figures["shives"].mean()).backward()
    print("d/d log_rate", mill.digester.log_rate.grad.tolist())
