"""Regulating mechanical watches from timegrapher recordings.

The acoustic timing machine hears every beat of the escapement.  From the
intervals between the beats come the daily rate and the beat error; from the
time the balance takes to sweep the lift angle comes its amplitude.  With the
watch held in several positions the rates also tell where the balance is out
of poise, and how the mainspring lets go of its energy explains why the
amplitude (and thereby the rate) falls during the day.

The functions are differentiable so that a whole regulation (timing weights,
regulator index, lift angle of an unknown calibre, mainspring curve) can be
fitted to a set of recordings at once.

Units: seconds, turns of the barrel, N mm, degrees for what a watchmaker
reads in degrees and radians inside formulas.
"""

import math
from typing import Callable, Dict, NamedTuple, Sequence, Tuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

SECONDS_PER_DAY = 86400.0
VPH_COMMON = 28800
LIFT_DEFAULT_DEG = 52.0
# s/d per (ug mm) of out-of-poise at unit J1(A)/A for a ladies' balance
POISE_CONSTANT = 37.5

# Position codes of the Swiss school -> direction of gravity on the dial (deg)
HANGING_POSITIONS: Dict[str, float] = {"3H": 0.0, "6H": 90.0, "9H": 180.0, "12H": 270.0}


class Reading(NamedTuple):
    rate: torch.Tensor        # s/d
    amplitude: torch.Tensor   # deg
    beat_error: torch.Tensor  # ms


class EscapementTrace(torch.autograd.Function):
    """Rate, amplitude and beat error from a strip of beats.

    intervals [W, N] are the times between beats, tick and tock alternating;
    sweeps [W, N] the time spent within the lift angle at each beat; keep
    [W, N] tells which beats the microphone heard (padding is False); lift
    [W] in degrees.  A strip of which nothing was heard reads 0 for all three,
    and the beat error is 0 if either side was not heard.
    """

    @staticmethod
    def _sides(keep, dtype):
        parity = torch.arange(keep.shape[-1], device=keep.device) % 2
        tick = (keep & (parity == 0)).to(dtype)
        tock = (keep & (parity == 1)).to(dtype)
        return tick, tock

    @staticmethod
    def forward(ctx, intervals, sweeps, lift, keep, vph):
        hz = vph / 3600.0
        heard = keep.to(intervals.dtype)
        n = heard.sum(-1)
        any_heard = n > 0
        n_safe = n.clamp(min=1.0)
        intervals = torch.where(keep, intervals, 0.0)

        mean_interval = torch.where(any_heard, intervals.sum(-1) / n_safe, 1.0 / hz)
        rate = SECONDS_PER_DAY * (1.0 / (hz * mean_interval) - 1.0)

        half_angle = 0.5 * math.pi * hz * torch.where(keep, sweeps, 0.5 / hz)
        per_beat = heard * 0.5 / torch.sin(half_angle)
        per_lift = per_beat.sum(-1) / n_safe
        amplitude = lift * per_lift

        tick, tock = EscapementTrace._sides(keep, intervals.dtype)
        n_tick, n_tock = tick.sum(-1), tock.sum(-1)
        both = ((n_tick > 0) & (n_tock > 0)).to(intervals.dtype)
        w_tick = tick / n_tick.clamp(min=1.0)[:, None]
        w_tock = tock / n_tock.clamp(min=1.0)[:, None]
        uneven = both * ((w_tick - w_tock) * intervals).sum(-1)
        beat_error = 500.0 * uneven.abs()

        ctx.save_for_backward(mean_interval, half_angle, heard, n_safe, lift, per_lift,
                              uneven, both, w_tick - w_tock)
        ctx.hz = hz
        ctx.set_materialize_grads(False)
        return rate, amplitude, beat_error

    @staticmethod
    @once_differentiable
    def backward(ctx, g_rate, g_amplitude, g_error):
        (mean_interval, half_angle, heard, n_safe, lift, per_lift,
         uneven, both, side_weights) = ctx.saved_tensors
        hz = ctx.hz
        d_intervals = d_sweeps = d_lift = None
        if ctx.needs_input_grad[0] and (g_rate is not None or g_error is not None):
            d_intervals = torch.zeros_like(half_angle)
            if g_rate is not None:
                d_mean = -g_rate * SECONDS_PER_DAY / (hz * mean_interval.square())
                d_intervals = d_intervals + (d_mean / n_safe)[:, None] * heard
            if g_error is not None:
                d_uneven = 500.0 * g_error * torch.sign(uneven) * both
                d_intervals = d_intervals + d_uneven[:, None] * side_weights
        if g_amplitude is not None:
            if ctx.needs_input_grad[1]:
                slope = -0.5 * torch.cos(half_angle) / torch.sin(half_angle).square()
                d_sweeps = ((g_amplitude * lift / n_safe)[:, None] * heard
                            * slope * (0.5 * math.pi * hz))
            if ctx.needs_input_grad[2]:
                d_lift = g_amplitude * per_lift
        return d_intervals, d_sweeps, d_lift, None, None


class PoiseBench(nn.Module):
    """Positional rates of a batch of balances with point imbalances.

    Each balance carries J small excess masses at known or fitted angles on
    the rim.  In a hanging position gravity speeds up or slows down the
    balance by an amount that depends on the amplitude through J1(A)/A, which
    changes sign near 220 degrees.
    """

    class PoiseRate(torch.autograd.Function):
        """rate[w, p] = -K sin(tilt) J1(A)/A sum_j m[w, j] cos(theta[p] - phi[w, j])

        The amplitude A may be [W, P], or [W, 1] when one value is used in all
        positions.  tilt_deg is the angle between the dial and the horizontal
        plane (90 for a watch that hangs, 45 for one on a winder).
        """

        @staticmethod
        def forward(ctx, imbalance, phi, amplitude, theta, tilt_deg=90.0):
            lean = math.sin(math.radians(tilt_deg))
            j1 = torch.special.bessel_j1(amplitude)
            response = j1 / amplitude
            delta = theta[None, :, None] - phi[:, None, :]
            pull = (imbalance[:, None, :] * torch.cos(delta)).sum(-1)
            ctx.save_for_backward(imbalance, phi, amplitude, theta, response, pull)
            ctx.lean = lean
            return -POISE_CONSTANT * lean * response * pull

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_rate):
            imbalance, phi, amplitude, theta, response, pull = ctx.saved_tensors
            delta = theta[None, :, None] - phi[:, None, :]
            weighted = -POISE_CONSTANT * grad_rate * response
            leaned = ctx.lean * weighted

            d_imbalance = d_phi = d_amplitude = None
            if ctx.needs_input_grad[0]:
                d_imbalance = (leaned[..., None] * torch.cos(delta)).sum(1)
            if ctx.needs_input_grad[1]:
                d_phi = imbalance * (weighted[..., None] * torch.sin(delta)).sum(1)
            if ctx.needs_input_grad[2]:
                # d/dA [J1(A) / A] = -J2(A) / A
                j2 = 2.0 * response - torch.special.bessel_j0(amplitude)
                d_response = -j2 / amplitude
                d_amplitude = -POISE_CONSTANT * ctx.lean * grad_rate * pull * d_response
                d_amplitude = d_amplitude.sum_to_size(amplitude.shape)
            return d_imbalance, d_phi, d_amplitude, None, None

    def __init__(self, watches: int, masses: int = 2, tilt_deg: float = 90.0,
                 positions: Sequence[str] = tuple(HANGING_POSITIONS)):
        super().__init__()
        self.tilt_deg = tilt_deg
        self.imbalance = nn.Parameter(0.05 * torch.rand(watches, masses))
        self.phi = nn.Parameter(2 * math.pi * torch.rand(watches, masses))
        self.base = nn.Parameter(torch.zeros(watches))
        angles = [math.radians(HANGING_POSITIONS[p]) for p in positions]
        self.register_buffer("theta", torch.tensor(angles))

    def forward(self, amplitude_deg: torch.Tensor) -> torch.Tensor:
        swing = torch.deg2rad(amplitude_deg)
        poise = self.PoiseRate.apply(self.imbalance, self.phi, swing, self.theta, self.tilt_deg)
        return self.base[:, None] + poise


def make_barrel_torque(knots: Sequence[float]) -> Callable:
    """Mainspring curve on fixed knots.

    ``knots`` are barrel turns (increasing, all positive).  The returned
    function takes turns of any shape and the torque at the knots, and gives
    the torque and the energy stored.  The spring gives nothing when fully
    let down, so the curve starts at (0, 0); wound past the last knot, the
    bridle slips and neither number rises any more.
    """
    grid_list = [0.0, *map(float, knots)]
    if any(b <= a for a, b in zip(grid_list, grid_list[1:])):
        raise ValueError("knots must be positive and increasing")

    def _tables(like):
        grid = torch.tensor(grid_list, dtype=like.dtype, device=like.device)
        h = grid[1:] - grid[:-1]
        k = len(grid_list)
        # area[l] @ values = integral of the curve up to knot l
        area = torch.zeros(k, k, dtype=like.dtype, device=like.device)
        for i in range(k - 1):
            area[i + 1] = area[i]
            area[i + 1, i] += 0.5 * h[i]
            area[i + 1, i + 1] += 0.5 * h[i]
        return grid, h, area

    def _locate(turns, grid, h):
        t = turns.clamp(0.0, grid_list[-1])
        seg = (torch.searchsorted(grid, t.contiguous(), right=True) - 1).clamp(0, len(grid_list) - 2)
        return seg, (t - grid[seg]) / h[seg]

    class BarrelTorque(torch.autograd.Function):
        @staticmethod
        def forward(turns, table):
            grid, h, area = _tables(table)
            values = torch.cat([table.new_zeros(1), table])
            seg, f = _locate(turns, grid, h)
            low, high = values[seg], values[seg + 1]
            torque = low + f * (high - low)
            energy = (area @ values)[seg] + h[seg] * (f * low + 0.5 * f * f * (high - low))
            return torque, energy

        @staticmethod
        def setup_context(ctx, inputs, output):
            turns, table = inputs
            torque, _ = output
            ctx.save_for_backward(turns, table, torque)

        @staticmethod
        def backward(ctx, g_torque, g_energy):
            turns, table, torque = ctx.saved_tensors
            grid, h, area = _tables(table)
            values = torch.cat([table.new_zeros(1), table])
            seg, f = _locate(turns, grid, h)
            d_turns = d_table = None
            if ctx.needs_input_grad[0]:
                free = ((turns >= 0.0) & (turns <= grid_list[-1])).to(turns.dtype)
                stiffness = (values[seg + 1] - values[seg]) / h[seg]
                d_turns = free * (g_torque * stiffness + g_energy * torque)
            if ctx.needs_input_grad[1]:
                flat = seg.reshape(-1)
                on_low = g_torque * (1.0 - f) + g_energy * h[seg] * (f - 0.5 * f * f)
                on_high = g_torque * f + g_energy * h[seg] * 0.5 * f * f
                d_values = torch.zeros_like(values)
                d_values.index_add_(0, flat, on_low.reshape(-1))
                d_values.index_add_(0, flat + 1, on_high.reshape(-1))
                d_values = d_values + g_energy.reshape(-1) @ area[flat]
                d_table = d_values[1:]
            return d_turns, d_table

    def barrel(turns: torch.Tensor, table: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        return BarrelTorque.apply(turns, table)

    return barrel


class DayCurve(nn.Module):
    """Amplitude through the power reserve: square root of torque over losses."""

    def __init__(self, knots: Sequence[float] = (0.8, 2.0, 4.0, 6.0, 7.5)):
        super().__init__()
        self.barrel = make_barrel_torque(knots)
        self.table = nn.Parameter(torch.linspace(4.0, 9.0, len(knots)))
        self.losses = nn.Parameter(torch.tensor(1.1e-4))

    def forward(self, hours: torch.Tensor, turns_full: float = 7.2, hours_per_turn: float = 6.5):
        turns = turns_full - hours / hours_per_turn
        torque, energy = self.barrel(turns, self.table)
        return torch.sqrt(torque.clamp(min=1e-3) / self.losses), energy


def read_strip(intervals, sweeps, keep, lift=None, vph=VPH_COMMON) -> Reading:
    """Timegrapher reading of a batch of strips."""
    if lift is None:
        lift = intervals.new_full((intervals.shape[0],), LIFT_DEFAULT_DEG)
    return Reading(*EscapementTrace.apply(intervals, sweeps, lift, keep, vph))


def simulate_strip(watches: int, beats: int, vph: int = VPH_COMMON, amplitude_deg: float = 285.0):
    hz = vph / 3600.0
    uneven = 4e-4 * torch.randn(watches, 1) * (1 - 2 * (torch.arange(beats) % 2))
    intervals = (1.0 + 1e-4 * torch.randn(watches, 1)) / hz + uneven
    sweep = 2.0 / (math.pi * hz) * math.asin(0.5 * LIFT_DEFAULT_DEG / amplitude_deg)
    sweeps = sweep * (1.0 + 0.02 * torch.randn(watches, beats))
    return intervals, sweeps, torch.rand(watches, beats) > 0.1


if __name__ == "__main__":
    torch.manual_seed(3)
    strip, sweep_times, heard_mask = simulate_strip(3, 40)
    lift_angle = torch.full((3,), LIFT_DEFAULT_DEG, requires_grad=True)
    reading = read_strip(strip, sweep_times, heard_mask, lift_angle)
    reading.amplitude.sum().backward()
    print("amplitude", reading.amplitude.tolist(), "d/dlift", lift_angle.grad.tolist())
    bench = PoiseBench(3)
    swing_deg = reading.amplitude.detach()[:, None]
    opt = torch.optim.Adam(bench.parameters(), lr=0.02)
    target = torch.tensor([[4.0, -2.0, 1.0, 6.0]]).expand(3, 4)
    for _ in range(50):
        opt.zero_grad()
        miss = (bench(swing_deg) - target).square().mean()
        miss.backward()
        opt.step()
    print("poise misfit", miss.item())
    amp, stored = DayCurve()(torch.linspace(0.0, 40.0, 9))
    print("day curve", amp.tolist())
