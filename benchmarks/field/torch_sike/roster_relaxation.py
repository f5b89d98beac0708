import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# start hour, hours worked; the last entry is the day off
SHIFTS = {"early": (6, 8), "day": (9, 8), "late": (14, 8), "night": (22, 10), "off": (0, 0)}
REST_HOURS = 11


def hour_pattern(dtype=None):
    table = torch.zeros(len(SHIFTS), 48, dtype=dtype)
    for row, (start, length) in enumerate(SHIFTS.values()):
        table[row, start : start + length] = 1
    return table


def rest_clash(dtype=None):
    """hours of rest missing when shift i is followed by shift j on the next day"""
    n = len(SHIFTS)
    table = torch.zeros(n, n, dtype=dtype)
    for i, (s0, l0) in enumerate(SHIFTS.values()):
        for j, (s1, l1) in enumerate(SHIFTS.values()):
            if l0 and l1:
                table[i, j] = max(0, REST_HOURS - (24 + s1 - s0 - l0))
    return table


def _tomorrow(x, cyclic):
    if cyclic:
        return torch.roll(x, 1, 0)
    return torch.cat([torch.zeros_like(x[:1]), x[:-1]])


def _yesterday(x, cyclic):
    if cyclic:
        return torch.roll(x, -1, 0)
    return torch.cat([x[1:], torch.zeros_like(x[:1])])


class CoverCost(Function):
    @staticmethod
    def forward(x, skill, demand, pattern, short, over, cyclic):
        crew = torch.einsum("n,nds->ds", skill, x)
        cover = crew @ pattern[:, :24] + _tomorrow(crew @ pattern[:, 24:], cyclic)
        gap = demand - cover
        return torch.where(gap > 0, short * gap * gap, -over * gap), gap

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, skill, demand, pattern, short, over, cyclic = inputs
        _, gap = output
        ctx.mark_non_differentiable(gap)
        ctx.save_for_backward(x, skill, pattern, gap)
        ctx.knobs = short, over, cyclic

    @staticmethod
    @once_differentiable
    def backward(ctx, g, _):
        x, skill, pattern, gap = ctx.saved_tensors
        short, over, cyclic = ctx.knobs
        slope = g * torch.where(gap > 0, 2 * short * gap, torch.full_like(gap, -over))
        crew = slope @ pattern[:, :24].T + _yesterday(slope, cyclic) @ pattern[:, 24:].T
        g_x = -skill[:, None, None] * crew
        g_skill = -torch.einsum("nds,ds->n", x, crew)
        return g_x, g_skill, slope, None, None, None, None


class RestBreach(Function):
    @staticmethod
    def forward(x, clash, weight):
        hours = torch.einsum("nds,st,ndt->n", x[:, :-1], clash, x[:, 1:])
        return weight * hours

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, clash, weight = ctx.saved_tensors
        follow = x @ clash
        pull = (g * weight)[:, None, None]
        g_x = torch.zeros_like(x)
        g_x[:, 1:] += pull * follow[:, :-1]
        g_x[:, :-1] += pull * follow[:, 1:]
        g_weight = g * (x[:, 1:] * follow[:, :-1]).sum((1, 2))
        return g_x, None, g_weight


class RunLength(Function):
    # expected number of days worked in a row, carried over from the last roster
    @staticmethod
    def forward(ctx, p, carry):
        run, runs = carry, []
        for day in p.unbind(1):
            run = day * (run + 1)
            runs.append(run)
        runs = torch.stack(runs, 1)
        ctx.save_for_backward(p, carry, runs)
        return runs

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        p, carry, runs = ctx.saved_tensors
        before = torch.cat([carry[:, None], runs[:, :-1]], 1)
        acc = torch.zeros_like(carry)
        lam = torch.empty_like(p)
        for d in reversed(range(p.shape[1])):
            acc = acc + g[:, d]
            lam[:, d] = acc
            acc = acc * p[:, d]
        return lam * (before + 1), acc


def fit(n_staff=12, n_days=28, max_run=5.0, steps=300, seed=0):
    torch.manual_seed(seed)
    demand = torch.full((n_days, 24), 2.0)
    demand[:, 7:20] = 4.0
    skill = torch.ones(n_staff)
    strictness = torch.ones(n_staff)
    carry = torch.randint(0, 4, (n_staff,)).float()
    pattern, clash = hour_pattern(), rest_clash()
    logits = torch.zeros(n_staff, n_days, len(SHIFTS)).normal_(0, 0.1).requires_grad_()
    opt = torch.optim.Adam([logits], lr=0.05)
    for _ in range(steps):
        x = logits.softmax(-1)
        cost, _ = CoverCost.apply(x, skill, demand, pattern, 1.0, 0.2, True)
        rest = RestBreach.apply(x, clash, strictness)
        runs = RunLength.apply(1 - x[..., -1], carry)
        loss = cost.mean() + rest.mean() + 0.5 * (runs - max_run).relu().square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return logits.detach().argmax(-1)


def main():
    names = list(SHIFTS)
    for row in fit():
        print(" ".join(names[k][0] for k in row.tolist()))
