"""Pass-through pools: prepayment speeds, balance run-off, value at a spread over simulated short rates."""

import math
from typing import NamedTuple

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class SpeedParams(NamedTuple):
    """S-curve of the annual prepayment rate; every field is a scalar or ``[pools, 1]``."""

    low: torch.Tensor
    high: torch.Tensor
    slope: torch.Tensor
    centre: torch.Tensor


class RunOff(NamedTuple):
    balance: torch.Tensor
    prepaid: torch.Tensor


class SeasonedPrepay(Function):
    """Single monthly mortality from the refinancing incentive.

    Shapes
        incentive   [pools, months]  (coupon minus market rate, in percent)
        low, high, slope, centre     broadcastable against incentive
        season      [12]             multiplier of the calendar month
        age, month  integer [pools, months]; month in 0..11

    cpr = min(age / ramp, 1) * season[month] * (low + (high - low) * sigmoid(slope * (incentive - centre)))
    smm = 1 - (1 - cpr) ** (1/12);   the annual rate must stay under 1.
    """

    @staticmethod
    def forward(incentive, low, high, slope, centre, season, age, month, ramp=30):
        sig = torch.sigmoid(slope * (incentive - centre))
        aged = (age.to(incentive.dtype) / ramp).clamp(max=1.0)
        cpr = aged * season[month] * (low + (high - low) * sig)
        return -torch.expm1(torch.log1p(-cpr) / 12)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.ramp = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        incentive, low, high, slope, centre, season, age, month = ctx.saved_tensors
        sig = torch.sigmoid(slope * (incentive - centre))
        aged = (age.to(incentive.dtype) / ctx.ramp).clamp(max=1.0)
        curve = low + (high - low) * sig
        factor = aged * season[month]
        cpr = factor * curve
        g_cpr = g * torch.exp(torch.log1p(-cpr) * (1 / 12 - 1)) / 12
        g_season = torch.zeros_like(season)
        g_season.index_add_(
            0, month.expand(g.shape).reshape(-1), (g_cpr * aged * curve).reshape(-1)
        )
        g_curve = g_cpr * factor
        g_arg = g_curve * (high - low) * sig * (1 - sig)

        def fit(t, like):
            return t.expand(g.shape).sum_to_size(like.shape)

        return (
            fit(g_arg * slope, incentive),
            fit(g_curve * (1 - sig), low),
            fit(g_curve * sig, high),
            fit(g_arg * (incentive - centre), slope),
            fit(-g_arg * slope, centre),
            g_season,
            None,
            None,
            None,
        )


def _level_share(rate, left):
    """Share of the balance that the level payment repays with ``left`` months to go."""
    return rate / torch.expm1(left * torch.log1p(rate))


class PoolRunOff(Function):
    """Month-end balances and prepaid principal, both [pools, months].

    opening [pools], smm [pools, months], rate [pools] monthly note rate (> 0), term: months left at the start (int, at
    least the number of months).
    """

    @staticmethod
    def forward(ctx, opening, smm, rate, term):
        months = smm.shape[1]
        bal, balances, prepaid = opening, [], []
        for t in range(months):
            after = bal * (1 - _level_share(rate, term - t))
            prepaid.append(smm[:, t] * after)
            bal = after - prepaid[-1]
            balances.append(bal)
        balances, prepaid = torch.stack(balances, 1), torch.stack(prepaid, 1)
        ctx.term = term
        ctx.save_for_backward(opening, smm, rate, balances)
        return balances, prepaid

    @staticmethod
    @once_differentiable
    def backward(ctx, g_bal, g_pre):
        opening, smm, rate, balances = ctx.saved_tensors
        g_smm, g_rate = torch.zeros_like(smm), torch.zeros_like(rate)
        lam = torch.zeros_like(opening)
        for t in reversed(range(smm.shape[1])):
            left = ctx.term - t
            share = _level_share(rate, left)
            before = balances[:, t - 1] if t else opening
            after = before * (1 - share)
            lam = lam + g_bal[:, t]
            g_smm[:, t] = after * (g_pre[:, t] - lam)
            g_after = lam * (1 - smm[:, t])
            grow = torch.expm1(left * torch.log1p(rate))
            d_share = 1 / grow - rate * left * (grow + 1) / ((1 + rate) * grow * grow)
            g_rate -= g_after * before * d_share
            lam = g_after * (1 - share)
        return lam, g_smm, g_rate, None


class SpreadValue(Function):
    """Value of cash [P, S, T] over short-rate paths [S, T] at a spread per pool [P]; averaged over S if asked."""

    @staticmethod
    def forward(ctx, cash, short, spread, dt=1 / 12, average=True):
        step = torch.log1p((short + spread[:, None, None]) * dt)
        disc = torch.exp(-step.cumsum(-1))
        ctx.save_for_backward(cash, short, spread, disc)
        ctx.dt, ctx.average = dt, average
        value = (cash * disc).sum(-1)
        return value.mean(1) if average else value

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        cash, short, spread, disc = ctx.saved_tensors
        full = torch.broadcast_shapes(cash.shape, disc.shape)
        if ctx.average:
            g = (g / full[1]).unsqueeze(1)
        g = g.unsqueeze(-1).expand(full)
        g_cash = g * disc
        later = (g_cash * cash).flip(-1).cumsum(-1).flip(-1)
        g_rate = -later * ctx.dt / (1 + (short + spread[:, None, None]) * ctx.dt)
        return (
            g_cash.sum_to_size(cash.shape),
            g_rate.sum_to_size(short.shape),
            g_rate.sum((1, 2)).sum_to_size(spread.shape),
            None,
            None,
        )


def run_off(opening, smm, note_rate, term=360):
    return RunOff(*PoolRunOff.apply(opening, smm, note_rate / 12, term))


def speeds(incentive, params: SpeedParams, season, age, month, ramp=30):
    return SeasonedPrepay.apply(incentive, *params, season, age, month, ramp)


def psa_speed(age, multiple=1.0):
    cpr = 0.06 * multiple * min(age / 30, 1.0)
    return 1 - math.exp(math.log1p(-cpr) / 12)
