"""Structured losses for taggers and aligners."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

NEG = -1e9


class CRFLogPartition(Function):
    """log Z of a linear chain.

    emissions: [batch, time, tags]; transitions[i, j] scores tag i followed by tag j;
    start, end: [tags]; lengths: LongTensor [batch], each at least 1.
    """

    @staticmethod
    def forward(ctx, emissions, transitions, start, end, lengths):
        T = emissions.size(1)
        alpha = [start + emissions[:, 0]]
        for t in range(1, T):
            nxt = torch.logsumexp(alpha[-1].unsqueeze(2) + transitions, 1) + emissions[:, t]
            alpha.append(torch.where((t < lengths)[:, None], nxt, alpha[-1]))
        log_z = torch.logsumexp(alpha[-1] + end, 1)
        ctx.save_for_backward(emissions, transitions, end, lengths, torch.stack(alpha, 1), log_z)
        return log_z

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        emissions, transitions, end, lengths, alpha, log_z = ctx.saved_tensors
        T = emissions.size(1)
        d_em = torch.zeros_like(emissions)
        d_tr = torch.zeros_like(transitions)
        beta = end.expand(len(lengths), -1)
        last = torch.softmax(alpha[:, -1] + end, 1) * g[:, None]
        for t in range(T - 1, -1, -1):
            live = (t < lengths)[:, None]
            node = torch.exp(alpha[:, t] + beta - log_z[:, None]) * g[:, None]
            d_em[:, t] = torch.where(live, node, torch.zeros_like(node))
            if t == 0:
                break
            into = emissions[:, t] + beta
            pair = alpha[:, t - 1].unsqueeze(2) + transitions + into.unsqueeze(1)
            pair = torch.exp(pair - log_z[:, None, None]) * g[:, None, None]
            d_tr += (pair * live[:, :, None]).sum(0)
            beta = torch.where(live, torch.logsumexp(transitions + into.unsqueeze(1), 2), beta)
        return d_em, d_tr, d_em[:, 0].sum(0), last.sum(0), None


class CRFPathScore(Function):
    """Score of one tag path per sequence, same arguments as CRFLogPartition plus tags [batch, time].

    Positions at or past a sequence's length do not count.
    """

    @staticmethod
    def forward(ctx, emissions, transitions, start, end, tags, lengths):
        B, T, _ = emissions.shape
        mask = torch.arange(T, device=tags.device)[None] < lengths[:, None]
        em = emissions.gather(2, tags[..., None]).squeeze(2) * mask
        tr = transitions[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]
        final = tags.gather(1, lengths[:, None] - 1).squeeze(1)
        ctx.save_for_backward(tags, mask)
        ctx.shape = emissions.shape
        return start[tags[:, 0]] + em.sum(1) + tr.sum(1) + end[final]

    @staticmethod
    def backward(ctx, g):
        tags, mask = ctx.saved_tensors
        K = ctx.shape[2]
        gm = g[:, None] * mask
        d_em = torch.zeros(ctx.shape, dtype=g.dtype, device=g.device)
        d_em.scatter_(2, tags[..., None], gm[..., None])
        d_tr = torch.zeros(K * K, dtype=g.dtype, device=g.device)
        flat = tags[:, :-1] * K + tags[:, 1:]
        d_tr.index_add_(0, flat.reshape(-1), gm[:, 1:].reshape(-1))
        zeros = torch.zeros(K, dtype=g.dtype, device=g.device)
        d_start = zeros.index_add(0, tags[:, 0], g)
        d_end = zeros.index_add(0, tags[:, -1], g)
        return d_em, d_tr.view(K, K), d_start, d_end, None, None


class SmoothedTokenLoss(Function):
    """Label-smoothed token cross-entropy.

    logits [tokens, classes], labels [tokens]; tokens labelled ignore_index do not
    count. The target puts 1 - smoothing on the label and spreads smoothing evenly
    over all classes. reduction: 'mean' (over counted tokens), 'sum' or 'none'.
    """

    @staticmethod
    def forward(ctx, logits, labels, smoothing=0.0, ignore_index=-100, reduction="mean"):
        keep = labels != ignore_index
        safe = labels.masked_fill(~keep, 0)
        logp = F.log_softmax(logits, -1)
        nll = -logp.gather(1, safe[:, None]).squeeze(1)
        loss = ((1 - smoothing) * nll - smoothing * logp.mean(-1)) * keep
        ctx.save_for_backward(logp, safe, keep)
        ctx.reduction = reduction
        if reduction == "none":
            return loss
        return loss.sum() / keep.sum().clamp(min=1) if reduction == "mean" else loss.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        logp, safe, keep = ctx.saved_tensors
        if ctx.reduction == "mean":
            g = g / keep.sum().clamp(min=1)
        d = logp.exp()
        d.scatter_add_(1, safe[:, None], -torch.ones_like(d[:, :1]))
        return d * (g * keep)[:, None], None, None, None, None


class MonotonicForwardSum(Function):
    """Log-sum over monotonic alignments of frames to tokens.

    log_probs [batch, frames, tokens]. Every path starts at token 0 in frame 0, stays
    or advances by one token per frame, and ends on the last token in the last frame;
    text_len <= mel_len is assumed. Returns [batch] log likelihoods.
    """

    @staticmethod
    def forward(ctx, log_probs, text_len, mel_len):
        B, T, N = log_probs.shape
        alpha = log_probs.new_full((B, T, N), NEG)
        alpha[:, 0, 0] = log_probs[:, 0, 0]
        for t in range(1, T):
            stay = alpha[:, t - 1]
            step = F.pad(stay[:, :-1], (1, 0), value=NEG)
            alpha[:, t] = torch.logaddexp(stay, step) + log_probs[:, t]
        rows = torch.arange(B, device=log_probs.device)
        total = alpha[rows, mel_len - 1, text_len - 1]
        ctx.save_for_backward(log_probs, alpha, text_len, mel_len, total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        log_probs, alpha, text_len, mel_len, total = ctx.saved_tensors
        B, T, N = log_probs.shape
        goal = torch.arange(N, device=g.device)[None] == (text_len - 1)[:, None]
        terminal = torch.zeros_like(alpha[:, 0]).masked_fill(~goal, NEG)
        beta = torch.full_like(terminal, NEG)
        post = torch.zeros_like(log_probs)
        for t in range(T - 1, -1, -1):
            if t < T - 1:
                ahead = beta + log_probs[:, t + 1]
                beta = torch.logaddexp(ahead, F.pad(ahead[:, 1:], (0, 1), value=NEG))
            beta = torch.where((mel_len - 1 == t)[:, None], terminal, beta)
            live = (t < mel_len)[:, None]
            p = torch.exp((alpha[:, t] + beta - total[:, None]).clamp(max=0))
            post[:, t] = p * live * g[:, None]
        return post, None, None


class SoftDTW(Function):
    """Soft dynamic time warping (Cuturi & Blondel, 2017) of a cost tensor [batch, n, m]."""

    @staticmethod
    def forward(ctx, cost, gamma=1.0):
        B, n, m = cost.shape
        R = cost.new_full((B, n + 2, m + 2), float("inf"))
        R[:, 0, 0] = 0
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                prev = torch.stack([R[:, i - 1, j - 1], R[:, i - 1, j], R[:, i, j - 1]], -1)
                R[:, i, j] = cost[:, i - 1, j - 1] - gamma * torch.logsumexp(-prev / gamma, -1)
        ctx.save_for_backward(cost, R)
        ctx.gamma = gamma
        return R[:, n, m].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        cost, R = ctx.saved_tensors
        R = R.clone()
        B, n, m = cost.shape
        D = F.pad(cost, (1, 1, 1, 1))
        E = torch.zeros_like(R)
        R[:, n + 1, :] = R[:, :, m + 1] = float("-inf")
        R[:, n + 1, m + 1] = R[:, n, m]
        E[:, n + 1, m + 1] = 1
        for j in range(m, 0, -1):
            for i in range(n, 0, -1):
                acc = 0
                for di, dj in ((1, 0), (0, 1), (1, 1)):
                    w = torch.exp(R[:, i + di, j + dj] - R[:, i, j] - D[:, i + di, j + dj])
                    acc = acc + E[:, i + di, j + dj] * w
                E[:, i, j] = acc
        return E[:, 1:-1, 1:-1] * g[:, None, None], None


class CRF(nn.Module):
    def __init__(self, num_tags):
        super().__init__()
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags).uniform_(-0.1, 0.1))
        self.start = nn.Parameter(torch.zeros(num_tags))
        self.end = nn.Parameter(torch.zeros(num_tags))

    def forward(self, emissions, tags, lengths):
        """Negative log likelihood per sequence."""
        log_z = CRFLogPartition.apply(emissions, self.transitions, self.start, self.end, lengths)
        gold = CRFPathScore.apply(emissions, self.transitions, self.start, self.end, tags, lengths)
        return log_z - gold


class AlignmentLoss(nn.Module):
    def __init__(self, gamma=0.1):
        super().__init__()
        self.gamma = gamma

    def forward(self, text, mel, text_len, mel_len):
        dist = torch.cdist(mel, text).square()
        nll = -MonotonicForwardSum.apply((-dist).log_softmax(-1), text_len, mel_len)
        return (nll / mel_len).mean()

    def warp(self, a, b):
        return SoftDTW.apply(torch.cdist(a, b).square(), self.gamma)
