"""Fireground hydraulics: hose lays, gated wyes and relay pumping.

A drill-ground data set logs pump pressures and flow meters while crews work
through evolutions; the routines here are the forward model used to estimate
hose coefficients, elevation errors and relief settings from those logs.

Flows are in L/min, pressures in bar, lengths in metres.  Flow through a hose
in a looped lay carries a sign: positive from the lower- to the higher-numbered
appliance, negative the other way.
"""

from dataclasses import dataclass
from typing import Dict, List, Sequence

import torch
from torch import Tensor, nn

BAR_PER_METRE = 0.0980665
FLOW_UNIT = 1000.0
LENGTH_UNIT = 100.0
SHUT = 1e-9

# bar per 100 m at 1000 L/min, by nominal bore in mm
NOMINAL_COEFFICIENT: Dict[int, float] = {38: 61.0, 45: 27.0, 52: 12.6, 70: 2.9, 90: 0.92, 110: 0.31}
BORES: List[int] = sorted(NOMINAL_COEFFICIENT)


@dataclass(frozen=True)
class HoseLay:
    """One length of hose: bore in mm, length, number of parallel lines."""

    bore: int
    length: float
    lines: int = 1


def lay_tables(lays: Sequence[HoseLay]):
    """Bore index, length and line-count tables of a list of lays."""
    kind = torch.tensor([BORES.index(lay.bore) for lay in lays])
    length = torch.tensor([lay.length for lay in lays])
    lines = torch.tensor([float(lay.lines) for lay in lays])
    return kind, length, lines


class HoseDrop(torch.autograd.Function):
    """Signed friction drop along hose lays.

    Parameters
    ----------
    flow : Tensor, (..., lays)
        Total signed flow of each lay.
    coefficient : Tensor, (bores,)
    length : Tensor, (lays,)
    kind : LongTensor, (lays,)
        Row of ``coefficient`` for each lay; several lays share a bore.
    lines : Tensor, (lays,)
        Parallel lines, among which the flow divides evenly.
    exponent : float
        2.0 for the fireground rule, 1.85 in the municipal tables.

    Returns
    -------
    Tensor, (..., lays)
        Pressure drop in the direction of positive flow; it has the sign of
        the flow.
    """

    @staticmethod
    def forward(ctx, flow, coefficient, length, kind, lines, exponent=2.0):
        per_line = flow / (lines * FLOW_UNIT)
        size = per_line.abs().clamp_min(SHUT)
        unit = per_line * size.pow(exponent - 1.0)
        run = length / LENGTH_UNIT
        ctx.exponent = exponent
        ctx.save_for_backward(per_line, size, unit, coefficient, run, kind, lines)
        return coefficient[kind] * run * unit

    @staticmethod
    def backward(ctx, grad):
        per_line, size, unit, coefficient, run, kind, lines = ctx.saved_tensors
        e = ctx.exponent
        chosen = coefficient[kind]
        slope = e * per_line * size.pow(e - 2.0)
        grad_flow = grad * chosen * run * slope / (lines * FLOW_UNIT)
        by_lay = (grad * unit).reshape(-1, kind.numel()).sum(0)
        grad_coefficient = torch.zeros_like(coefficient).index_add(0, kind, by_lay * run)
        grad_length = by_lay * chosen / LENGTH_UNIT
        return grad_flow, grad_coefficient, grad_length, None, None, None


def _branch_flow(pressure: Tensor, resistance: Tensor, lift: Tensor) -> Tensor:
    head = (pressure.unsqueeze(-1) - lift).clamp_min(0.0)
    return torch.sqrt(head / resistance)


class WyeSplit(torch.autograd.Function):
    """Divide a supply among the branches of a manifold with check valves.

    Branch ``i`` passes ``sqrt(max(P - lift_i, 0) / resistance_i)``; the inlet
    pressure ``P`` is the one at which the branches pass the whole supply. A
    branch whose lift exceeds ``P`` stays shut.

    Args:
        supply: (n,), positive.
        resistance: (n, branches), positive.
        lift: (n, branches).

    Returns:
        branch flows (n, branches) and inlet pressure (n,).
    """

    STEPS = 90

    @staticmethod
    def forward(ctx, supply, resistance, lift):
        low = lift.min(-1).values
        high = (lift + resistance * supply.unsqueeze(-1).square()).min(-1).values
        high = torch.maximum(high, low + SHUT)
        for _ in range(WyeSplit.STEPS):
            mid = 0.5 * (low + high)
            short = _branch_flow(mid, resistance, lift).sum(-1) < supply
            low = torch.where(short, mid, low)
            high = torch.where(short, high, mid)
        pressure = 0.5 * (low + high)
        flow = _branch_flow(pressure, resistance, lift)
        ctx.save_for_backward(flow, resistance)
        return flow, pressure

    @staticmethod
    def backward(ctx, grad_flow, grad_pressure):
        flow, resistance = ctx.saved_tensors
        running = flow > 0.0
        safe = torch.where(running, flow, torch.ones_like(flow))
        response = torch.where(running, 0.5 / (resistance * safe), torch.zeros_like(flow))
        total = response.sum(-1)
        share = (grad_pressure + (grad_flow * response).sum(-1)) / total
        excess = grad_flow - share.unsqueeze(-1)
        grad_resistance = -excess * 0.5 * flow / resistance
        grad_lift = -excess * response
        return share, grad_resistance, grad_lift


class RelayChain(torch.autograd.Function):
    """Pressures along a relay of pumps in series.

    Each pump adds its boost to what arrives; its relief valve holds the
    discharge at the relief setting; the hose to the next pump takes its drop.

        discharge[i] = min(intake[i] + boost[i], relief[i])
        intake[i + 1] = discharge[i] - drop[i]

    supply is (batch,), boost and drop (batch, pumps), relief (pumps,).
    Returns intake and discharge, both (batch, pumps), and the pressure
    delivered at the end of the last hose, (batch,).
    """

    @staticmethod
    def forward(ctx, supply, boost, drop, relief):
        pumps = boost.shape[1]
        arriving = supply
        intakes, discharges, blown = [], [], []
        for i in range(pumps):
            raised = arriving + boost[:, i]
            over = raised > relief[i]
            leaving = torch.where(over, relief[i].expand_as(raised), raised)
            intakes.append(arriving)
            discharges.append(leaving)
            blown.append(over)
            arriving = leaving - drop[:, i]
        ctx.save_for_backward(torch.stack(blown, 1))
        return torch.stack(intakes, 1), torch.stack(discharges, 1), arriving

    @staticmethod
    def backward(ctx, grad_intake, grad_discharge, grad_end):
        (blown,) = ctx.saved_tensors
        batch, pumps = blown.shape
        grad_boost = torch.zeros_like(grad_intake)
        grad_drop = torch.zeros_like(grad_intake)
        grad_relief = torch.zeros(pumps, dtype=grad_intake.dtype, device=grad_intake.device)
        carry = grad_end
        for i in reversed(range(pumps)):
            grad_drop[:, i] = -carry
            leaving = carry + grad_discharge[:, i]
            over = blown[:, i].to(leaving.dtype)
            grad_boost[:, i] = leaving * (1.0 - over)
            grad_relief[i] = (leaving * over).sum()
            carry = leaving + grad_intake[:, i]
        return carry, grad_boost, grad_drop, grad_relief


def elevation_pressure(height: Tensor) -> Tensor:
    return BAR_PER_METRE * height


def nozzle_resistance(bore_mm: Tensor, discharge_coefficient: float = 0.97) -> Tensor:
    """Bar per (1000 L/min)^2 of a smooth-bore nozzle."""
    k = 0.667 * discharge_coefficient * bore_mm.square() / FLOW_UNIT
    return 1.0 / k.square()


def reaction_force(pressure: Tensor, bore_mm: Tensor) -> Tensor:
    """Nozzle reaction in newtons from pressure (bar) and bore."""
    return 0.157 * pressure * bore_mm.square()


class HoseModel(nn.Module):
    """Fitted hose coefficients, by bore, on a fixed set of lays."""

    def __init__(self, lays: Sequence[HoseLay], exponent: float = 2.0):
        super().__init__()
        start = torch.tensor([NOMINAL_COEFFICIENT[b] for b in BORES])
        self.log_coefficient = nn.Parameter(start.log())
        kind, length, lines = lay_tables(lays)
        self.register_buffer("kind", kind)
        self.register_buffer("lines", lines)
        self.length = nn.Parameter(length, requires_grad=False)
        self.exponent = exponent

    def forward(self, flow):
        return HoseDrop.apply(flow, self.log_coefficient.exp(), self.length,
                              self.kind, self.lines, self.exponent)


class LoopedLay(nn.Module):
    """Residual of a looped lay fed at two ends, for one trial cross-flow."""

    def __init__(self, hoses: HoseModel, incidence: Tensor):
        super().__init__()
        self.hoses = hoses
        self.register_buffer("incidence", incidence)

    def loop_residual(self, base_flow, circulation):
        flow = base_flow + circulation.unsqueeze(-1) * self.incidence
        return (self.hoses(flow) * self.incidence).sum(-1)


class RelayModel(nn.Module):
    def __init__(self, lays: Sequence[HoseLay], relief: float = 10.5):
        super().__init__()
        self.hoses = HoseModel(lays)
        self.relief = nn.Parameter(torch.full((len(lays),), relief))
        self.boost_scale = nn.Parameter(torch.ones(len(lays)))

    def forward(self, supply, throttle, flow):
        boost = throttle * self.boost_scale
        drop = self.hoses(flow.unsqueeze(-1).expand(-1, boost.shape[1]))
        return RelayChain.apply(supply, boost, drop, self.relief)


def attack_lines(supply: Tensor, bores_mm: Tensor, floors: Tensor) -> Dict[str, Tensor]:
    """Flows and nozzle reactions of hand lines working on several floors."""
    resistance = nozzle_resistance(bores_mm).expand(supply.shape[0], -1)
    lift = elevation_pressure(3.0 * floors)
    flow, pressure = WyeSplit.apply(supply / FLOW_UNIT, resistance, lift)
    nozzle = (pressure.unsqueeze(-1) - lift).clamp_min(0.0)
    return {"flow": flow * FLOW_UNIT, "pressure": pressure, "reaction": reaction_force(nozzle, bores_mm)}


if __name__ == "__main__":
    torch.manual_seed(2)
    relay = RelayModel([HoseLay(90, 200.0), HoseLay(70, 140.0, lines=2), HoseLay(70, 100.0)])
    throttle = 6.0 + 3.0 * torch.rand(4, 3)
    intake, discharge, end = relay(torch.full((4,), 2.0), throttle, torch.full((4,), 950.0))
    (end.mean() + 0.1 * discharge.square().mean()).backward()
    print("end pressures", [round(v, 2) for v in end.tolist()])
    lines = attack_lines(torch.tensor([700.0, 1200.0]), torch.tensor([12.0, 16.0, 19.0]),
                         torch.tensor([[0.0, 2.0, 5.0], [1.0, 1.0, 3.0]]))
    print({k: v.shape for k, v in lines.items()})
