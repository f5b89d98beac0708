"""Equities for a backgammon bot: the evaluation head, the doubling cube and rollouts.

The network ends in five logits per position.  They are *conditional*:

    0  P(win)
    1  P(gammon | win)          2  P(backgammon | gammon, win)
    3  P(gammon | loss)         4  P(backgammon | gammon, loss)

so that the five reported numbers are always consistent (a backgammon is a
gammon, a gammon is a win).  The cube model is Janowski's: the cubeful equity is
a blend of the dead-cube equity and the live-cube equity with an efficiency x.
"""
from typing import NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

CENTRED, OWNED, THEIRS = 0, 1, -1


class OutcomeHead(torch.autograd.Function):
    """(..., 5) conditional logits -> (equity (...), probabilities (..., 5)).

    `jacoby` is a bool tensor (...): where it is set the cube has not been turned
    and gammons do not count (money play), so the equity is that of a plain game.
    The reported probabilities do not depend on it.
    """

    @staticmethod
    def forward(ctx, logits, jacoby):
        c = torch.sigmoid(logits)
        p, g, b, h, k = c.unbind(-1)
        wg, lg = p * g, (1 - p) * h
        probs = torch.stack([p, wg, wg * b, lg, lg * k], -1)
        plain = 2 * p - 1
        extra = wg * (1 + b) - lg * (1 + k)
        ctx.save_for_backward(logits, jacoby)
        return torch.where(jacoby, plain, plain + extra), probs

    @staticmethod
    @once_differentiable
    def backward(ctx, g_eq, g_probs):
        logits, jacoby = ctx.saved_tensors
        c = torch.sigmoid(logits)
        p, g, b, h, k = c.unbind(-1)
        g_ex = g_eq * (~jacoby).to(g_eq.dtype)
        # cotangents of the five joint probabilities
        t = g_probs + torch.stack([2 * g_eq, g_ex, g_ex, -g_ex, -g_ex], -1)
        tw, twg, twb, tlg, tlb = t.unbind(-1)
        won = twg + twb * b
        lost = tlg + tlb * k
        q = 1 - p
        gc = torch.stack([tw + won * g - lost * h, won * p, twb * p * g, lost * q, tlb * q * h], -1)
        return gc * c * (1 - c), None


class CubeSpot(NamedTuple):
    """Owner of the cube per position, and the average stakes of the games won and lost."""
    owner: torch.Tensor       # int64 (B,), CENTRED / OWNED / THEIRS
    win_value: torch.Tensor   # (B,), 1 without gammons
    loss_value: torch.Tensor  # (B,), 1 without gammons


class CubefulEquity(torch.autograd.Function):
    """Janowski's cubeful equity of (B,) positions, cube at 1.

    p: winning chances, w / l: average value of a won / lost game (at least 1),
    x: cube efficiency (scalar, 0 dead .. 1 live), owner: int tensor.
    """

    @staticmethod
    def forward(ctx, p, w, l, x, owner):
        s = w + l + 0.5
        tp, cp = (l - 0.5) / s, (l + 1) / s          # take point and cash point
        dead = p * (w + l) - l
        # the straight pieces of the live-cube curve
        pass_ = -l + (l - 1) * p / tp
        cash = 1 + (w - 1) * (p - cp) / (1 - cp)
        window = -1 + 2 * (p - tp) / (cp - tp)
        centre = torch.where(p < tp, pass_, torch.where(p < cp, window, cash))
        hold = torch.where(p < cp, p * s - l, cash)
        wait = torch.where(p < tp, pass_, p * s - l - 0.5)
        live = torch.where(owner == CENTRED, centre, torch.where(owner == OWNED, hold, wait))
        ctx.save_for_backward(p, w, l, x, owner, live - dead)
        return dead + x * (live - dead)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        p, w, l, x, owner, excess = ctx.saved_tensors
        s = w + l + 0.5
        tp, cp = (l - 0.5) / s, (l + 1) / s
        low = (p < tp) & (owner != OWNED)
        high = (p >= cp) & (owner != THEIRS)
        slope = torch.where(owner == CENTRED, 4 / 3 * torch.ones_like(p), torch.ones_like(p))
        dp, dw, dl = slope * s, slope * p, slope * (p - 1)
        dp = torch.where(low, (l - 1) / tp, torch.where(high, (w - 1) / (1 - cp), dp))
        dw = torch.where(low, torch.zeros_like(p), torch.where(high, (p - cp) / (1 - cp), dw))
        dl = torch.where(low, p / tp - 1, torch.where(high, torch.zeros_like(p), dl))
        gp = grad * (x * dp + (1 - x) * (w + l))
        gw = grad * (x * dw + (1 - x) * p)
        gl = grad * (x * dl + (1 - x) * (p - 1))
        return gp, gw, gl, (grad * excess).sum(), None


class RolloutPool(torch.autograd.Function):
    """Inverse-variance mean of the rollouts of each position, and its standard error.

    equity, log_sd: (B, N); finished: bool (B, N).  Unfinished trials may hold anything
    (the worker leaves NaN).  Each position has at least one finished trial.
    """

    @staticmethod
    def forward(ctx, equity, log_sd, finished):
        zero = torch.zeros_like(equity)
        e = torch.where(finished, equity, zero)
        wt = torch.where(finished, torch.exp(-2 * torch.where(finished, log_sd, zero)), zero)
        total = wt.sum(1)
        mean = (wt * e).sum(1) / total
        ctx.save_for_backward(e, wt, total, mean)
        return mean, total.rsqrt()

    @staticmethod
    @once_differentiable
    def backward(ctx, g_mean, g_se):
        e, wt, total, mean = ctx.saved_tensors
        share = wt / total[:, None]
        g_e = g_mean[:, None] * share
        g_s = -2 * g_e * (e - mean[:, None]) + (g_se * total.rsqrt())[:, None] * share
        return g_e, g_s, None


class Evaluator(nn.Module):
    def __init__(self, features=198, hidden=40):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.Sigmoid(), nn.Linear(hidden, 5))
        self.efficiency = nn.Parameter(torch.tensor(0.68))

    def forward(self, board, spot: CubeSpot, jacoby):
        equity, probs = OutcomeHead.apply(self.body(board), jacoby & (spot.owner == CENTRED))
        return equity, CubefulEquity.apply(probs[:, 0], spot.win_value, spot.loss_value, self.efficiency, spot.owner)
