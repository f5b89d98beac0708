"""Planning of house renovations: how long jobs take, who does them, and when the neighbours complain.

A learned planner needs draws of job durations, a measure of how badly a crew's skills miss what a job asks for, and
an embedding of the time of day.
"""
import torch
from torch.autograd import Function

MINUTES = 1440.0
UNKNOWN_DAY = -1


def _triangle(u, short, likely, long):
    """Quantile of the triangular distribution and the mask of its rising side."""
    width = long - short
    rising = u < (likely - short) / width
    up = torch.where(rising, u * width * (likely - short), torch.ones_like(u * width))
    down = torch.where(rising, torch.ones_like(u * width), (1.0 - u) * width * (long - likely))
    return torch.where(rising, short + torch.sqrt(up), long - torch.sqrt(down)), rising


def _triangle_slopes(u, short, likely, long):
    """Partial derivatives of the quantile by u, short, likely, long."""
    x, rising = _triangle(u, short, likely, long)
    width, left, right = long - short, likely - short, long - likely
    root = torch.where(rising, x - short, long - x)
    v = torch.where(rising, u, 1.0 - u)
    d_u = width * torch.where(rising, left, right) / (2.0 * root)
    d_short = torch.where(rising, 1.0 - v * (width + left) / (2.0 * root), v * right / (2.0 * root))
    d_long = torch.where(rising, v * left / (2.0 * root), 1.0 - v * (width + right) / (2.0 * root))
    d_likely = v * width / (2.0 * root)
    return d_u, d_short, d_likely, d_long


class JobDuration(Function):
    """Durations drawn from (shortest, likely, longest) estimates by inversion.

    u is (draws, jobs) in (0, 1), the estimates are (jobs,) with short < likely < long. u usually comes out of the copula
    layer that ties jobs of the same trade together, so it has a gradient too.

    paired=True returns the average of the draw at u and of its mirror image at 1 - u, which steadies the estimates of the
    planner's cost.
    """

    @staticmethod
    def forward(ctx, u, short, likely, long, paired=False):
        ctx.save_for_backward(u, short, likely, long)
        ctx.paired = paired
        x, _ = _triangle(u, short, likely, long)
        if paired:
            mirror, _ = _triangle(1.0 - u, short, likely, long)
            x = 0.5 * (x + mirror)
        return x

    @staticmethod
    def backward(ctx, g):
        u, *estimates = ctx.saved_tensors
        slopes = _triangle_slopes(u, *estimates)
        if ctx.paired:
            mirrored = _triangle_slopes(1.0 - u, *estimates)
            slopes = tuple(0.5 * (a + b) for a, b in zip(slopes, mirrored))
        d_u, d_short, d_likely, d_long = slopes
        return g * d_u, (g * d_short).sum(0), (g * d_likely).sum(0), (g * d_long).sum(0), None


class SkillShortage(Function):
    """Weighted squared shortage of each assignment (crew[i] does job[i]).

    skill (crews, trades), demand (jobs, trades), importance (trades,); crew and job int64 (assignments,).
    A crew that is better than the job asks for costs nothing.
    """

    @staticmethod
    def forward(ctx, skill, demand, importance, crew, job):
        gap = torch.relu(demand[job] - skill[crew])
        ctx.save_for_backward(skill, demand, importance, crew, job, gap)
        return (gap**2 * importance).sum(1)

    @staticmethod
    def backward(ctx, g):
        skill, demand, importance, crew, job, gap = ctx.saved_tensors
        push = 2.0 * g[:, None] * gap * importance
        g_demand = torch.zeros_like(demand).index_add_(0, job, push)
        g_skill = torch.zeros_like(skill)
        g_skill[crew] -= push
        return g_skill, g_demand, (g[:, None] * gap**2).sum(0), None, None


class DayClockEmbedding(Function):
    """Time of day as a point between two neighbouring slots of a round table.

    table (kinds, slots, dim): one ring of slots for each kind of day (working day, Saturday, holiday ...)
    minute (...,) float, counted from midnight; may run past 24 h or be negative, the clock is round
    kind (...,) int64, or UNKNOWN_DAY, which gives a zero vector
    """

    @staticmethod
    def forward(ctx, table, minute, kind):
        slots = table.shape[1]
        place = minute * (slots / MINUTES)
        base = torch.floor(place)
        part = (place - base)[..., None]
        i = base.long() % slots
        j = (i + 1) % slots
        known = kind != UNKNOWN_DAY
        row = torch.where(known, kind, torch.zeros_like(kind))
        a, b = table[row, i], table[row, j]
        ctx.save_for_backward(a, b, part, i, j, row, known)
        ctx.table_shape = table.shape
        return ((1.0 - part) * a + part * b) * known[..., None]

    @staticmethod
    def backward(ctx, g):
        a, b, part, i, j, row, known = ctx.saved_tensors
        g = g * known[..., None]
        g_table = g.new_zeros(ctx.table_shape)
        g_table.index_put_((row, i), g * (1.0 - part), accumulate=True)
        g_table.index_put_((row, j), g * part, accumulate=True)
        g_minute = (g * (b - a)).sum(-1) * (ctx.table_shape[1] / MINUTES)
        return g_table, g_minute, None


class Planner(torch.nn.Module):
    """Cost of a plan: expected working time plus the skill shortages of its assignments."""

    def __init__(self, crews, trades, kinds=3, slots=24, dim=8):
        super().__init__()
        self.skill = torch.nn.Parameter(torch.rand(crews, trades))
        self.importance = torch.nn.Parameter(torch.ones(trades))
        self.clock = torch.nn.Parameter(0.1 * torch.randn(kinds, slots, dim))
        self.noise = torch.nn.Linear(dim, 1)

    def forward(self, estimates, u, demand, crew, job, start, kind):
        hours = JobDuration.apply(u, *estimates, True).mean(0)
        shortage = SkillShortage.apply(self.skill, demand, self.importance, crew, job)
        quiet = self.noise(DayClockEmbedding.apply(self.clock, start, kind)).squeeze(-1)
        return (hours[job] * (1.0 + shortage)).sum() + torch.relu(quiet).sum()
