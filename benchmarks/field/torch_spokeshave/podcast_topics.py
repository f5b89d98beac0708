"""Chapters and topics of podcasts from sentence embeddings.

Pipeline: remove what only tells the speakers apart, keep a running description of the current chapter,
predict chapter breaks, and choose one of K topics for each chapter.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def frame_mask(lengths, frames):
    """(B,) -> (B, frames), true where the episode still runs."""
    return torch.arange(frames, device=lengths.device)[None, :] < lengths[:, None]


class SpeakerSubspaceRemoval(torch.autograd.Function):
    """Project embeddings onto the complement of the speakers' directions.

    Parameters
    ----------
    x : (..., D) embeddings
    directions : (S, D) with S < D, linearly independent, of any length and at any angle
    """

    @staticmethod
    def forward(x, directions):
        dual = torch.linalg.solve(directions @ directions.mT, directions)     # (S, D)
        return x - (x @ directions.mT) @ dual

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, directions = inputs
        ctx.save_for_backward(x, directions)

    @staticmethod
    def backward(ctx, grad):
        x, directions = ctx.saved_tensors
        dual = torch.linalg.solve(directions @ directions.mT, directions)

        def rest(v):
            return v - (v @ directions.mT) @ dual

        flat_x = x.reshape(-1, x.shape[-1])
        flat_g = grad.reshape(-1, x.shape[-1])
        cross = (flat_x @ dual.mT).mT @ rest(flat_g) + (flat_g @ dual.mT).mT @ rest(flat_x)
        return rest(grad), -cross


class ChapterRunningMean(torch.autograd.Function):
    r"""Mean embedding since the last chapter break, with soft breaks.

    .. math::
        m_t = (1 - b_t) m_{t-1} + x_t, \quad n_t = (1 - b_t) n_{t-1} + 1, \quad h_t = m_t / n_t

    started from ``m_{-1} = prior_count * prior`` and ``n_{-1} = prior_count``: the show's usual opening counts
    like ``prior_count`` sentences, unless the first sentence is a break itself.

    x: (B, T, D); breaks: (B, T) in [0, 1]; prior: (D,).  Returns h of x's shape.
    """

    @staticmethod
    def forward(ctx, x, breaks, prior, prior_count=1.0):
        batch, frames, width = x.shape
        m = (prior_count * prior).expand(batch, width)
        n = x.new_full((batch,), prior_count)
        ms, ns = [m], [n]
        for t in range(frames):
            keep = 1 - breaks[:, t]
            m = keep[:, None] * m + x[:, t]
            n = keep * n + 1
            ms.append(m)
            ns.append(n)
        ms, ns = torch.stack(ms, 1), torch.stack(ns, 1)
        h = ms[:, 1:] / ns[:, 1:, None]
        ctx.save_for_backward(breaks, ms, ns)
        ctx.prior_count = prior_count
        return h

    @staticmethod
    def backward(ctx, grad):
        breaks, ms, ns = ctx.saved_tensors
        later_m = torch.zeros_like(ms[:, 0])
        later_n = torch.zeros_like(ns[:, 0])
        g_x = torch.empty_like(grad)
        g_b = torch.empty_like(breaks)
        for t in reversed(range(breaks.shape[1])):
            g_m = grad[:, t] / ns[:, t + 1, None] + later_m
            g_n = -(grad[:, t] * ms[:, t + 1]).sum(-1) / ns[:, t + 1] ** 2 + later_n
            g_x[:, t] = g_m
            g_b[:, t] = -((g_m * ms[:, t]).sum(-1) + g_n * ns[:, t])
            keep = 1 - breaks[:, t]
            later_m = keep[:, None] * g_m
            later_n = keep * g_n
        return g_x, g_b, ctx.prior_count * g_m.sum(0), None


class BalancedBreakLoss(torch.autograd.Function):
    """Logistic loss of chapter breaks.

    Breaks are rare, so (with balance=True) those of an episode weigh as much together as its other sentences.
    Mean over the sentences of an episode, then over the episodes; an episode of length 0 (a failed
    transcript) does not count.

    logits, targets: (B, T); lengths: (B,) integers.
    """

    @staticmethod
    def forward(ctx, logits, targets, lengths, balance=True):
        mask = frame_mask(lengths, logits.shape[1]).to(logits.dtype)
        positive = (targets * mask).sum(1)
        negative = ((1 - targets) * mask).sum(1)
        ratio = negative / positive.clamp(min=1) if balance else torch.ones_like(positive)
        weight = mask * torch.where(targets > 0.5, ratio[:, None], torch.ones_like(logits))
        nll = F.softplus(logits) - targets * logits
        per_episode = (weight * nll).sum(1) / lengths.clamp(min=1)
        heard = (lengths > 0).sum().clamp(min=1)
        ctx.save_for_backward(logits, targets, lengths, weight)
        return per_episode.sum() / heard

    @staticmethod
    def backward(ctx, grad):
        logits, targets, lengths, weight = ctx.saved_tensors
        per_sentence = weight * (torch.sigmoid(logits) - targets)
        per_sentence = per_sentence / lengths.clamp(min=1)[:, None]
        return grad * per_sentence / logits.shape[0], None, None, None


class HardTopicChoice(torch.autograd.Function):
    """One-hot choice of the best topic along `dim`.

    The choice has no useful derivative.  On the way back we use, on purpose, that of softmax(logits / tau)
    in its place (straight-through).  tau is a plain number.
    """

    @staticmethod
    def forward(ctx, logits, tau=1.0, dim=-1):
        soft = torch.softmax(logits / tau, dim)
        ctx.save_for_backward(soft)
        ctx.tau, ctx.dim = tau, dim
        best = soft.argmax(dim, keepdim=True)
        return torch.zeros_like(soft).scatter_(dim, best, 1.0)

    @staticmethod
    def backward(ctx, grad):
        (soft,) = ctx.saved_tensors
        mean = (grad * soft).sum(ctx.dim, keepdim=True)
        return soft * (grad - mean) / ctx.tau, None, None


class Chapterizer(nn.Module):
    def __init__(self, width, speakers=2, topics=12):
        super().__init__()
        self.directions = nn.Parameter(torch.randn(speakers, width))
        self.prior = nn.Parameter(torch.zeros(width))
        self.to_break = nn.Linear(2 * width, 1)
        self.to_topic = nn.Linear(width, topics)
        self.topic_table = nn.Parameter(torch.randn(topics, width) / width**0.5)

    def forward(self, x, breaks):
        x = SpeakerSubspaceRemoval.apply(x, self.directions)
        h = ChapterRunningMean.apply(x, breaks, self.prior, 2.0)
        logits = self.to_break(torch.cat([x, h], -1)).squeeze(-1)
        topic = HardTopicChoice.apply(self.to_topic(h), 0.7) @ self.topic_table
        return logits, topic
