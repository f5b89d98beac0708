import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

NEG = -1e4


# ---- sparse features ----------------------------------------------------

def _segments(offsets, total):
    # bag number of every id
    marks = torch.zeros(total + 1, dtype=torch.long, device=offsets.device)
    marks.scatter_add_(0, offsets, torch.ones_like(offsets))
    return marks[:total].cumsum(0) - 1


class BagLookup(Function):
    # table (V, D), ids (L,), offsets (bags,) -> (bags, D)
    # padding_idx rows contribute nothing and are not counted in the mean

    @staticmethod
    def forward(ctx, table, ids, offsets, mode="sum", padding_idx=None, per_sample_weights=None):
        bag = _segments(offsets, len(ids))
        w = per_sample_weights
        scale = torch.ones(len(ids), dtype=table.dtype) if w is None else w
        live = torch.ones(len(ids), dtype=table.dtype)
        if padding_idx is not None:
            live = (ids != padding_idx).to(table.dtype)
        rows = table[ids] * (scale * live)[:, None]
        out = table.new_zeros(len(offsets), table.shape[1]).index_add_(0, bag, rows)
        if mode == "mean":
            n = table.new_zeros(len(offsets)).index_add_(0, bag, live)
            out = out / n.clamp(min=1)[:, None]
        elif mode != "sum":
            raise ValueError(mode)
        ctx.save_for_backward(table, ids, bag, scale, live)
        ctx.mode, ctx.bags, ctx.weighted = mode, len(offsets), w is not None
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        table, ids, bag, scale, live = ctx.saved_tensors
        if ctx.mode == "mean":
            n = torch.bincount(bag, minlength=ctx.bags).clamp(min=1)
            grad = grad / n[:, None].to(grad.dtype)
        per_id = grad[bag] * live[:, None]
        d_table = d_scale = None
        if ctx.needs_input_grad[0]:
            d_table = torch.zeros_like(table).index_add_(0, ids, per_id * scale[:, None])
        if ctx.weighted and ctx.needs_input_grad[5]:
            d_scale = (per_id * table[ids]).sum(1)
        return d_table, None, None, None, None, d_scale


class HistoryEncoder(nn.Module):
    def __init__(self, n_items, dim, mode="mean", padding_idx=None):
        super().__init__()
        self.table = nn.Parameter(torch.randn(n_items, dim) * 0.1)
        self.decay = nn.Parameter(torch.zeros(()))
        self.mode, self.padding_idx = mode, padding_idx

    def forward(self, ids, offsets, age=None):
        w = None if age is None else torch.exp(-F.softplus(self.decay) * age)
        return BagLookup.apply(self.table, ids, offsets, self.mode, self.padding_idx, w)


# ---- retrieval ----------------------------------------------------------

def make_inbatch_softmax(normalize=True):

    class InBatchSoftmax(Function):

        @staticmethod
        def forward(ctx, user, item, item_ids, log_temp, log_q=None):
            un = vn = None
            u, v = user, item
            if normalize:
                un = user.norm(dim=1, keepdim=True)
                vn = item.norm(dim=1, keepdim=True)
                u, v = user / un, item / vn
            s = u @ v.t() * torch.exp(-log_temp)
            if log_q is not None:
                s = s - log_q  # popular items are drawn more often
            # the same item elsewhere in the batch is no negative
            eye = torch.eye(len(s), dtype=torch.bool, device=s.device)
            hit = (item_ids[:, None] == item_ids[None, :]) & ~eye
            s = s.masked_fill(hit, NEG)
            lse = torch.logsumexp(s, 1)
            ctx.save_for_backward(u, v, un, vn, s, lse, log_temp)
            ctx.corrected = log_q is not None
            return (lse - s.diagonal()).mean()

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            u, v, un, vn, s, lse, log_temp = ctx.saved_tensors
            n = len(s)
            ds = torch.exp(s - lse[:, None])
            ds = (ds - torch.eye(n, dtype=s.dtype, device=s.device)) * (grad / n)
            inv_t = torch.exp(-log_temp)
            du = ds @ v * inv_t
            dv = ds.t() @ u * inv_t
            if normalize:
                du = (du - u * (du * u).sum(1, keepdim=True)) / un
                dv = (dv - v * (dv * v).sum(1, keepdim=True)) / vn
            d_temp = -(ds * s).sum() if ctx.needs_input_grad[3] else None
            d_q = -ds.sum(0) if ctx.corrected else None
            return du, dv, None, d_temp, d_q

    return InBatchSoftmax


InBatchSoftmax = make_inbatch_softmax(normalize=True)


class TwoTower(nn.Module):
    def __init__(self, n_users, n_items, dim=16, counts=None):
        super().__init__()
        self.users = nn.Embedding(n_users, dim)
        self.items = nn.Embedding(n_items, dim)
        self.log_temp = nn.Parameter(torch.tensor(-1.0))
        q = None if counts is None else torch.log(counts / counts.sum())
        self.register_buffer("log_q", q)

    def forward(self, user_ids, item_ids):
        lq = None if self.log_q is None else self.log_q[item_ids]
        return InBatchSoftmax.apply(
            self.users(user_ids), self.items(item_ids), item_ids, self.log_temp, lq)


# ---- speech front end ---------------------------------------------------

class EMASmoother(Function):
    # m[t] = m[t-1] + s * (x[t] - m[t-1]); frames outside the mask carry m along.
    # without m0 the first frame starts the state

    @staticmethod
    def forward(ctx, x, s, m0=None, mask=None):
        b, t, f = x.shape
        keep = x.new_ones(b, t) if mask is None else mask.to(x.dtype)
        m = x[:, 0] if m0 is None else m0
        prev, out = [], []
        for i in range(t):
            prev.append(m)
            m = m + keep[:, i, None] * s * (x[:, i] - m)
            out.append(m)
        ctx.save_for_backward(x, s, keep, torch.stack(prev, 1))
        ctx.from_first = m0 is None
        return torch.stack(out, 1), m.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, g_all, g_last):
        x, s, keep, prev = ctx.saved_tensors
        dx = torch.empty_like(x)
        ds = torch.zeros_like(s)
        g = g_last
        for i in range(x.shape[1] - 1, -1, -1):
            g = g + g_all[:, i]
            gk = g * keep[:, i, None]
            ds = ds + (gk * (x[:, i] - prev[:, i])).sum(0)
            dx[:, i] = gk * s
            g = g - gk * s
        if ctx.from_first:
            dx[:, 0] += g
            g = None
        return dx, ds, g, None


class PCEN(nn.Module):
    def __init__(self, bands, eps=1e-6):
        super().__init__()
        self.raw_s = nn.Parameter(torch.full((bands,), -3.0))
        self.alpha = nn.Parameter(torch.full((bands,), 0.98))
        self.delta, self.root, self.eps = 2.0, 0.5, eps

    def forward(self, mel, lengths, state=None):
        mask = torch.arange(mel.shape[1])[None, :] < lengths[:, None]
        m, state = EMASmoother.apply(mel, torch.sigmoid(self.raw_s), state, mask)
        y = (mel / (self.eps + m) ** self.alpha + self.delta) ** self.root
        return (y - self.delta**self.root) * mask[..., None], state


def _shift(x, n):
    # delay by n frames (advance for n < 0), zeros come in
    t = x.shape[1]
    if n == 0:
        return x
    if n > 0:
        return F.pad(x, (0, 0, n, 0))[:, :t]
    return F.pad(x, (0, 0, 0, -n))[:, -n:]


class MemoryBlock(Function):

    @staticmethod
    def forward(ctx, x, back, ahead, lengths, dilation=1):
        mask = (torch.arange(x.shape[1])[None, :] < lengths[:, None]).to(x.dtype)[..., None]
        xm = x * mask
        y = xm
        for k in range(back.shape[0]):
            y = y + back[k] * _shift(xm, k * dilation)
        if ahead is not None:
            for k in range(ahead.shape[0]):
                y = y + ahead[k] * _shift(xm, -(k + 1) * dilation)
        ctx.save_for_backward(xm, back, ahead, mask)
        ctx.dilation = dilation
        return y * mask

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        xm, back, ahead, mask = ctx.saved_tensors
        d = ctx.dilation
        grad = grad * mask
        dx = grad
        d_back = torch.zeros_like(back)
        for k in range(back.shape[0]):
            dx = dx + back[k] * _shift(grad, -k * d)
            d_back[k] = (grad * _shift(xm, k)).sum((0, 1))
        d_ahead = None
        if ahead is not None:
            d_ahead = torch.zeros_like(ahead)
            for k in range(ahead.shape[0]):
                dx = dx + ahead[k] * _shift(grad, (k + 1) * d)
                d_ahead[k] = (grad * _shift(xm, -(k + 1) * d)).sum((0, 1))
        return dx * mask, d_back, d_ahead, None, None


class FSMNLayer(nn.Module):
    def __init__(self, dim, hidden, order=5, lookahead=2, dilation=1):
        super().__init__()
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim, bias=False)
        self.back = nn.Parameter(torch.randn(order, dim) * 0.1)
        self.ahead = nn.Parameter(torch.randn(lookahead, dim) * 0.1) if lookahead else None
        self.dilation = dilation

    def forward(self, x, lengths):
        p = self.down(F.relu(self.up(x)))
        return x + MemoryBlock.apply(p, self.back, self.ahead, lengths, self.dilation)


# ---- tagging ------------------------------------------------------------

class CRFLoss(Function):
    # emit (B, T, K), tags (B, T), lengths (B,) >= 1, trans[i, j]: i -> j

    @staticmethod
    def forward(ctx, emit, tags, lengths, trans, start, end, reduction="mean"):
        b, t, k = emit.shape
        alpha = [start + emit[:, 0]]
        for i in range(1, t):
            nxt = torch.logsumexp(alpha[-1][:, :, None] + trans, 1) + emit[:, i]
            alpha.append(torch.where((i < lengths)[:, None], nxt, alpha[-1]))
        log_z = torch.logsumexp(alpha[-1] + end, 1)

        rows = torch.arange(b)
        inside = torch.arange(t)[None, :] < lengths[:, None]
        gold = (emit.gather(2, tags[..., None]).squeeze(2) * inside).sum(1)
        gold = gold + (trans[tags[:, :-1], tags[:, 1:]] * inside[:, 1:]).sum(1)
        gold = gold + start[tags[:, 0]] + end[tags[rows, lengths - 1]]

        ctx.save_for_backward(emit, tags, lengths, trans, end, torch.stack(alpha, 1), log_z)
        ctx.reduction = reduction
        nll = log_z - gold
        if reduction == "none":
            return nll
        return nll.sum() if reduction == "sum" else nll.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        emit, tags, lengths, trans, end, alpha, log_z = ctx.saved_tensors
        b, t, k = emit.shape
        if ctx.reduction == "mean":
            grad = grad / b
        g = grad.expand(b)

        d_emit = torch.zeros_like(emit)
        d_trans, d_end = torch.zeros_like(trans), torch.zeros_like(end)
        beta = end.expand(b, k)
        for i in range(t - 1, -1, -1):
            live = (i < lengths).to(emit.dtype) * g
            marg = torch.exp(alpha[:, i] + beta - log_z[:, None])
            hot = F.one_hot(tags[:, i], k)
            d_emit[:, i] = (marg - hot) * live[:, None]
            last = (i == lengths - 1).to(emit.dtype) * g
            d_end = d_end + last @ (marg - hot)
            if i > 0:
                msg = emit[:, i] + beta
                pair = alpha[:, i - 1, :, None] + trans + msg[:, None, :] - log_z[:, None, None]
                seen = hot[:, None, :] * F.one_hot(tags[:, i - 1], k)[:, :, None]
                d_trans += ((torch.exp(pair) - seen) * live[:, None, None]).sum(0)
                prev = torch.logsumexp(trans + msg[:, None, :], 2)
                beta = torch.where((i < lengths)[:, None], prev, beta)
        d_start = d_emit[:, 0].sum(0)
        return d_emit, None, None, d_trans, d_start, d_end, None


class CRFTagger(nn.Module):
    def __init__(self, n_tags, reduction="mean"):
        super().__init__()
        self.trans = nn.Parameter(torch.randn(n_tags, n_tags) * 0.1)
        self.start = nn.Parameter(torch.zeros(n_tags))
        self.end = nn.Parameter(torch.zeros(n_tags))
        self.reduction = reduction

    def forward(self, emit, tags, lengths):
        return CRFLoss.apply(emit, tags, lengths, self.trans, self.start, self.end, self.reduction)


def demo():
    torch.manual_seed(0)
    ids = torch.tensor([3, 0, 7, 7, 2, 0, 0, 5])
    enc = HistoryEncoder(10, 4, "mean", padding_idx=0)
    enc(ids, torch.tensor([0, 3, 5]), torch.rand(8)).sum().backward()

    tower = TwoTower(20, 10, counts=torch.randint(1, 50, (10,)).float())
    tower(torch.arange(6), torch.tensor([1, 4, 4, 9, 0, 2])).backward()

    lengths = torch.tensor([12, 9, 5])
    feats, _ = PCEN(8)(torch.rand(3, 12, 8), lengths)
    feats = FSMNLayer(8, 16, dilation=2)(feats, lengths)
    loss = CRFTagger(8)(feats, torch.randint(0, 8, (3, 12)), lengths)
    loss.backward()
    return loss.item()


if __name__ == "__main__":
    print(demo())
