"""Bench model of a theremin: pitch antenna, volume loop, and how well in tune it is played.

Lengths are metres, capacitances picofarads, inductances millihenries, frequencies hertz.
"""

import math
from typing import NamedTuple

import torch
from torch.autograd import Function

EPS0_PF = 8.8541878128  # pF per metre
PENTATONIC = (0.0, 200.0, 400.0, 700.0, 900.0)
MAJOR = (0.0, 200.0, 400.0, 500.0, 700.0, 900.0, 1100.0)


class Antenna(NamedTuple):
    length: float = 0.45
    radius: float = 0.005
    coupling: float = 0.06  # share of the hand's capacitance that the tank circuit sees


def hand_capacitance(distance, antenna=Antenna()):
    """Rod against a grounded hand at `distance` from its axis."""
    return antenna.coupling * math.pi * EPS0_PF * antenna.length / torch.log(2 * distance / antenna.radius)


def resonance(tank_pf, coil_mh):
    # mH * pF = 1e-15 s^2
    return 1.0 / (2 * math.pi * torch.sqrt(coil_mh * tank_pf * 1e-15))


class BeatPitch(Function):
    """Audible pitch |f_ref - f_var| of the two oscillators.

    distance: (T,) hand to antenna, larger than its radius
    tank_pf, coil_mh, f_ref: scalars (0-d tensors).  The instrument may be tuned on either side of zero beat:
    with the fixed oscillator above or below the variable one.
    """

    @staticmethod
    def forward(ctx, distance, tank_pf, coil_mh, f_ref, antenna=Antenna()):
        hand = hand_capacitance(distance, antenna)
        f_var = resonance(tank_pf + hand, coil_mh)
        ctx.save_for_backward(distance, tank_pf, coil_mh, hand, f_var)
        ctx.antenna = antenna
        return (f_ref - f_var).abs()

    @staticmethod
    def backward(ctx, grad):
        distance, tank_pf, coil_mh, hand, f_var = ctx.saved_tensors
        g_var = -grad
        g_cap = g_var * (-0.5) * f_var / (tank_pf + hand)
        log_ratio = torch.log(2 * distance / ctx.antenna.radius)
        g_distance = -g_cap * hand / (log_ratio * distance)
        g_coil = (g_var * (-0.5) * f_var / coil_mh).sum()
        return g_distance, g_cap.sum(), g_coil, grad.sum(), None


class LoopGain(Function):
    """Loudness against the left hand's height over the loop, d^p / (d^p + d0^p).

    The hand may rest on the loop (d = 0: silence).  d0 > 0 and p >= 1 are of d's shape or of one that
    broadcasts to it.
    """

    @staticmethod
    def forward(ctx, d, d0, p):
        a, b = d**p, d0**p
        ctx.save_for_backward(d, d0, p)
        return a / (a + b)

    @staticmethod
    def backward(ctx, grad):
        d, d0, p = ctx.saved_tensors
        total = d**p + d0**p
        gain = d**p / total
        slope = gain * (1 - gain)
        g_d = grad * p * d ** (p - 1) * d0**p / total**2
        g_d0 = -grad * p * slope / d0
        touching = d == 0
        log_d = torch.log(torch.where(touching, torch.ones_like(d), d))
        g_p = torch.where(touching, torch.zeros_like(d), grad * slope * (log_d - torch.log(d0)))
        # autograd adds up over what was broadcast
        return g_d, g_d0, g_p


def wrap_octave(cents):
    return cents - 1200.0 * torch.round(cents / 1200.0)


class ScaleIntonationLoss(Function):
    """How far a melody is from the nearest notes of a scale, octaves apart counting as the same note.

    Args:
        pitch: (T,) hertz.
        loudness: (T,) weights, not negative, not all zero.
        scale: (S,) cents above the root.
        root: hertz.
        power: 1 for the mean deviation, 2 for the mean square, in units of a semitone.
    """

    @staticmethod
    def forward(ctx, pitch, loudness, scale, root=261.6256, power=2.0):
        cents = 1200.0 * torch.log2(pitch / root)
        off = wrap_octave(cents[:, None] - scale)
        nearest = off.detach().abs().argmin(dim=1)
        err = off.gather(1, nearest[:, None])[:, 0] / 100.0
        total = loudness.sum()
        loss = (loudness * err.abs() ** power).sum() / total
        ctx.save_for_backward(pitch, loudness, scale[nearest], err, loss)
        ctx.root, ctx.power = root, power
        return loss

    @staticmethod
    def backward(ctx, grad):
        pitch, loudness, note, err, loss = ctx.saved_tensors
        total = loudness.sum()
        above = torch.remainder(1200.0 * torch.log2(pitch / ctx.root), 1200.0) - note
        d_err = ctx.power * err.abs() ** (ctx.power - 1) * torch.sign(above)
        g_pitch = grad * loudness / total * d_err * 12.0 / (pitch * math.log(2.0))
        g_loud = grad * (err.abs() ** ctx.power - loss) / total
        return g_pitch, g_loud, None, None, None


def play(distance, left_hand, tank_pf, coil_mh, f_ref, scale=PENTATONIC):
    """Score of a performance: intonation loss, weighted by the volume hand."""
    pitch = BeatPitch.apply(distance, tank_pf, coil_mh, f_ref)
    gain = LoopGain.apply(left_hand, torch.full_like(tank_pf, 0.08), torch.full_like(tank_pf, 2.0))
    return ScaleIntonationLoss.apply(pitch, gain, torch.tensor(scale, dtype=pitch.dtype))
