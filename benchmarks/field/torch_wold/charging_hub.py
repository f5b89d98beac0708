import torch
from torch import nn
from torch.autograd import Function

# Electric vehicle charging at a hub: what cars accept, what feeders can give, where the batteries end up.
# kW, kWh, hours; state of charge between 0 and 1.

DEFAULTS = {"gamma": 1.0, "hours": 0.25, "droop": 0.0}


class TaperedAcceptance(Function):
    """Power a car accepts, constant up to the knee and then falling to zero at a full battery.

    charge (T, N), peak (M,), knee (M,) with knee < 1, model (N,) row of each car in the tables, gamma >= 1.
    """

    @staticmethod
    def forward(ctx, charge, peak, knee, model, gamma):
        top, bend = peak[model], knee[model]
        room = ((1 - charge) / (1 - bend)).clamp(min=0.0, max=1.0)
        ctx.gamma = gamma
        ctx.save_for_backward(charge, peak, knee, model)
        return top * room**gamma

    @staticmethod
    def backward(ctx, grad):
        charge, peak, knee, model = ctx.saved_tensors
        top, bend = peak[model], knee[model]
        raw = (1 - charge) / (1 - bend)
        room = raw.clamp(min=0.0, max=1.0)
        tapering = (raw > 0) & (raw < 1)
        rate = grad * top * ctx.gamma * room ** (ctx.gamma - 1) / (1 - bend)
        rate = torch.where(tapering, rate, torch.zeros_like(rate))
        g_peak = torch.zeros_like(peak).index_add_(0, model, (grad * room**ctx.gamma).sum(0))
        g_knee = torch.zeros_like(knee).index_add_(0, model, (rate * room).sum(0))
        return -rate, g_peak, g_knee, None, None


class FeederShare(Function):
    """Requests cut in proportion where a feeder would be overloaded.

    request  (T, N)  positive
    capacity (F,)
    feeder   (N,)  feeder of each stall
    """

    @staticmethod
    def forward(ctx, request, capacity, feeder):
        load = request.new_zeros(request.shape[0], capacity.shape[0]).index_add_(1, feeder, request)
        scale = (capacity / load.clamp(min=1e-9)).clamp(max=1.0)
        ctx.save_for_backward(request, capacity, feeder, load, scale)
        return request * scale[:, feeder]

    @staticmethod
    def backward(ctx, grad):
        request, capacity, feeder, load, scale = ctx.saved_tensors
        load = load.clamp(min=1e-9)
        # how the loss moves with the scale of each feeder
        g_scale = torch.zeros_like(load).index_add_(1, feeder, grad * request)
        g_capacity = torch.where(load > capacity, g_scale / load, torch.zeros_like(load)).sum(0)
        g_load = -g_scale * scale / load
        return grad * scale[:, feeder] + g_load[:, feeder], g_capacity, None


class BatteryFill(Function):
    """State of charge after each interval.

    power (T, N), plugged (T, N) bool, start (N,), energy (N,) usable capacity, efficiency () at zero power; efficiency
    falls by `droop` per kW. Charge stops at 1 and, for discharge (negative power), at `floor`.
    """

    @staticmethod
    def forward(ctx, power, plugged, start, energy, efficiency, hours, droop, floor):
        on = plugged.to(power.dtype)
        gain = on * power * (efficiency - droop * power.abs()) * hours / energy
        states, free = [], []
        s = start
        for t in range(power.shape[0]):
            s = s + gain[t]
            free.append((s > floor) & (s < 1.0))
            s = s.clamp(min=floor, max=1.0)
            states.append(s)
        ctx.hours, ctx.droop = hours, droop
        ctx.save_for_backward(power, on, energy, efficiency, gain, torch.stack(free))
        return torch.stack(states)

    @staticmethod
    def backward(ctx, grad):
        power, on, energy, efficiency, gain, free = ctx.saved_tensors
        g_gain = torch.empty_like(gain)
        carry = torch.zeros_like(energy)
        for t in range(gain.shape[0] - 1, -1, -1):
            carry = (carry + grad[t]) * free[t]
            g_gain[t] = carry
        per = on * ctx.hours / energy
        g_power = g_gain * per * (efficiency - 2 * ctx.droop * power.abs())
        g_energy = -(g_gain * gain).sum(0) / energy
        g_efficiency = (g_gain * per * power).sum()
        return g_power, None, carry, g_energy, g_efficiency, None, None, None


def tapered_acceptance(charge, peak, knee, model, gamma=DEFAULTS["gamma"]):
    return TaperedAcceptance.apply(charge, peak, knee, model, gamma)


def feeder_share(request, capacity, feeder):
    return FeederShare.apply(request, capacity, feeder)


def battery_fill(
    power,
    plugged,
    start,
    energy,
    efficiency,
    hours=DEFAULTS["hours"],
    droop=DEFAULTS["droop"],
    floor=0.0,
):
    return BatteryFill.apply(power, plugged, start, energy, efficiency, hours, droop, floor)


class Hub(nn.Module):
    """A hub of stalls; the car tables, feeder ratings and efficiency are fitted to logs."""

    def __init__(self, peaks, knees, capacities, feeder, options=None):
        super().__init__()
        self.peak = nn.Parameter(torch.as_tensor(peaks))
        self.knee = nn.Parameter(torch.as_tensor(knees))
        self.capacity = nn.Parameter(torch.as_tensor(capacities))
        self.efficiency = nn.Parameter(torch.tensor(0.92))
        self.register_buffer("feeder", torch.as_tensor(feeder))
        self.options = {**DEFAULTS, **(options or {})}

    def offered(self, charge, model):
        wanted = tapered_acceptance(charge, self.peak, self.knee, model, self.options["gamma"])
        return feeder_share(wanted, self.capacity, self.feeder)

    def forward(self, charge, model, plugged, energy):
        power = self.offered(charge, model)
        return battery_fill(
            power,
            plugged,
            charge[0],
            energy,
            self.efficiency,
            self.options["hours"],
            self.options["droop"],
        )
