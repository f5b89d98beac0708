"""Scansion of verse: cutting a line into feet with a small neural sequence model.

Syllable vectors pass a gated memory that forgets at the start of each line, then an attention whose pull fades with
the logarithm of the distance, and end in scores for feet of one to four syllables.  Training maximises the
likelihood of the marked feet, so the log of the sum over all possible cuts is needed.
"""
import torch
from torch import nn

LONGEST_FOOT = 4


class FootPartition(torch.autograd.Function):
    """log of the sum over all cuts of a verse into feet of exp(total score).

    scores: (verses, syllables, longest); scores[v, e, n - 1] belongs to the foot of n syllables that ends with syllable e
    lengths: (verses,), the number of syllables; what stands behind is padding.  An empty verse has one (empty) cut.
    """

    @staticmethod
    def _forward_table(scores):
        verses, syllables, longest = scores.shape
        table = [scores.new_zeros(verses)]
        for end in range(syllables):
            options = [table[end + 1 - n] + scores[:, end, n - 1] for n in range(1, min(longest, end + 1) + 1)]
            table.append(torch.logsumexp(torch.stack(options), 0))
        return torch.stack(table, 1)

    @staticmethod
    def forward(ctx, scores, lengths):
        table = FootPartition._forward_table(scores)
        total = table.gather(1, lengths[:, None]).squeeze(1)
        ctx.save_for_backward(scores, lengths, table, total)
        return total

    @staticmethod
    def backward(ctx, grad):
        scores, lengths, table, total = ctx.saved_tensors
        verses, syllables, longest = scores.shape
        minus_inf = torch.full_like(total, float("-inf"))
        rest = [minus_inf] * (syllables + 1)
        for start in range(syllables, -1, -1):
            options = [torch.where(lengths == start, torch.zeros_like(total), minus_inf)]
            for n in range(1, min(longest, syllables - start) + 1):
                options.append(scores[:, start + n - 1, n - 1] + rest[start + n])
            rest[start] = torch.logsumexp(torch.stack(options), 0)
        share = torch.zeros_like(scores)
        for end in range(syllables):
            for n in range(1, min(longest, end + 1) + 1):
                share[:, end, n - 1] = torch.exp(table[:, end + 1 - n] + scores[:, end, n - 1] + rest[end + 1] - total)
        return grad[:, None, None] * share, None


class LogDistanceAttend(torch.autograd.Function):
    """Attention with a penalty of -pull * log(1 + stretch * |i - j|) on the logits, both learned for each head.

    query, key, value: (batch, heads, n, dim).  pull, stretch: (heads,), positive.
    causal: look back only.
    """

    @staticmethod
    def forward(ctx, query, key, value, pull, stretch, causal=False):
        n = query.shape[-2]
        place = torch.arange(n, device=query.device)
        apart = (place[:, None] - place[None, :]).abs().to(query.dtype)
        logits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        logits = logits - pull[:, None, None] * torch.log1p(stretch[:, None, None] * apart)
        if causal:
            logits = logits.masked_fill(place[None, :] > place[:, None], float("-inf"))
        attention = logits.softmax(-1)
        ctx.save_for_backward(query, key, value, pull, stretch, attention, apart)
        return attention @ value

    @staticmethod
    def backward(ctx, grad):
        query, key, value, pull, stretch, attention, apart = ctx.saved_tensors
        g_value = attention.transpose(-1, -2) @ grad
        g_att = grad @ value.transpose(-1, -2)
        g_logits = attention * (g_att - (g_att * attention).sum(-1, keepdim=True))
        scale = query.shape[-1] ** -0.5
        g_query = g_logits @ key * scale
        g_key = g_logits.transpose(-1, -2) @ query * scale
        per_head = g_logits.sum(0)
        far = torch.log1p(stretch[:, None, None] * apart)
        g_pull = -(per_head * far).sum((-1, -2))
        g_stretch = -pull * (per_head * (apart / (1 + apart))).sum((-1, -2))
        return g_query, g_key, g_value, g_pull, g_stretch, None


class LineGate(torch.autograd.Function):
    """Gated memory along the syllables, emptied before the first syllable of a line.

        memory[t] = gate[t] * kept + (1 - gate[t]) * x[t],   kept = 0 at a line start, else memory[t - 1]

    x and gate are (batch, time, width), begins is a bool (batch, time), and `before` (batch, width) is the memory from
    the part of the poem that was read already.
    """

    @staticmethod
    def forward(ctx, x, gate, begins, before):
        keep = (~begins).to(x.dtype).unsqueeze(-1)
        memory, now = [], before
        for t in range(x.shape[1]):
            now = gate[:, t] * keep[:, t] * now + (1 - gate[:, t]) * x[:, t]
            memory.append(now)
        memory = torch.stack(memory, 1)
        ctx.save_for_backward(x, gate, keep, before, memory)
        return memory

    @staticmethod
    def backward(ctx, grad):
        x, gate, keep, before, memory = ctx.saved_tensors
        previous = torch.cat([before.unsqueeze(1), memory[:, :-1]], 1)
        through = gate * keep
        total = torch.empty_like(grad)
        carry = torch.zeros_like(before)
        for t in range(x.shape[1] - 1, -1, -1):
            total[:, t] = grad[:, t] + carry
            carry = total[:, t] * through[:, t]
        return total * (1 - gate), total * (previous - x), None, carry


class Scanner(nn.Module):
    """Syllable vectors to the log-likelihood of marked feet."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.gate = nn.Linear(width, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.log_pull = nn.Parameter(torch.zeros(heads))
        self.log_stretch = nn.Parameter(torch.zeros(heads))
        self.feet = nn.Linear(width, LONGEST_FOOT)

    def forward(self, x, begins, lengths):
        batch, time, width = x.shape
        x = LineGate.apply(x, torch.sigmoid(self.gate(x)), begins, x.new_zeros(batch, width))
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = LogDistanceAttend.apply(q, k, v, self.log_pull.exp(), self.log_stretch.exp(), False)
        scores = self.feet(mixed.transpose(1, 2).reshape(batch, time, width))
        return scores, FootPartition.apply(scores, lengths)
