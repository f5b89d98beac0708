from typing import NamedTuple

import torch

GRAVITY = 9.81
HOUSE_RADIUS = 1.829
STONE_MASS = 19.1


class Runout(NamedTuple):
    speed_sq: torch.Tensor
    heat: torch.Tensor


class SweptRunout(torch.autograd.Function):
    """Run a stone down the sheet in steps of ``dx`` metres.

    Shapes: ``v0`` (B,), ``mu`` (B,), ``sweep`` (B, S) in [0, 1], ``benefit`` () the share of friction
    that full sweeping removes.  Each segment takes ``2 g mu (1 - benefit * sweep) dx`` from the squared speed;
    a stone that would go below zero stops for good.

    Returns the squared speed after the last segment (B,) and the friction heat that the segments offer (B,).
    """

    @staticmethod
    def forward(ctx, v0, mu, sweep, benefit, dx):
        grip = 1.0 - benefit * sweep
        loss = 2.0 * GRAVITY * dx * mu[:, None] * grip
        total = loss.sum(1)
        rest = v0**2 - total
        alive = rest > 0
        ctx.save_for_backward(v0, mu, sweep, benefit, grip, alive)
        ctx.dx = dx
        return torch.where(alive, rest, torch.zeros_like(rest)), 0.5 * STONE_MASS * total

    @staticmethod
    def backward(ctx, g_speed, g_heat):
        v0, mu, sweep, benefit, grip, alive = ctx.saved_tensors
        g = torch.where(alive, g_speed, torch.zeros_like(g_speed))
        g_loss = (-2.0 * GRAVITY * ctx.dx * g[:, None]).expand_as(grip)
        g_mu = (g_loss * grip).sum(1)
        g_sweep = -g_loss * mu[:, None] * benefit
        g_benefit = -(g_loss * mu[:, None] * sweep).sum()
        return 2.0 * v0 * g, g_mu, g_sweep, g_benefit, None


def run_stone(v0, mu, sweep, benefit, dx=0.5):
    return Runout(*SweptRunout.apply(v0, mu, sweep, benefit, dx))


class HouseCount(torch.autograd.Function):
    """Soft score of one side in an end.

    dist (B, N): distances to the button; ours (B, N) bool; in_play (B, N) bool.
    A stone of ours counts ``sigmoid((best - dist) / tau)`` where best is the distance of the nearest stone
    of the other side in play, or the house radius when that is nearer or there is none.
    """

    @staticmethod
    def forward(ctx, dist, ours, in_play, tau=0.05):
        theirs = in_play & ~ours
        guarded = torch.where(theirs, dist, torch.full_like(dist, HOUSE_RADIUS))
        best, who = guarded.min(dim=1, keepdim=True)
        by_stone = theirs.gather(1, who) & (best < HOUSE_RADIUS)
        best = best.clamp_max(HOUSE_RADIUS)
        count = torch.sigmoid((best - dist) / tau) * (ours & in_play)
        ctx.save_for_backward(count, who, by_stone)
        ctx.tau = tau
        return count.sum(1)

    @staticmethod
    def backward(ctx, g):
        count, who, by_stone = ctx.saved_tensors
        # count is 0 where the stone is not ours, and so is its slope
        slope = g[:, None] * count * (1.0 - count) / ctx.tau
        g_dist = -slope
        g_dist = g_dist.scatter_add(1, who, slope.sum(1, keepdim=True) * by_stone)
        return g_dist, None, None, None


class HammerValue(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, lead, ends_left):
        rows, cols = table.shape
        half = (rows - 1) / 2
        y = (lead + half).clamp(0, rows - 1)
        x = ends_left.clamp(0, cols - 1)
        i = y.floor().long().clamp_max(rows - 2)
        j = x.floor().long().clamp_max(cols - 2)
        fy, fx = y - i, x - j
        ctx.save_for_backward(
            table, i, j, fy, fx, lead.abs() <= half, (ends_left >= 0) & (ends_left <= cols - 1)
        )
        low = table[i, j] * (1 - fx) + table[i, j + 1] * fx
        high = table[i + 1, j] * (1 - fx) + table[i + 1, j + 1] * fx
        return low * (1 - fy) + high * fy

    @staticmethod
    def backward(ctx, g):
        table, i, j, fy, fx, lead_in, ends_in = ctx.saved_tensors
        g_table = torch.zeros_like(table)
        g_table[i, j] += g * (1 - fy) * (1 - fx)
        g_table[i, j + 1] += g * (1 - fy) * fx
        g_table[i + 1, j] += g * fy * (1 - fx)
        g_table[i + 1, j + 1] += g * fy * fx
        a, b, c, d = table[i, j], table[i, j + 1], table[i + 1, j], table[i + 1, j + 1]
        g_lead = g * ((c - a) * (1 - fx) + (d - b) * fx) * lead_in
        g_ends = g * ((b - a) * (1 - fy) + (d - c) * fy) * ends_in
        return g_table, g_lead, g_ends


class HammerTable(torch.nn.Module):
    """Learned win expectancy of the side with the last stone, indexed by (lead, ends left)."""

    def __init__(self, max_lead=4, ends=10):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(2 * max_lead + 1, ends + 1))

    def forward(self, lead, ends_left):
        return torch.sigmoid(HammerValue.apply(self.logits, lead, ends_left))
