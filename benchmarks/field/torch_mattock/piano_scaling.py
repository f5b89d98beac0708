"""Scale design and tuning of pianos.

A piano's scale is the list of its strings: speaking length, core and wrap
diameter, tension.  Stiffness makes the partials sharp of the harmonic series, so
that octaves are tuned wide; where two partials that ought to coincide do not,
they beat.  The module holds the string model, the beats of a set of intervals,
and the two-stage decay of a unison, and puts them together in a small optimiser
of scales and in a fitter for recorded decays.

SI units: metres, newtons, kilograms, seconds, hertz.
"""

from typing import Iterable, List, NamedTuple, Tuple

import math

import torch
from torch import Tensor
from torch import nn

STEEL_DENSITY = 7850.0
STEEL_MODULUS = 2.0e11
COPPER_DENSITY = 8960.0
WRAP_FILL = math.pi / 4.0
QUARTER_PI = math.pi / 4.0

DECIBEL = 10.0 / math.log(10.0)
POWER_FLOOR = 1.0e-12

# coincident partials of the intervals that tuners listen to
INTERVALS = {
    "octave_2_1": (12, 2, 1),
    "octave_4_2": (12, 4, 2),
    "twelfth_3_1": (19, 3, 1),
    "fifth_3_2": (7, 3, 2),
    "fourth_4_3": (5, 4, 3),
    "major_third_5_4": (4, 5, 4),
}


class Scale(NamedTuple):
    length: Tensor
    core: Tensor
    wrap: Tensor
    tension: Tensor


def linear_mass(core: Tensor, wrap: Tensor) -> Tensor:
    """Mass per metre; a string is wound where the wrap is wider than the core."""
    wound = (wrap > core).to(core.dtype)
    steel = QUARTER_PI * STEEL_DENSITY * core.square()
    copper = QUARTER_PI * WRAP_FILL * COPPER_DENSITY * (wrap.square() - core.square())
    return steel + wound * copper


def stiffness_coefficient(length: Tensor, core: Tensor, tension: Tensor) -> Tensor:
    return math.pi**3 * STEEL_MODULUS * core.pow(4) / (64.0 * tension * length.square())


class StringPartials(torch.autograd.Function):
    """Frequencies of the first partials of every string.

    length, core, wrap, tension: (S,)  ->  (S, N)

        f_n = n * f_1 * sqrt(1 + B n^2),   f_1 = sqrt(T / mu) / (2 L)

    Plain strings are given with ``wrap`` equal to ``core`` or to zero.
    """

    @staticmethod
    def forward(ctx, length, core, wrap, tension, n_partials=8):
        mass = linear_mass(core, wrap)
        stiff = stiffness_coefficient(length, core, tension)
        first = torch.sqrt(tension / mass) / (2.0 * length)
        n = torch.arange(1, n_partials + 1, dtype=length.dtype, device=length.device)
        sharp = 1.0 + stiff[:, None] * n.square()
        freq = n * first[:, None] * torch.sqrt(sharp)
        ctx.save_for_backward(length, core, wrap, tension, mass, stiff, n, freq)
        return freq

    @staticmethod
    def backward(ctx, grad_freq):
        length, core, wrap, tension, mass, stiff, n, freq = ctx.saved_tensors
        wound = (wrap > core).to(core.dtype)
        share = grad_freq * freq
        whole = share.sum(1)
        # d log f / d log B
        bend = 0.5 * stiff[:, None] * n.square() / (1.0 + stiff[:, None] * n.square())
        bent = (share * bend).sum(1)

        mass_core = 2.0 * QUARTER_PI * STEEL_DENSITY * core
        mass_wrap = 2.0 * QUARTER_PI * WRAP_FILL * COPPER_DENSITY * wrap * wound
        grad_length = -(whole + 2.0 * bent) / length
        grad_tension = (0.5 * whole - bent) / tension
        grad_core = 4.0 * bent / core - 0.5 * whole * mass_core / mass
        grad_wrap = -0.5 * whole * mass_wrap / mass
        return grad_length, grad_core, grad_wrap, grad_tension, None


class IntervalRoughness(torch.autograd.Function):
    """Roughness of intervals from the beats of near-coincident partials.

    Parameters
    ----------
    freq : Tensor
        Partials of the strings, ``(S, N)``.
    emphasis : Tensor
        How much the tuner cares for each interval, ``(P,)``.
    worst_rate : Tensor
        Scalar, the beat rate heard as roughest (Hz).
    pairs : LongTensor
        ``(P, 4)``: lower string, its partial, upper string, its partial, with the
        partials counted from one.

    Returns
    -------
    Tensor
        ``(P,)``, ``emphasis * x * exp(1 - x)`` with ``x = (beat / worst_rate)^2``.
    """

    @staticmethod
    def forward(ctx, freq, emphasis, worst_rate, pairs):
        low, i, high, j = pairs.unbind(1)
        gap = freq[high, j - 1] - freq[low, i - 1]
        x = (gap / worst_rate).square()
        shape = x * torch.exp(1.0 - x)
        ctx.save_for_backward(emphasis, worst_rate, pairs, gap, x, shape)
        ctx.table = freq.shape
        return emphasis * shape

    @staticmethod
    def backward(ctx, grad_rough):
        emphasis, worst_rate, pairs, gap, x, shape = ctx.saved_tensors
        low, i, high, j = pairs.unbind(1)
        through = grad_rough * emphasis * (1.0 - x) * torch.exp(1.0 - x)
        grad_gap = 2.0 * through * gap / worst_rate.square()
        grad_worst = -2.0 * (through * x).sum() / worst_rate
        strings, partials = ctx.table
        flat = grad_gap.new_zeros(strings * partials)
        flat.index_add_(0, high * partials + j - 1, grad_gap)
        flat.index_add_(0, low * partials + i - 1, -grad_gap)
        return flat.view(strings, partials), grad_rough * shape, grad_worst, None


class UnisonAftersound(torch.autograd.Function):
    """Level in dB of a struck unison, prompt sound and aftersound together.

    The two modes have amplitudes ``prompt`` and ``after``, decay times ``tau_p`` and
    ``tau_a`` and a frequency difference ``detune`` (Hz), all (S,); ``time`` is (T,).
    """

    @staticmethod
    def forward(ctx, prompt, after, tau_p, tau_a, detune, time):
        fade_p = torch.exp(-time / tau_p[:, None])
        fade_a = torch.exp(-time / tau_a[:, None])
        phase = 2.0 * math.pi * detune[:, None] * time
        one = prompt[:, None] * fade_p
        two = after[:, None] * fade_a
        power = one.square() + two.square() + 2.0 * one * two * torch.cos(phase)
        ctx.save_for_backward(prompt, after, tau_p, tau_a, time, fade_p, fade_a, phase, power)
        return DECIBEL * torch.log(power + POWER_FLOOR)

    @staticmethod
    def backward(ctx, grad_level):
        prompt, after, tau_p, tau_a, time, fade_p, fade_a, phase, power = ctx.saved_tensors
        one = prompt[:, None] * fade_p
        two = after[:, None] * fade_a
        g_power = DECIBEL * grad_level / (power + POWER_FLOOR)
        cos, sin = torch.cos(phase), torch.sin(phase)
        g_one = g_power * 2.0 * (one + two * cos)
        g_two = g_power * 2.0 * (two + one * cos)

        grad_prompt = (g_one * fade_p).sum(1)
        grad_after = (g_two * fade_a).sum(1)
        ageing = time / tau_p[:, None].square()
        grad_tau_p = (g_one * one * ageing).sum(1)
        grad_tau_a = (g_two * two * ageing).sum(1)
        grad_detune = -(g_power * 4.0 * math.pi * time * one * two * sin).sum(1)
        return grad_prompt, grad_after, grad_tau_p, grad_tau_a, grad_detune, None


def interval_pairs(n_strings: int, names: Iterable[str]) -> Tensor:
    """Integer table of all the named intervals inside a compass of n strings."""
    rows: List[Tuple[int, int, int, int]] = []
    for name in names:
        semitones, i, j = INTERVALS[name]
        rows += [(s, i, s + semitones, j) for s in range(n_strings - semitones)]
    return torch.tensor(rows, dtype=torch.long)


def tenor_scale(n_strings: int = 36, wound: int = 12, first_note: float = 65.4) -> Scale:
    """A plausible scale from C2 upward, its lowest strings wound."""
    k = torch.arange(n_strings, dtype=torch.float64)
    pitch = first_note * 2.0 ** (k / 12.0)
    length = 1.35 * 2.0 ** (-k / 15.0)
    core = 0.0011 - 0.000004 * k
    wrap = torch.where(k < wound, 0.0024 - 0.00006 * k, core)
    tension = linear_mass(core, wrap) * (2.0 * length * pitch).square()
    return Scale(length, core, wrap, tension)


class ScaleDesign(nn.Module):
    """Strings with free tension and wire sizes, scored by their beats."""

    def __init__(self, start: Scale, intervals=("octave_2_1", "octave_4_2", "twelfth_3_1")):
        super().__init__()
        self.register_buffer("length", start.length)
        self.log_core = nn.Parameter(start.core.log())
        wrap_ratio = start.wrap / start.core
        self.register_buffer("wound", wrap_ratio > 1.0)
        self.log_wrap_ratio = nn.Parameter(wrap_ratio.log())
        self.log_tension = nn.Parameter(start.tension.log())
        pairs = interval_pairs(start.length.shape[0], intervals)
        self.register_buffer("pairs", pairs)
        self.emphasis = nn.Parameter(torch.ones(pairs.shape[0], dtype=start.length.dtype),
                                     requires_grad=False)
        self.register_buffer("worst_rate", torch.tensor(7.0, dtype=start.length.dtype))

    def partials(self) -> Tensor:
        core = self.log_core.exp()
        wrap = torch.where(self.wound, core * self.log_wrap_ratio.exp(), torch.zeros_like(core))
        return StringPartials.apply(self.length, core, wrap, self.log_tension.exp(), 6)

    def forward(self) -> Tensor:
        return IntervalRoughness.apply(self.partials(), self.emphasis, self.worst_rate, self.pairs)


class DecayFit(nn.Module):
    """Two-stage decays fitted to level curves (S, T)."""

    def __init__(self, n_strings: int):
        super().__init__()
        self.log_prompt = nn.Parameter(torch.zeros(n_strings))
        self.log_after = nn.Parameter(torch.full((n_strings,), -2.0))
        self.log_tau_p = nn.Parameter(torch.full((n_strings,), 0.0))
        self.log_tau_a = nn.Parameter(torch.full((n_strings,), 1.5))
        self.detune = nn.Parameter(torch.full((n_strings,), 0.1))

    def forward(self, time: Tensor) -> Tensor:
        return UnisonAftersound.apply(
            self.log_prompt.exp(), self.log_after.exp(), self.log_tau_p.exp(),
            self.log_tau_a.exp(), self.detune, time,
        )


if __name__ == "__main__":
    design = ScaleDesign(tenor_scale())
    adam = torch.optim.Adam([design.log_tension], lr=1e-4)
    for step in range(40):
        adam.zero_grad()
        total = design().mean()
        total.backward()
        adam.step()
    print("mean roughness", total.item())

    fit = DecayFit(3)
    seconds = torch.linspace(0.05, 6.0, 80)
    target = -8.0 * seconds.expand(3, -1)
    err = (fit(seconds) - target).square().mean()
    err.backward()
    print("decay misfit", err.item())
