"""Sea turtle nesting beach: sex of the hatchlings, drowned nests, returning females.

Temperatures are in degrees Celsius, heights in metres above datum, times in
days or seasons.
"""
from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd import Function


class BeachParameters(NamedTuple):
    threshold: Tensor    # no embryonic growth below
    pivotal: Tensor      # equal numbers of both sexes
    steepness: Tensor    # per degree
    frailty: Tensor      # hazard per tide at one metre of water over the eggs


def loggerhead(dtype=torch.float64) -> BeachParameters:
    return BeachParameters(*(torch.tensor(v, dtype=dtype) for v in (24.0, 29.2, 1.9, 0.35)))


class FemaleFraction(Function):
    """Share of females in each clutch from the sand temperature in the nest.

    Days count by the growth that is made in them (degrees above the
    threshold), so the temperature that decides is a growth-weighted mean.

    Parameters
    ----------
    sand : Tensor, shape (nests, days)
    threshold : Tensor, scalar
    pivotal, steepness : Tensor, scalar or one per nest
    window : bool Tensor, shape (nests, days), optional
        The thermosensitive days; all of them if left out.

    Returns
    -------
    fraction, effective : Tensor, shape (nests,)
        The share of females and the growth-weighted temperature. A clutch
        that never grows in its window has no sex: it is reported as 0.5 at
        temperature 0, and nothing depends on the inputs.
    """

    @staticmethod
    def forward(ctx, sand, threshold, pivotal, steepness, window=None):
        live = sand > threshold
        if window is not None:
            live = live & window
        growth = torch.where(live, sand - threshold, torch.zeros_like(sand))
        total = growth.sum(-1)
        grown = total > 0
        safe = torch.where(grown, total, torch.ones_like(total))
        effective = (growth * sand).sum(-1) / safe
        fraction = torch.sigmoid(steepness * (effective - pivotal))
        fraction = torch.where(grown, fraction, torch.full_like(fraction, 0.5))
        ctx.save_for_backward(sand, live, growth, safe, grown, effective, fraction, pivotal, steepness)
        ctx.set_materialize_grads(False)
        return fraction, effective

    @staticmethod
    def backward(ctx, g_fraction, g_effective):
        sand, live, growth, safe, grown, effective, fraction, pivotal, steepness = ctx.saved_tensors
        zero = torch.zeros_like(effective)
        slope = zero
        if g_fraction is not None:
            slope = torch.where(grown, g_fraction * fraction * (1 - fraction), zero)
        g_mean = slope * steepness
        if g_effective is not None:
            g_mean = g_mean + torch.where(grown, g_effective, zero)
        lever = torch.where(live, (sand - effective[:, None]) / safe[:, None], torch.zeros_like(sand))
        g_sand = g_mean[:, None] * (lever + growth / safe[:, None])
        g_threshold = -(g_mean[:, None] * lever).sum()
        g_pivotal = (-slope * steepness).sum_to_size(pivotal.shape)
        g_steep = (slope * (effective - pivotal)).sum_to_size(steepness.shape)
        return g_sand, g_threshold, g_pivotal, g_steep, None


class DrownedNests(Function):
    """Survival of nests under spring tides.

    crest: (tides,) water levels; height: (nests,) height of the egg chamber;
    frailty: scalar tensor; shape: how sharply the hazard grows with the depth
    of water, a float of at least one (1 is the linear law of the ranger's
    handbook, 2 the one fitted on the northern beach).

    Gives survival (nests,) and the accumulated dose (nests,).
    """

    @staticmethod
    def forward(ctx, crest, height, frailty, shape=1.0):
        depth = torch.relu(crest[None, :] - height[:, None])
        dose = torch.where(depth > 0, depth, torch.zeros_like(depth)).pow(shape).sum(-1)
        survival = torch.exp(-frailty * dose)
        ctx.save_for_backward(depth, dose, survival, frailty)
        ctx.shape = shape
        return survival, dose

    @staticmethod
    def backward(ctx, g_survival, g_dose):
        depth, dose, survival, frailty = ctx.saved_tensors
        g = g_dose - g_survival * survival * frailty
        wet = depth > 0
        rise = torch.where(wet, depth, torch.ones_like(depth)).pow(ctx.shape - 1) * wet
        g_depth = g[:, None] * rise
        g_frailty = -(g_survival * survival * dose).sum()
        return g_depth.sum(0), -g_depth.sum(1), g_frailty, None


class RemigrantCount(Function):
    """Females expected back on the beach in each season.

    A female rests k = 1, 2, ... seasons with probability rest[k - 1] and
    survives each of them with probability phi:
        back[t] = sum_k  nested[t - k] * rest[k - 1] * phi ** k
    Seasons run along the last axis of ``nested``; any axes before it are
    beaches that share ``rest`` and ``phi``.  ``rest`` may be longer than the
    record.
    """

    @staticmethod
    def forward(nested, rest, phi):
        seasons = nested.shape[-1]
        back = torch.zeros_like(nested)
        for k in range(1, min(rest.shape[0], seasons - 1) + 1):
            moved = torch.nn.functional.pad(nested[..., : seasons - k], (k, 0))
            back = back + moved * rest[k - 1] * phi ** k
        return back

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        nested, rest, phi = ctx.saved_tensors
        seasons = nested.shape[-1]
        g_nested = torch.zeros_like(nested)
        g_rest = torch.zeros_like(rest)
        g_phi = torch.zeros_like(phi)
        for k in range(1, min(rest.shape[0], seasons - 1) + 1):
            later = grad[..., k:]
            g_nested[..., : seasons - k] += later * rest[k - 1] * phi ** k
            met = (later * nested[..., : seasons - k]).sum()
            g_rest[k - 1] = met * phi ** k
            g_phi = g_phi + met * rest[k - 1] * k * phi ** (k - 1)
        return g_nested, g_rest, g_phi


def season_report(sand: Tensor, crest: Tensor, height: Tensor, par: BeachParameters,
                  window: Optional[Tensor] = None, shape: float = 1.0) -> Tensor:
    """Expected share of eggs that give female hatchlings, per nest."""
    fraction, _ = FemaleFraction.apply(sand, par.threshold, par.pivotal, par.steepness, window)
    survival, _ = DrownedNests.apply(crest, height, par.frailty, shape)
    return fraction * survival
