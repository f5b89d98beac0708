import torch
from torch import nn
from torch.autograd import Function


class RevCoupling(Function):
    """
    Reversible residual pair with one-layer branches (keeps outputs only)

        y1 = x1 + tanh(x2 @ wf.T + bf)
        y2 = x2 + tanh(y1 @ wg.T + bg)
    """

    @staticmethod
    def forward(ctx, x1, x2, wf, bf, wg, bg):
        y1 = x1 + torch.tanh(x2 @ wf.t() + bf)
        y2 = x2 + torch.tanh(y1 @ wg.t() + bg)
        ctx.save_for_backward(y1, y2, wf, bf, wg, bg)
        return y1, y2

    @staticmethod
    def backward(ctx, dy1, dy2):
        y1, y2, wf, bf, wg, bg = ctx.saved_tensors

        tg = torch.tanh(y1 @ wg.t() + bg)
        x2 = y2 - tg
        dpre_g = dy2 * (1 - tg * tg)
        dy1 = dy1 + dpre_g @ wg

        tf = torch.tanh(x2 @ wf.t() + bf)
        dpre_f = dy1 * (1 - tf * tf)
        dx2 = dy2 + dpre_f @ wf

        def flat(t):
            return t.reshape(-1, t.shape[-1])

        dwg, dbg = flat(dpre_g).t() @ flat(y1), flat(dpre_g).sum(0)
        dwf, dbf = flat(dpre_f).t() @ flat(x2), flat(dpre_f).sum(0)
        return dy1, dx2, dwf, dbf, dwg, dbg


class RevStack(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.wf = nn.ParameterList([nn.Parameter(torch.randn(dim, dim) * 0.1) for _ in range(depth)])
        self.wg = nn.ParameterList([nn.Parameter(torch.randn(dim, dim) * 0.1) for _ in range(depth)])
        self.bf = nn.ParameterList([nn.Parameter(torch.zeros(dim)) for _ in range(depth)])
        self.bg = nn.ParameterList([nn.Parameter(torch.zeros(dim)) for _ in range(depth)])

    def forward(self, x):
        x1, x2 = x.chunk(2, dim=-1)
        for wf, bf, wg, bg in zip(self.wf, self.bf, self.wg, self.bg):
            x1, x2 = RevCoupling.apply(x1, x2, wf, bf, wg, bg)
        return torch.cat([x1, x2], dim=-1)


class MomentumSteps(Function):
    """n_steps of a weight-tied momentum residual net; nothing but the end state is kept.

        v <- gamma * v + (1 - gamma) * tanh(x @ w.T)
        x <- x + v

    x, v: (batch, dim), w: (dim, dim), 0 < gamma < 1
    """

    @staticmethod
    def forward(ctx, x, v, w, gamma=0.9, n_steps=1):
        for _ in range(n_steps):
            v = gamma * v + (1 - gamma) * torch.tanh(x @ w.t())
            x = x + v
        ctx.save_for_backward(x, v, w)
        ctx.gamma, ctx.n_steps = gamma, n_steps
        return x, v

    @staticmethod
    def backward(ctx, gx, gv):
        x, v, w = ctx.saved_tensors
        gamma = ctx.gamma
        for _ in range(ctx.n_steps):
            # undo the step
            x = x - v
            f = torch.tanh(x @ w.t())
            v = (v - (1 - gamma) * f) / gamma
            # adjoint of the step
            gv = gv + gx
            gpre = (1 - gamma) * gv * (1 - f * f)
            gw = gpre.t() @ x
            gx = gx + gpre @ w
            gv = gamma * gv
        return gx, gv, gw, None, None


class MomentumNet(nn.Module):
    def __init__(self, dim, n_steps, gamma=0.9):
        super().__init__()
        self.w = nn.Parameter(torch.randn(dim, dim) / dim ** 0.5)
        self.n_steps, self.gamma = n_steps, gamma

    def forward(self, x):
        x, _ = MomentumSteps.apply(x, torch.zeros_like(x), self.w, self.gamma, self.n_steps)
        return x


def _chunks(n, size):
    return [(i, min(i + size, n)) for i in range(0, n, size)]


class ChunkedBiasAttention(Function):
    """softmax(q k^T * scale + bias) v, one block of queries at a time; saves the log-sum-exp.

    q (B, T, D), k (B, S, D), v (B, S, E), bias (T, S) shared by the whole batch.
    """

    @staticmethod
    def forward(ctx, q, k, v, bias, scale, q_chunk=2):
        out, lse = [], []
        for a, b in _chunks(q.shape[1], q_chunk):
            s = torch.einsum("btd,bsd->bts", q[:, a:b], k) * scale + bias[a:b]
            l = torch.logsumexp(s, -1)
            out.append(torch.exp(s - l[..., None]) @ v)
            lse.append(l)
        out, lse = torch.cat(out, 1), torch.cat(lse, 1)
        ctx.save_for_backward(q, k, v, bias, out, lse)
        ctx.scale, ctx.q_chunk = scale, q_chunk
        return out

    @staticmethod
    def backward(ctx, do):
        q, k, v, bias, out, lse = ctx.saved_tensors
        dq, dk, dv, dbias = map(torch.zeros_like, (q, k, v, bias))
        delta = (do * out).sum(-1)
        for a, b in _chunks(q.shape[1], ctx.q_chunk):
            s = torch.einsum("btd,bsd->bts", q[:, a:b], k) * ctx.scale + bias[a:b]
            p = torch.exp(s - lse[:, a:b, None])
            dv += p.mT @ do[:, a:b]
            ds = p * (do[:, a:b] @ v.mT - delta[:, a:b, None])
            dbias[a:b] = ds.sum(0)
            dq[:, a:b] = ds @ k * ctx.scale
            dk += ds.mT @ q[:, a:b] * ctx.scale
        return dq, dk, dv, dbias, None, None


class InvConv1x1(Function):
    """Glow mixing: x (B, C, T), w (C, C) -> y (B, C, T), log|det| of the whole map of one sample ().

    x is not kept, it is recomputed from y."""

    @staticmethod
    def forward(ctx, x, w):
        y = torch.einsum("ij,bjt->bit", w, x)
        ctx.save_for_backward(y, w)
        return y, x.shape[-1] * torch.linalg.slogdet(w)[1]

    @staticmethod
    def backward(ctx, dy, dlogdet):
        y, w = ctx.saved_tensors
        w_inv = torch.linalg.inv(w)
        x = torch.einsum("ij,bjt->bit", w_inv, y)
        dx = torch.einsum("ij,bit->bjt", w, dy)
        dw = torch.einsum("bit,bjt->ij", dy, x) + dlogdet * w_inv.t()
        return dx, dw


class GlowMix(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.w = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0])

    def forward(self, x, logp):
        y, ld = InvConv1x1.apply(x, self.w)
        return y, logp + ld
