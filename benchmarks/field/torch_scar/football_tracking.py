"""Differentiable pitch models for tracking data (metres, seconds)."""
from dataclasses import dataclass

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class ArrivalModel:
    reaction: float = 0.7     # s during which a player keeps running as he was
    temperature: float = 0.45  # s, softness of the race to the ball
    softening: float = 0.1    # m, rounds off the distance at zero


class PitchControl(Function):
    """Probability that the home side reaches each pitch location first.

    A player first drifts for ``model.reaction`` seconds with his present velocity, then runs straight to the
    location at his top speed; the race among the players on the pitch is a softmax over minus arrival time.

    Shapes
        position, velocity   (frames, players, 2)
        top_speed            (players,)  or (frames, players), > 0
        location             (cells, 2), shared by all frames
        home                 (players,) bool
        on_pitch             (frames, players) bool, at least one True per frame; entries that are False
                             take no part and get zero gradient
        returns              (frames, cells)
    """

    @staticmethod
    def forward(ctx, position, velocity, top_speed, location, home, on_pitch, model=ArrivalModel()):
        start = position + model.reaction * velocity
        start = torch.where(on_pitch[..., None], start, torch.zeros_like(start))  # absent players may hold NaN
        gap = location[None, :, None, :] - start[:, None, :, :]          # frames, cells, players, 2
        dist = (gap.square().sum(-1) + model.softening**2).sqrt()
        speed = top_speed.expand(position.shape[:2])[:, None, :]
        arrival = model.reaction + dist / speed
        logits = (-arrival / model.temperature).masked_fill(~on_pitch[:, None, :], float("-inf"))
        share = logits.softmax(-1)
        control = (share * home).sum(-1)
        ctx.save_for_backward(gap, dist, top_speed, share, control, home)
        ctx.model = model
        return control

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        gap, dist, top_speed, share, control, home = ctx.saved_tensors
        model = ctx.model
        frames, _, players = share.shape
        speed = top_speed.expand(frames, players)[:, None, :]
        d_logit = grad[..., None] * share * (home.to(share.dtype) - control[..., None])
        d_arrival = -d_logit / model.temperature
        d_gap = (d_arrival / speed / dist)[..., None] * gap
        d_start = -d_gap.sum(1)
        d_speed = (-d_arrival * dist / speed**2).sum(1).sum_to_size(top_speed.shape)
        return d_start, model.reaction * d_start, d_speed, d_gap.sum((0, 2)), None, None, None


class ThreatSweep(Function):
    """Expected threat after `sweeps` rounds of V <- shoot*goal + move*(T V), from V = 0. Zones last; T is (..., from, to)."""

    @staticmethod
    def forward(ctx, shoot, goal, move, transition, sweeps=5):
        value = torch.zeros_like(shoot)
        direct = shoot * goal
        for _ in range(sweeps):
            value = direct + move * (transition @ value[..., None])[..., 0]
        ctx.save_for_backward(shoot, goal, move, transition, value)
        ctx.sweeps = sweeps
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        shoot, goal, move, transition, value = ctx.saved_tensors
        carried = (transition @ value[..., None])[..., 0]
        d_direct = torch.zeros_like(grad)
        d_move = torch.zeros_like(grad)
        d_transition = grad.new_zeros(*grad.shape, grad.shape[-1])
        lam = grad
        for _ in range(ctx.sweeps):
            d_direct += lam
            d_move += lam * carried
            pushed = lam * move
            d_transition += pushed[..., :, None] * value[..., None, :]
            lam = (transition.mT @ pushed[..., None])[..., 0]
        return (
            d_direct * goal,
            d_direct * shoot,
            d_move.sum_to_size(move.shape),
            d_transition.sum_to_size(transition.shape),
            None,
        )


class PossessionXG(Function):
    @staticmethod
    def forward(xg, possession, n_possessions):
        miss = 1 - xg
        ids = possession.expand(xg.shape)
        none_in = xg.new_ones(*xg.shape[:-1], n_possessions)
        return 1 - none_in.scatter_reduce(-1, ids, miss, "prod")

    @staticmethod
    def setup_context(ctx, inputs, output):
        xg, possession, ctx.n = inputs
        ctx.save_for_backward(xg, possession)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        xg, possession = ctx.saved_tensors
        ids = possession.expand(xg.shape)
        miss = 1 - xg
        sure = miss == 0
        filled = torch.where(sure, torch.ones_like(miss), miss)
        blank = xg.new_ones(*xg.shape[:-1], ctx.n)
        prod = blank.scatter_reduce(-1, ids, filled, "prod").gather(-1, ids)
        count = torch.zeros_like(blank).scatter_add(-1, ids, sure.to(xg.dtype)).gather(-1, ids)
        others_sure = count - sure.to(xg.dtype) > 0
        others = torch.where(others_sure, torch.zeros_like(prod), prod / filled)
        return grad.gather(-1, ids) * others, None, None


def match_xg(xg, possession, n_possessions):
    """Goals expected of a side, one shot at most counted per possession."""
    return PossessionXG.apply(xg, possession, n_possessions).sum(-1)
