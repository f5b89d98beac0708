"""Sequence layers of the streaming recogniser and the neural vocoder.

Contents: CTC, SRU recurrence, RWKV style token shift, causal depthwise convolution, and the
companding front end.  Time-major or channel-major is noted per op, since the two code bases that
were merged here did not agree.
"""

import torch
import torch.nn.functional as F
from torch import nn

NEG_INF = float("-inf")


def _extend_with_blanks(targets, blank):
    """(N, S) labels -> (N, 2S + 1): blank, y1, blank, y2, ..., blank."""
    n, s = targets.shape
    ext = targets.new_full((n, 2 * s + 1), blank)
    ext[:, 1::2] = targets
    return ext


def _shift_right(a, k):
    return F.pad(a, (k, 0), value=NEG_INF)[:, : a.shape[1]]


def _shift_left(a, k):
    return F.pad(a, (0, k), value=NEG_INF)[:, k:]


class CTCFunction(torch.autograd.Function):
    """Connectionist temporal classification, forward-backward in log space.

    Every entry of ``log_probs`` is an independent variable for the gradient: it is minus the
    expected number of times the entry is used (so no softmax is folded in, unlike in
    ``torch.nn.functional.ctc_loss``).

    Args:
        log_probs (Tensor): ``(T, N, C)`` log probabilities.
        targets (LongTensor): ``(N, S)`` labels, padded with anything valid; never ``blank``.
        input_lengths (LongTensor): ``(N,)`` frames in use, ``<= T``.
        target_lengths (LongTensor): ``(N,)`` labels in use, ``>= 1``, and feasible for the
            number of frames.
        blank (int): id of the blank.
        reduction (str): ``"none"`` | ``"sum"`` | ``"mean"``; mean divides each loss by its
            target length, then averages over the batch.
    """

    @staticmethod
    def forward(ctx, log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean"):
        T, N, _ = log_probs.shape
        ext = _extend_with_blanks(targets, blank)
        L = ext.shape[1]
        emit = log_probs.gather(2, ext.unsqueeze(0).expand(T, N, L))
        differs = torch.zeros_like(ext, dtype=torch.bool)
        differs[:, 2:] = (ext[:, 2:] != ext[:, :-2]) & (ext[:, 2:] != blank)

        rows = torch.arange(N)
        last = 2 * target_lengths

        alpha = log_probs.new_full((T, N, L), NEG_INF)
        alpha[0, :, :2] = emit[0, :, :2]
        for t in range(1, T):
            prev = alpha[t - 1]
            skip = _shift_right(prev, 2).masked_fill(~differs, NEG_INF)
            paths = torch.stack([prev, _shift_right(prev, 1), skip])
            alpha[t] = torch.logsumexp(paths, dim=0) + emit[t]
        final = alpha[input_lengths - 1, rows]
        ll = torch.logaddexp(final[rows, last], final[rows, last - 1])

        beta = log_probs.new_full((T, N, L), NEG_INF)
        at_end = log_probs.new_full((N, L), NEG_INF)
        at_end[rows, last] = 0.0
        at_end[rows, last - 1] = 0.0
        can_skip = F.pad(differs, (0, 2), value=False)[:, 2:]
        for t in range(T - 1, -1, -1):
            ends_here = (input_lengths - 1 == t)[:, None]
            if t == T - 1:
                beta[t] = torch.where(ends_here, at_end, beta[t])
                continue
            nxt = beta[t + 1] + emit[t + 1]
            skip = _shift_left(nxt, 2).masked_fill(~can_skip, NEG_INF)
            paths = torch.stack([nxt, _shift_left(nxt, 1), skip])
            beta[t] = torch.where(ends_here, at_end, torch.logsumexp(paths, dim=0))

        occupancy = torch.exp(alpha + beta - ll[None, :, None])
        occupancy = torch.nan_to_num(occupancy, nan=0.0)
        ctx.save_for_backward(occupancy, ext, target_lengths)
        ctx.num_classes = log_probs.shape[2]
        ctx.reduction = reduction
        loss = -ll
        if reduction == "sum":
            return loss.sum()
        if reduction == "mean":
            return (loss / target_lengths).mean()
        return loss

    @staticmethod
    def backward(ctx, grad):
        occupancy, ext, target_lengths = ctx.saved_tensors
        T, N, L = occupancy.shape
        out = occupancy.new_zeros(T, N, ctx.num_classes)
        out.scatter_add_(2, ext.unsqueeze(0).expand(T, N, L), occupancy)
        if ctx.reduction == "mean":
            grad = grad / (N * target_lengths)
        elif ctx.reduction == "sum":
            grad = grad.expand(N)
        return -out * grad[None, :, None], None, None, None, None, None


class SRUCell(torch.autograd.Function):
    """Simple recurrent unit with peepholes (SRU, arXiv 1709.02755, eq. 3-7, linear output).

    Args:
        u (Tensor): ``(T, B, 3, D)`` projected inputs: candidate, forget and reset gate.
        x (Tensor): ``(T, B, D)`` highway input.
        v (Tensor): ``(2, D)`` peephole weights of the forget and reset gates.
        b (Tensor): ``(2, D)`` gate biases.
        c0 (Tensor): ``(B, D)`` initial cell.

    Returns:
        h ``(T, B, D)`` and the last cell ``(B, D)``.
    """

    @staticmethod
    def forward(ctx, u, x, v, b, c0):
        c, cells, gates, hs = c0, [c0], [], []
        for t in range(u.shape[0]):
            f = torch.sigmoid(u[t, :, 1] + v[0] * c + b[0])
            r = torch.sigmoid(u[t, :, 2] + v[1] * c + b[1])
            c = f * c + (1 - f) * u[t, :, 0]
            hs.append(r * c + (1 - r) * x[t])
            cells.append(c)
            gates.append(torch.stack([f, r]))
        ctx.save_for_backward(u, x, v, torch.stack(cells), torch.stack(gates))
        return torch.stack(hs), c.clone()

    @staticmethod
    def backward(ctx, dh, dc):
        u, x, v, cells, gates = ctx.saved_tensors
        du, dx = torch.empty_like(u), torch.empty_like(x)
        dv, db = torch.zeros_like(v), torch.zeros_like(v)
        for t in reversed(range(u.shape[0])):
            f, r = gates[t]
            c_prev, c_new = cells[t], cells[t + 1]
            dx[t] = dh[t] * (1 - r)
            dr = dh[t] * (c_new - x[t]) * r * (1 - r)
            dc = dc + dh[t] * r
            df = dc * (c_prev - u[t, :, 0]) * f * (1 - f)
            du[t, :, 0] = dc * (1 - f)
            du[t, :, 1] = df
            du[t, :, 2] = dr
            dv += torch.stack([(df * c_prev).sum(0), (dr * c_prev).sum(0)])
            db += torch.stack([df.sum(0), dr.sum(0)])
            dc = dc * f + df * v[0]
        return du, dx, dv, db, dc


class TokenShiftKVR(torch.autograd.Function):
    """RWKV token shift: three learned interpolations of each token with the one before it.

    ``xm = x * mix_m + prev * (1 - mix_m)`` for ``m`` in k, v, r.

    Args:
        x (Tensor): ``(B, T, D)``.
        state (Tensor): ``(B, D)``, the last token of the chunk before (zeros at the start).
        mix_k, mix_v, mix_r (Tensor): ``(D,)``.

    Returns:
        ``xk, xv, xr``, each ``(B, T, D)``.
    """

    @staticmethod
    def forward(ctx, x, state, mix_k, mix_v, mix_r):
        prev = torch.cat([state.unsqueeze(1), x[:, :-1]], dim=1)
        ctx.save_for_backward(x - prev, mix_k, mix_v, mix_r)
        return tuple(prev + (x - prev) * m for m in (mix_k, mix_v, mix_r))

    @staticmethod
    def backward(ctx, gk, gv, gr):
        delta, mix_k, mix_v, mix_r = ctx.saved_tensors
        to_x = gk * mix_k + gv * mix_v + gr * mix_r
        to_prev = gk + gv + gr - to_x
        dx = to_x.clone()
        dx[:, :-1] += to_prev[:, 1:]
        dk, dr, dv = ((g * delta).sum(dim=(0, 1)) for g in (gk, gv, gr))
        return dx, to_prev[:, 0], dk, dv, dr


class CausalDepthwiseConv(torch.autograd.Function):
    """Depthwise causal convolution, bias and activation fused.

    ``y[b, c, t] = act(bias[c] + sum_k weight[c, k] * x[b, c, t * stride - (K - 1 - k) * dilation])``
    with ``x = 0`` before the start.

    Args:
        x (Tensor): ``(B, C, T)``.
        weight (Tensor): ``(C, K)``; the last tap sees the present.
        bias (Tensor or None): ``(C,)``.
        dilation, stride (int).
        activation (str or None): None or ``"silu"``.
    """

    @staticmethod
    def _preact(x, weight, bias, dilation, stride):
        K = weight.shape[1]
        padded = F.pad(x, ((K - 1) * dilation, 0))
        T = x.shape[-1]
        y = sum(weight[:, k, None] * padded[..., k * dilation : k * dilation + T : stride] for k in range(K))
        return y if bias is None else y + bias[:, None]

    @staticmethod
    def forward(ctx, x, weight, bias=None, dilation=1, stride=1, activation=None):
        if activation not in (None, "silu"):
            raise NotImplementedError("activation must be None or silu")
        y = CausalDepthwiseConv._preact(x, weight, bias, dilation, stride)
        ctx.save_for_backward(x, weight, bias)
        ctx.dilation, ctx.stride, ctx.activation = dilation, stride, activation
        return F.silu(y) if activation == "silu" else y

    @staticmethod
    def backward(ctx, grad):
        x, weight, bias = ctx.saved_tensors
        d, s = ctx.dilation, ctx.stride
        if ctx.activation == "silu":
            y = CausalDepthwiseConv._preact(x, weight, bias, d, s)
            sig = torch.sigmoid(y)
            grad = grad * sig * (1 + y * (1 - sig))
        K, T = weight.shape[1], x.shape[-1]
        padded = F.pad(x, ((K - 1) * d, 0))
        dpadded = torch.zeros_like(padded)
        dweight = torch.zeros_like(weight)
        for k in range(K):
            window = slice(k * d, k * d + T, s)
            dpadded[..., window] += grad * weight[:, k, None]
            dweight[:, k] = (grad * padded[..., window]).sum(dim=(0, 2))
        dbias = grad.sum(dim=(0, 2)) if bias is not None else None
        return dpadded[..., (K - 1) * d :], dweight, dbias, None, None, None


class LearnedMuLaw(torch.autograd.Function):
    """Mu-law companding with one trainable ``mu`` per band.

    ``y = sign(x) * log(1 + mu * |x|) / log(1 + mu)``

    Args:
        x (Tensor): ``(B, C, T)`` in [-1, 1].
        mu (Tensor): ``(C,)``, positive, starts at 255.
    """

    @staticmethod
    def forward(ctx, x, mu):
        m = mu[:, None]
        ctx.save_for_backward(x, mu)
        return torch.sign(x) * torch.log1p(m * x.abs()) / torch.log1p(m)

    @staticmethod
    def backward(ctx, grad):
        x, mu = ctx.saved_tensors
        m = mu[:, None]
        inner = 1.0 / ((1.0 + m * x.abs()) * torch.log1p(m))
        dx = grad * m * inner
        dmu = (grad * x * inner).sum(dim=(0, 2))
        return dx, dmu


class SRULayer(nn.Module):
    """One SRU layer, time-major; ``x`` is (T, B, D)."""

    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(dim, 3 * dim, bias=False)
        self.v = nn.Parameter(torch.zeros(2, dim))
        self.b = nn.Parameter(torch.zeros(2, dim))

    def forward(self, x, c0=None):
        if c0 is None:
            c0 = x.new_zeros(x.shape[1:])
        u = self.proj(x).unflatten(-1, (3, -1))
        return SRUCell.apply(u, x, self.v, self.b, c0)


class ChannelMix(nn.Module):
    """RWKV channel mixing without the time-mixing part."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.mix = nn.ParameterDict({n: torch.rand(dim) for n in "kvr"})
        self.k = nn.Linear(dim, hidden, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.r = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(hidden, dim, bias=False)

    def forward(self, x, state):
        xk, xv, xr = TokenShiftKVR.apply(x, state, self.mix["k"], self.mix["v"], self.mix["r"])
        y = torch.sigmoid(self.r(xr)) * (self.o(torch.relu(self.k(xk)) ** 2) + self.v(xv))
        return y, x[:, -1]


class ConvFrontEnd(nn.Module):
    """Companding, then a stack of dilated causal convolutions; the last one halves the rate."""

    def __init__(self, bands, kernel=4, dilations=(1, 2, 4)):
        super().__init__()
        self.mu = nn.Parameter(torch.full((bands,), 255.0))
        self.weights = nn.ParameterList(torch.randn(bands, kernel) / kernel for _ in dilations)
        self.biases = nn.ParameterList(torch.zeros(bands) for _ in dilations)
        self.dilations = dilations

    def forward(self, wave):
        y = LearnedMuLaw.apply(wave, self.mu)
        for i, (w, b, d) in enumerate(zip(self.weights, self.biases, self.dilations)):
            stride = 2 if i == len(self.dilations) - 1 else 1
            y = CausalDepthwiseConv.apply(y, w, b, d, stride, "silu")
        return y


class CTCHead(nn.Module):
    """Linear + log-softmax + CTC for encoder output (T, N, D)."""

    def __init__(self, dim, vocab, blank=0, reduction="mean"):
        super().__init__()
        self.out = nn.Linear(dim, vocab)
        self.blank, self.reduction = blank, reduction

    def forward(self, enc, targets, enc_lens, target_lens):
        lp = self.out(enc).log_softmax(-1)
        return CTCFunction.apply(lp, targets, enc_lens, target_lens, self.blank, self.reduction)
