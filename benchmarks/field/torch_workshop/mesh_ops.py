import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _rows(index, like):
    return index.view(-1, *[1] * (like.dim() - 1)).expand_as(like)


def segment_sum(values, index, n):
    return values.new_zeros(n, *values.shape[1:]).index_add_(0, index, values)


class SegmentSoftmax(Function):
    @staticmethod
    def forward(ctx, scores, index, n):
        top = scores.new_full((n, *scores.shape[1:]), float("-inf"))
        top = top.scatter_reduce(0, _rows(index, scores), scores, "amax")
        e = (scores - top[index]).exp()
        p = e / segment_sum(e, index, n)[index]
        ctx.save_for_backward(p, index)
        ctx.n = n
        return p

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        p, index = ctx.saved_tensors
        inner = segment_sum(p * g, index, ctx.n)
        return p * (g - inner[index]), None, None


class EdgeDelta(Function):
    # x[receiver] - x[sender], one row per edge
    @staticmethod
    def forward(ctx, x, senders, receivers):
        ctx.save_for_backward(senders, receivers)
        ctx.n = x.shape[0]
        return x[receivers] - x[senders]

    @staticmethod
    def backward(ctx, g):
        senders, receivers = ctx.saved_tensors
        gx = g.new_zeros(ctx.n, *g.shape[1:])
        gx[receivers] += g
        gx[senders] -= g
        return gx, None, None


class SegmentMean(Function):
    @staticmethod
    def forward(values, weight, index, n):
        w = torch.ones_like(values[:, 0]) if weight is None else weight
        total = segment_sum(w, index, n)
        safe = torch.where(total != 0, total, torch.ones_like(total))
        mean = segment_sum(values * w[:, None], index, n) / safe[:, None]
        return mean, safe

    @staticmethod
    def setup_context(ctx, inputs, output):
        values, weight, index, _ = inputs
        mean, safe = output
        ctx.mark_non_differentiable(safe)
        ctx.save_for_backward(values, weight, index, mean, safe)

    @staticmethod
    @once_differentiable
    def backward(ctx, g, _):
        values, weight, index, mean, safe = ctx.saved_tensors
        ge = (g / safe[:, None])[index]
        gv = gw = None
        if ctx.needs_input_grad[0]:
            gv = ge if weight is None else ge * weight[:, None]
        if ctx.needs_input_grad[1]:
            gw = (ge * (values - mean[index])).sum(1)
        return gv, gw, None, None


class Propagate(Function):
    # y[i] = sum over edges j -> i of coef[e] * x[j]
    @staticmethod
    def forward(ctx, x, coef, senders, receivers):
        ctx.save_for_backward(x, coef, senders, receivers)
        return segment_sum(coef[:, None] * x[senders], receivers, x.shape[0])

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, coef, senders, receivers = ctx.saved_tensors
        gx = gc = None
        if ctx.needs_input_grad[0]:
            gx = segment_sum(coef[:, None] * g[senders], receivers, x.shape[0])
        if ctx.needs_input_grad[1]:
            gc = (g[receivers] * x[senders]).sum(-1)
        return gx, gc, None, None


class SegmentMax(Function):
    # nodes without messages get `fill`
    @staticmethod
    def forward(ctx, values, index, n, fill=0.0):
        rows = _rows(index, values)
        top = values.new_full((n, values.shape[1]), float("-inf"))
        top = top.scatter_reduce(0, rows, values, "amax")
        e = values.shape[0]
        ids = torch.arange(e, device=values.device)[:, None].expand_as(values)
        ids = torch.where(values == top[index], ids, e)
        winner = torch.full_like(top, e, dtype=torch.long).scatter_reduce(0, rows, ids, "amin")
        ctx.save_for_backward(winner)
        ctx.edges = e
        ctx.mark_non_differentiable(winner)
        return top.masked_fill(winner == e, fill), winner

    @staticmethod
    def backward(ctx, g, _):
        (winner,) = ctx.saved_tensors
        gv = g.new_zeros(ctx.edges + 1, g.shape[1])
        gv.scatter_(0, winner, g)
        return gv[:-1], None, None, None


class GraphAttention(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.q = nn.Linear(width, heads)
        self.k = nn.Linear(width, heads)
        self.heads = heads

    def forward(self, x, edges):
        s, r = edges
        att = SegmentSoftmax.apply(self.q(x)[r] + self.k(x)[s], r, len(x))
        return Propagate.apply(x, att.mean(1), s, r)


class EdgeConv(nn.Module):
    def __init__(self, width, pool="max"):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))
        self.pool = pool

    def forward(self, x, edges, edge_weight=None):
        s, r = edges
        delta = EdgeDelta.apply(x, s, r)
        msg = self.mlp(torch.cat([x[r], delta], -1))
        if self.pool == "max":
            return SegmentMax.apply(msg, r, len(x))[0]
        return SegmentMean.apply(msg, edge_weight, r, len(x))[0]


class GCN(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    @staticmethod
    def normalise(edges, n):
        s, r = edges
        one = torch.ones(len(s), device=s.device)
        d_out = segment_sum(one, s, n).clamp(min=1)
        d_in = segment_sum(one, r, n).clamp(min=1)
        return (d_out[s] * d_in[r]).rsqrt()

    def forward(self, x, edges):
        coef = self.normalise(edges, len(x))
        for i, lin in enumerate(self.layers):
            x = Propagate.apply(lin(x), coef, *edges)
            if i + 1 < len(self.layers):
                x = x.relu()
        return x


if __name__ == "__main__":
    n, e = 50, 200
    # a directed citation-like graph: edges point from newer to older nodes
    a, b = torch.randint(1, n, (e,)), torch.randint(0, n, (e,))
    edges = torch.stack([a, b % a])
    x = torch.randn(n, 16)
    for net in (GraphAttention(16), EdgeConv(16), EdgeConv(16, "mean"), GCN([16, 32, 4])):
        y = net(x, edges)
        y.square().mean().backward()
        print(type(net).__name__, tuple(y.shape))
