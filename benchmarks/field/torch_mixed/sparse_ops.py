# Sparse / ragged kernels shared by the ranking models and the GNN encoder.
import torch
import torch.nn as nn
from torch.autograd import Function


def scatter_sum(src, index, size):
    out = src.new_zeros((size,) + tuple(src.shape[1:]))
    return out.index_add_(0, index, src)


def bag_ids(offsets, n):
    """[0, 2, 2, 5], 7 -> [0 0 2 2 2 3 3]"""
    ends = torch.cat([offsets[1:], offsets.new_tensor([n])])
    return torch.repeat_interleave(torch.arange(offsets.numel(), device=offsets.device), ends - offsets)


class EmbeddingBagFn(Function):
    """weight (V, D), ids (n,), offsets (B,) nondecreasing from 0, psw (n,) -> (B, D). mode: sum | mean"""

    @staticmethod
    def forward(ctx, weight, ids, offsets, psw, mode="sum"):
        bag = bag_ids(offsets, ids.numel())
        out = scatter_sum(weight[ids] * psw[:, None], bag, offsets.numel())
        if mode == "mean":
            cnt = torch.bincount(bag, minlength=offsets.numel()).clamp(min=1)
            out = out / cnt[:, None]
        else:
            cnt = torch.ones_like(offsets)
        ctx.save_for_backward(weight, ids, bag, psw, cnt)
        return out

    @staticmethod
    def backward(ctx, g):
        weight, ids, bag, psw, cnt = ctx.saved_tensors
        ge = (g / cnt[:, None])[bag]
        gw = torch.zeros_like(weight).index_add_(0, ids, ge * psw[:, None])
        gp = (ge * weight[ids]).sum(1)
        return gw, None, None, gp, None


class WeightedBag(nn.Module):
    def __init__(self, num, dim, mode="mean"):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num, dim) * 0.05)
        self.mode = mode

    def forward(self, ids, offsets, psw=None):
        if psw is None:
            psw = self.weight.new_ones(ids.shape)
        return EmbeddingBagFn.apply(self.weight, ids, offsets, psw, self.mode)


class SampledSoftmaxLoss(Function):
    """
    In:  user (B, D), table (V, D), pos (B,) item ids, neg (K,) shared sampled ids,
         counts (V,) integer popularity of the items (for the logQ correction).
    Out: mean NLL of the positive among {pos} + neg. Sampled ids that equal the
         row's positive (accidental hits) take no part.
    """

    @staticmethod
    def forward(ctx, user, table, pos, neg, counts):
        log_q = torch.log((counts + 1).to(user.dtype) / (counts + 1).sum())
        e_pos, e_neg = table[pos], table[neg]
        l_pos = (user * e_pos).sum(1) - log_q[pos]
        l_neg = user @ e_neg.t() - log_q[neg]
        hit = neg[None, :] == pos[:, None]
        lse = torch.logsumexp(torch.cat([l_pos[:, None], l_neg.masked_fill(hit, float("-inf"))], 1), 1)
        ctx.save_for_backward(user, table, pos, neg, log_q, lse)
        return (lse - l_pos).mean()

    @staticmethod
    def backward(ctx, g):
        user, table, pos, neg, log_q, lse = ctx.saved_tensors
        e_pos, e_neg = table[pos], table[neg]
        g = g / user.shape[0]
        p_pos = torch.exp((user * e_pos).sum(1) - log_q[pos] - lse)
        p_neg = torch.exp(user @ e_neg.t() - log_q[neg] - lse[:, None])
        d_pos = g * (p_pos - 1)
        d_neg = g * p_neg
        g_user = d_pos[:, None] * e_pos + d_neg @ e_neg
        g_table = torch.zeros_like(table)
        g_table.index_add_(0, pos, d_pos[:, None] * user)
        g_table.index_add_(0, neg, d_neg.t() @ user)
        return g_user, g_table, None, None, None


class TwoTower(nn.Module):
    def __init__(self, n_users, n_items, dim, counts):
        super().__init__()
        self.users = nn.Embedding(n_users, dim)
        self.items = nn.Parameter(torch.randn(n_items, dim) * 0.1)
        self.register_buffer("counts", counts)

    def loss(self, user_ids, pos, neg):
        return SampledSoftmaxLoss.apply(self.users(user_ids), self.items, pos, neg, self.counts)


class HistoryAttentionPool(Function):
    """Target attention: query (B, D), hist (B, T, D), mask (B, T) bool, True = real item -> (B, D).

    Users without history get zeros."""

    @staticmethod
    def forward(ctx, query, hist, mask):
        scale = query.shape[-1] ** -0.5
        score = torch.einsum("bd,btd->bt", query, hist) * scale
        score = score.masked_fill(~mask, torch.finfo(score.dtype).min)
        attn = torch.softmax(score, 1) * mask
        ctx.save_for_backward(query, hist, attn)
        ctx.scale = scale
        return torch.einsum("bt,btd->bd", attn, hist)

    @staticmethod
    def backward(ctx, g):
        query, hist, attn = ctx.saved_tensors
        d_attn = torch.einsum("bd,btd->bt", g, hist)
        d_score = attn * (d_attn - (attn * d_attn).sum(1, keepdim=True)) * ctx.scale
        g_query = torch.einsum("bt,btd->bd", d_score, hist)
        g_hist = d_score[..., None] * query[:, None] + attn[..., None] * g[:, None]
        return g_query, g_hist, None


def din_pool(query, hist_ids, table, pad_id=0):
    return HistoryAttentionPool.apply(query, table[hist_ids], hist_ids != pad_id)


class MaxNormEmbedding(Function):
    """Look-up with rows longer than max_norm scaled back onto the sphere (table itself untouched)."""

    @staticmethod
    def forward(ctx, table, ids, max_norm=1.0):
        rows = table[ids]
        norm = rows.norm(dim=-1, keepdim=True)
        long = norm > max_norm
        ctx.save_for_backward(ids, rows, norm, long)
        ctx.max_norm, ctx.shape = max_norm, table.shape
        return torch.where(long, rows * (max_norm / norm), rows)

    @staticmethod
    def backward(ctx, g):
        ids, rows, norm, long = ctx.saved_tensors
        unit = rows / norm
        shrunk = (g - unit * (unit * g).sum(-1, keepdim=True)) * (ctx.max_norm / norm)
        g_rows = torch.where(long, shrunk, g)
        out = g.new_zeros(ctx.shape)
        out.index_add_(0, ids.reshape(-1), g_rows.reshape(-1, g.shape[-1]))
        return out, None, None


# ----------------------------------------------------------------- graphs

class SegmentSoftmax(Function):
    """score (E, H), index (E,) destination node of the edge, num_nodes -> (E, H)"""

    @staticmethod
    def forward(ctx, score, index, num_nodes):
        idx = index[:, None].expand_as(score)
        peak = score.new_full((num_nodes, score.shape[1]), float("-inf"))
        peak = peak.scatter_reduce(0, idx, score, "amax")
        ex = torch.exp(score - peak[index])
        alpha = ex / scatter_sum(ex, index, num_nodes)[index]
        ctx.save_for_backward(alpha, index)
        ctx.num_nodes = num_nodes
        return alpha

    @staticmethod
    def backward(ctx, g):
        alpha, index = ctx.saved_tensors
        ag = alpha * g
        return ag - alpha * scatter_sum(ag, index, ctx.num_nodes)[index], None, None


class GCNPropagate(Function):
    """D^-1/2 (A + I) D^-1/2 X for a weighted graph.

    x (N, F); edge_index (2, E) rows src, dst; edge_weight (E,) non-negative.
    Degrees are the weighted in-degrees plus one for the self loop.
    """

    @staticmethod
    def _norm(edge_index, w, n):
        deg = 1.0 + scatter_sum(w, edge_index[1], n)
        return torch.where(deg > 0, deg.abs().rsqrt(), torch.zeros_like(deg))

    @staticmethod
    def forward(ctx, x, edge_index, edge_weight):
        src, dst = edge_index
        dis = GCNPropagate._norm(edge_index, edge_weight, x.shape[0])
        coef = dis[src] * edge_weight * dis[dst]
        ctx.save_for_backward(x, edge_index, edge_weight, dis)
        return scatter_sum(coef[:, None] * x[src], dst, x.shape[0]) + (dis ** 2)[:, None] * x

    @staticmethod
    def backward(ctx, g):
        x, edge_index, w, dis = ctx.saved_tensors
        src, dst = edge_index
        n = x.shape[0]
        coef = dis[src] * w * dis[dst]
        gx = scatter_sum(coef[:, None] * g[dst], src, n) + (dis ** 2)[:, None] * g
        e = (g[dst] * x[src]).sum(1)
        g_dis = (scatter_sum(e * w * dis[dst], src, n)
                 + scatter_sum(e * w * dis[src], dst, n)
                 + 2 * dis * (g * x).sum(1))
        g_deg = -0.5 * dis ** 3 * g_dis
        return gx, None, e * dis[src] * dis[dst] + g_deg[dst]


class GCNLayer(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out)

    def forward(self, x, edge_index, edge_weight):
        return GCNPropagate.apply(self.lin(x), edge_index, edge_weight)


class SegmentStd(Function):
    """Per-graph standard deviation readout (PNA).

    x (N, F), batch (N,) graph id of every node in any order, num_graphs -> (G, F)
    """

    @staticmethod
    def forward(ctx, x, batch, num_graphs, eps=1e-5):
        cnt = torch.bincount(batch, minlength=num_graphs)
        den = cnt.clamp(min=1)[:, None]
        mean = scatter_sum(x, batch, num_graphs) / den
        xc = x - mean[batch]
        std = torch.sqrt(scatter_sum(xc ** 2, batch, num_graphs) / den + eps)
        ctx.save_for_backward(xc, std, cnt)
        return std

    @staticmethod
    def backward(ctx, g):
        xc, std, cnt = ctx.saved_tensors
        scale = g / (std * cnt.clamp(min=1)[:, None])
        return xc * torch.repeat_interleave(scale, cnt, dim=0), None, None, None


def pna_readout(x, batch, num_graphs):
    cnt = torch.bincount(batch, minlength=num_graphs).clamp(min=1)[:, None]
    mean = scatter_sum(x, batch, num_graphs) / cnt
    return torch.cat([mean, SegmentStd.apply(x, batch, num_graphs)], 1)
