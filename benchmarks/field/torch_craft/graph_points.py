import torch
import torch.nn as nn
from torch.autograd import Function


def broadcast_index(index, like):
    return index.view(-1, *([1] * (like.dim() - 1))).expand_as(like)


def ball_query(xyz, centres, radius, k):
    d2 = torch.cdist(centres, xyz) ** 2
    inside = d2 <= radius ** 2
    rank = torch.where(inside, torch.arange(xyz.shape[1]).expand_as(d2), xyz.shape[1])
    idx = rank.sort(-1).values[..., :k]
    first = idx[..., :1].clamp(max=xyz.shape[1] - 1)
    return torch.where(idx == xyz.shape[1], first.expand_as(idx), idx)


def three_nn(unknown, known):
    d2, idx = (torch.cdist(unknown, known) ** 2).topk(3, dim=-1, largest=False)
    return d2, idx


class ScatterWeightedMean(Function):

    @staticmethod
    def forward(ctx, src, weight, index, size):
        total = weight.new_zeros(size).index_add_(0, index, weight)
        total = torch.where(total == 0, torch.ones_like(total), total)
        out = src.new_zeros(size, src.shape[1]).index_add_(0, index, src * weight[:, None])
        out = out / total[:, None]
        ctx.save_for_backward(src, weight, index, total, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        src, weight, index, total, out = ctx.saved_tensors
        g = (grad / total[:, None])[index]
        g_src = g * weight[:, None] if ctx.needs_input_grad[0] else None
        g_weight = (g * (src - out[index])).sum(1) if ctx.needs_input_grad[1] else None
        return g_src, g_weight, None, None


class EdgeSoftmax(Function):

    @staticmethod
    def forward(logits, dst, num_nodes):
        at = broadcast_index(dst, logits)
        top = logits.new_full((num_nodes,) + logits.shape[1:], float('-inf'))
        top = top.scatter_reduce(0, at, logits, 'amax')
        e = torch.exp(logits - top.gather(0, at))
        z = torch.zeros_like(top).scatter_add_(0, at, e)
        return e / z.gather(0, at)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, dst, num_nodes = inputs
        ctx.save_for_backward(dst, output)
        ctx.num_nodes = num_nodes

    @staticmethod
    def backward(ctx, grad):
        dst, alpha = ctx.saved_tensors
        ga = grad * alpha
        at = broadcast_index(dst, ga)
        pooled = ga.new_zeros((ctx.num_nodes,) + ga.shape[1:]).scatter_add_(0, at, ga)
        return ga - alpha * pooled.gather(0, at), None, None


class GroupPoints(Function):

    @staticmethod
    def forward(ctx, xyz, centres, feats, idx, radius):
        b, s, k = idx.shape
        flat = idx.reshape(b, 1, s * k)
        local = xyz.transpose(1, 2).gather(2, flat.expand(-1, 3, -1)).view(b, 3, s, k)
        local = (local - centres.transpose(1, 2).unsqueeze(-1)) / radius
        grouped = feats.gather(2, flat.expand(-1, feats.shape[1], -1)).view(b, -1, s, k)
        ctx.save_for_backward(flat)
        ctx.radius = radius
        ctx.shapes = xyz.shape, feats.shape
        return torch.cat([local, grouped], 1)

    @staticmethod
    def backward(ctx, grad):
        flat, = ctx.saved_tensors
        (b, n, _), fshape = ctx.shapes
        g_local = grad[:, :3] / ctx.radius
        g_xyz = grad.new_zeros(b, 3, n)
        g_xyz.scatter_add_(2, flat.expand(-1, 3, -1), g_local.flatten(2))
        g_centres = -g_local.sum(-1).transpose(1, 2)
        g_feats = grad.new_zeros(fshape)
        g_feats.scatter_(2, flat.expand(-1, fshape[1], -1), grad[:, 3:].flatten(2))
        return g_xyz.transpose(1, 2), g_centres, g_feats, None, None


class ThreeInterpolate(Function):

    @staticmethod
    def forward(ctx, feats, d2, idx, eps):
        inv = 1.0 / (d2 + eps)
        w = inv / inv.sum(-1, keepdim=True)
        b, n, k = idx.shape
        rows = idx.reshape(b, n * k, 1).expand(-1, -1, feats.shape[-1])
        near = feats.gather(1, rows).view(b, n, k, -1)
        out = (near * w.unsqueeze(-1)).sum(2)
        ctx.save_for_backward(rows, near, inv, w, out)
        ctx.m = feats.shape[1]
        return out

    @staticmethod
    def backward(ctx, grad):
        rows, near, inv, w, out = ctx.saved_tensors
        b, n, c = grad.shape
        g_feats = g_d2 = None
        if ctx.needs_input_grad[0]:
            g_feats = grad.new_zeros(b, ctx.m, c)
            g_feats.scatter_add_(1, rows, (grad.unsqueeze(2) * w.unsqueeze(-1)).reshape(b, -1, c))
        if ctx.needs_input_grad[1]:
            g_d2 = -w * inv * (grad.unsqueeze(2) * (near - out.unsqueeze(2))).sum(-1)
        return g_feats, g_d2, None, None


class MaxRelative(Function):
    # table is (N, K) padded with -1

    @staticmethod
    def forward(ctx, x, table, edge_weight=None):
        pad = table < 0
        rel = x[table.clamp(min=0)] - x.unsqueeze(1)
        msg = rel if edge_weight is None else rel * edge_weight.unsqueeze(-1)
        msg = msg.masked_fill(pad.unsqueeze(-1), float('-inf'))
        out, arg = msg.max(1)
        empty = pad.all(1, keepdim=True)
        out = out.masked_fill(empty, 0.0)
        ctx.save_for_backward(table, edge_weight, rel, arg, empty)
        ctx.mark_non_differentiable(arg)
        return out, arg

    @staticmethod
    def backward(ctx, grad, _):
        table, edge_weight, rel, arg, empty = ctx.saved_tensors
        grad = grad.masked_fill(empty, 0.0)
        winner = table.clamp(min=0).gather(1, arg)
        pulled, g_weight = grad, None
        if edge_weight is not None:
            pulled = grad * edge_weight.gather(1, arg)
            if ctx.needs_input_grad[2]:
                hit = grad * rel.gather(1, arg.unsqueeze(1)).squeeze(1)
                g_weight = torch.zeros_like(edge_weight).scatter_add_(1, arg, hit)
        g_x = torch.zeros_like(grad).scatter_add_(0, winner, pulled)
        return g_x - grad, None, g_weight


class GATLayer(nn.Module):

    def __init__(self, c_in, c_out, heads):
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(c_in, heads * c_out, bias=False)
        self.att = nn.Parameter(torch.randn(2, heads, c_out) * 0.1)

    def forward(self, x, edge_index):
        src, dst = edge_index
        h = self.lin(x).view(len(x), self.heads, -1)
        logit = (h[src] * self.att[0]).sum(-1) + (h[dst] * self.att[1]).sum(-1)
        a = EdgeSoftmax.apply(nn.functional.leaky_relu(logit, 0.2), dst, len(x))
        out = h.new_zeros(h.shape).index_add_(0, dst, h[src] * a.unsqueeze(-1))
        return out.flatten(1)


class ConfidencePool(nn.Module):

    def __init__(self, c):
        super().__init__()
        self.conf = nn.Linear(c, 1)

    def forward(self, x, batch, num_graphs):
        w = nn.functional.softplus(self.conf(x)).squeeze(-1)
        return ScatterWeightedMean.apply(x, w, batch, num_graphs)


class SetAbstraction(nn.Module):

    def __init__(self, c_in, c_out, radius=0.4, k=16):
        super().__init__()
        self.radius, self.k = radius, k
        self.mlp = nn.Sequential(nn.Conv2d(c_in + 3, c_out, 1), nn.ReLU(), nn.Conv2d(c_out, c_out, 1))

    def forward(self, xyz, feats, samples):
        centres = xyz.gather(1, samples.unsqueeze(-1).expand(-1, -1, 3))
        with torch.no_grad():
            idx = ball_query(xyz, centres, self.radius, self.k)
        g = GroupPoints.apply(xyz, centres, feats, idx, self.radius)
        return centres, self.mlp(g).amax(-1)


class FeaturePropagation(nn.Module):

    def __init__(self, c_in, c_out):
        super().__init__()
        self.lin = nn.Linear(c_in, c_out)

    def forward(self, dense_xyz, sparse_xyz, sparse_feats):
        d2, idx = three_nn(dense_xyz, sparse_xyz)
        return torch.relu(self.lin(ThreeInterpolate.apply(sparse_feats, d2, idx, 1e-8)))


class MRConv(nn.Module):

    def __init__(self, c_in, c_out):
        super().__init__()
        self.lin = nn.Linear(2 * c_in, c_out)

    def forward(self, x, table, edge_weight=None):
        agg, _ = MaxRelative.apply(x, table, edge_weight)
        return torch.relu(self.lin(torch.cat([x, agg], -1)))


if __name__ == '__main__':
    torch.manual_seed(0)
    xyz = torch.rand(2, 64, 3)
    feats = torch.randn(2, 8, 64)
    samples = torch.stack([torch.randperm(64)[:12] for _ in range(2)])
    centres, pooled = SetAbstraction(8, 32)(xyz, feats, samples)
    print('sa', centres.shape, pooled.shape)
    print('fp', FeaturePropagation(32, 16)(xyz, centres, pooled.transpose(1, 2)).shape)

    x = torch.randn(20, 8)
    edges = torch.randint(0, 20, (2, 60))
    print('gat', GATLayer(8, 4, 2)(x, edges).shape)
    print('pool', ConfidencePool(8)(x, torch.arange(20) // 7, 3).shape)

    table = torch.randint(0, 20, (20, 5))
    table[3, 2:] = -1
    table[11] = -1
    print('mr', MRConv(8, 16)(x, table, torch.rand(20, 5)).shape)
