import torch
import torch.nn as nn
from torch.autograd import Function


def _softmin(stack, gamma):
    w = torch.softmax(-stack / gamma, dim=-1)
    return -gamma * torch.logsumexp(-stack / gamma, dim=-1), w


class SoftEditDistance(Function):
    """Differentiable edit distance between padded strings.

    Args:
        cost: (B, N, M) substitution costs.
        gaps: (2,) costs of a deletion and of an insertion.
        n: (B,) lengths of the first strings.
        m: (B,) lengths of the second strings.
        gamma: temperature of the soft minimum.

    Returns:
        (B,) distances.
    """

    @staticmethod
    def forward(ctx, cost, gaps, n, m, gamma=1.0):
        B, N, M = cost.shape
        d = cost.new_full((B, N + 1, M + 1), 0.0)
        move = cost.new_zeros(B, N + 1, M + 1, 3)
        dele, ins = gaps[0], gaps[1]
        d[:, :, 0] = torch.arange(N + 1, dtype=cost.dtype) * dele
        d[:, 0, :] = torch.arange(M + 1, dtype=cost.dtype) * ins
        move[:, 1:, 0, 0] = 1.0
        move[:, 0, 1:, 1] = 1.0
        for i in range(1, N + 1):
            for j in range(1, M + 1):
                options = torch.stack(
                    [
                        d[:, i - 1, j] + dele,
                        d[:, i, j - 1] + ins,
                        d[:, i - 1, j - 1] + cost[:, i - 1, j - 1],
                    ],
                    dim=-1,
                )
                d[:, i, j], move[:, i, j] = _softmin(options, gamma)
        ctx.save_for_backward(move, n, m)
        return d[torch.arange(B), n, m]

    @staticmethod
    def backward(ctx, grad):
        move, n, m = ctx.saved_tensors
        B, rows, cols, _ = move.shape
        e = torch.zeros_like(move[..., 0])
        e[torch.arange(B), n, m] = grad
        for i in range(rows - 1, -1, -1):
            for j in range(cols - 1, -1, -1):
                here = e[:, i, j, None] * move[:, i, j]
                if i > 0:
                    e[:, i - 1, j] += here[:, 0]
                if j > 0:
                    e[:, i, j - 1] += here[:, 1]
                if i > 0 and j > 0:
                    e[:, i - 1, j - 1] += here[:, 2]
        used = e[..., None] * move
        g_gaps = used[..., :2].sum(dim=(0, 1, 2))
        return used[:, 1:, 1:, 2], g_gaps, None, None, None


class ExpectedErrorRate(Function):
    """Minimum-risk objective over n-best lists.

    Args:
        scores: (B, K) log scores of the hypotheses, padded on the right.
        errors: (B, K) error of each hypothesis.
        n_hyp: (B,) number of hypotheses. An utterance whose beam came back
            empty has zero and is left out.
        sharpness: factor on the scores before they are normalised.
        reduction: "mean" over the utterances kept, "sum" or "none".

    Returns:
        A scalar, or (B,) with "none".
    """

    @staticmethod
    def forward(ctx, scores, errors, n_hyp, sharpness=1.0, reduction="mean"):
        valid = torch.arange(scores.shape[1]) < n_hyp[:, None]
        logits = (sharpness * scores).masked_fill(~valid, float("-inf"))
        top = logits.amax(dim=1, keepdim=True)
        top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
        w = torch.exp(logits - top)
        p = w / w.sum(dim=1, keepdim=True).clamp(min=torch.finfo(w.dtype).tiny)
        err = errors.masked_fill(~valid, 0.0)
        risk = (p * err).sum(dim=1)
        ctx.save_for_backward(p, err, risk)
        ctx.sharpness, ctx.reduction = sharpness, reduction
        if reduction == "none":
            return risk
        if reduction == "sum":
            return risk.sum()
        if reduction == "mean":
            return risk.sum() / (n_hyp > 0).sum().clamp(min=1)
        raise ValueError(reduction)

    @staticmethod
    def backward(ctx, grad):
        p, err, risk = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad = grad / risk.numel()
        if ctx.reduction != "none":
            grad = grad.expand_as(risk)
        gp = grad[:, None] * p
        return ctx.sharpness * gp * (err - risk[:, None]), gp, None, None, None


class ConfusionChannel(Function):
    """Passes class posteriors through a writer's confusion matrix.

    Args:
        logits: (B, T, V) logits of the true characters.
        theta: (W, V, V) unnormalised log confusions of each writer, the row
            being the true character.
        writer: (B,) long, who wrote each line.

    Returns:
        (B, T, V) log probabilities of the characters read.
    """

    @staticmethod
    def forward(ctx, logits, theta, writer):
        p = torch.softmax(logits, dim=-1)
        channel = torch.softmax(theta[writer], dim=-1)
        q = p @ channel
        ctx.save_for_backward(p, channel, q, writer)
        ctx.n_writers = theta.shape[0]
        return q.log()

    @staticmethod
    def backward(ctx, grad):
        p, channel, q, writer = ctx.saved_tensors
        gq = grad / q
        gp = gq @ channel.transpose(1, 2)
        g_logits = p * (gp - (p * gp).sum(-1, keepdim=True))
        gc = p.transpose(1, 2) @ gq
        per_line = channel * (gc - (channel * gc).sum(-1, keepdim=True))
        g_theta = channel.new_zeros(ctx.n_writers, *channel.shape[1:])
        g_theta[writer] += per_line
        return g_logits, g_theta, None


class HandwritingHead(nn.Module):
    """Linear classifier of column features, followed by the writer's channel."""

    def __init__(self, width, charset, writers, diagonal=3.0):
        super().__init__()
        self.proj = nn.Linear(width, charset)
        self.theta = nn.Parameter(diagonal * torch.eye(charset).repeat(writers, 1, 1))

    def forward(self, columns, writer):
        return ConfusionChannel.apply(self.proj(columns), self.theta, writer)


class TranscriptLoss(nn.Module):
    def __init__(self, gamma=0.1, sharpness=1.0):
        super().__init__()
        self.log_gaps = nn.Parameter(torch.zeros(2))
        self.gamma = gamma
        self.sharpness = sharpness

    def forward(self, log_probs, target, n, m):
        index = target[:, None, :].expand(-1, log_probs.shape[1], -1)
        cost = -log_probs.gather(2, index)
        return SoftEditDistance.apply(cost, self.log_gaps.exp(), n, m, self.gamma).mean()

    def rescore(self, scores, errors, n_hyp):
        return ExpectedErrorRate.apply(scores, errors, n_hyp, self.sharpness, "mean")


def train_lines(head, criterion, batches, epochs=5, lr=1e-3):
    params = list(head.parameters()) + list(criterion.parameters())
    opt = torch.optim.AdamW(params, lr=lr)
    for _ in range(epochs):
        for columns, widths, target, lengths, writer in batches:
            opt.zero_grad()
            loss = criterion(head(columns, writer), target, widths, lengths)
            loss.backward()
            opt.step()
    return head
