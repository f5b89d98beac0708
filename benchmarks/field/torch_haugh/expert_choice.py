"""Mixture of experts where the experts choose their tokens."""

import torch
import torch.nn as nn
from torch.autograd import Function


def choose(gates, capacity):
    """gates (T, E) -> token ids (E, C); a token may be chosen by several experts or by none."""
    return gates.detach().topk(capacity, dim=0).indices.T.contiguous()


class ExpertChoiceDispatch(Function):
    """tokens (T, D), picks (E, C) -> (E, C, D); picks below zero give empty slots."""

    @staticmethod
    def forward(ctx, tokens, picks):
        filled = picks >= 0
        ctx.save_for_backward(picks, filled)
        ctx.num_tokens = tokens.shape[0]
        return tokens[picks.clamp_min(0)] * filled.unsqueeze(-1).to(tokens.dtype)

    @staticmethod
    def backward(ctx, grad):
        picks, filled = ctx.saved_tensors
        out = grad.new_zeros(ctx.num_tokens, grad.shape[-1])
        out.index_add_(0, picks[filled], grad[filled])
        return out, None


class ExpertChoiceCombine(Function):
    """Gate-weighted return of the expert outputs to their tokens.

    Args:
        hidden: (E, C, D) expert outputs.
        gates:  (T, E) router probabilities, positive.
        picks:  (E, C) token ids, distinct within an expert.
        renormalize: divide by the sum of the gates of the experts that chose the token.
    Returns:
        (T, D); tokens chosen by no expert get zeros.
    """

    @staticmethod
    def forward(ctx, hidden, gates, picks, renormalize=False):
        num_tokens, num_experts = gates.shape
        owner = torch.arange(num_experts, device=gates.device).unsqueeze(1).expand_as(picks)
        weight = gates[picks, owner]
        flat = picks.reshape(-1)
        if renormalize:
            total = gates.new_zeros(num_tokens).index_add_(0, flat, weight.reshape(-1))
            weight = weight / total[picks]
            scale = 1.0 / total[picks]
        else:
            scale = torch.ones_like(weight)
        out = hidden.new_zeros(num_tokens, hidden.shape[-1])
        out.index_add_(0, flat, (weight.unsqueeze(-1) * hidden).flatten(0, 1))
        ctx.save_for_backward(hidden, weight, scale, picks, owner)
        ctx.gate_shape = gates.shape
        return out

    @staticmethod
    def backward(ctx, grad):
        hidden, weight, scale, picks, owner = ctx.saved_tensors
        g_slot = grad[picks]
        d_hidden = weight.unsqueeze(-1) * g_slot
        d_weight = (g_slot * hidden).sum(-1) * scale
        d_gates = grad.new_zeros(ctx.gate_shape)
        d_gates.index_put_((picks, owner), d_weight, accumulate=True)
        return d_hidden, d_gates, None, None


class ExpertChoiceFeedForward(nn.Module):
    def __init__(self, dim, hidden, experts, capacity, renormalize=False):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, dim, hidden) * dim**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, dim) * hidden**-0.5)
        self.capacity, self.renormalize = capacity, renormalize

    def forward(self, tokens):
        gates = self.router(tokens).softmax(-1)
        picks = choose(gates, min(self.capacity, tokens.shape[0]))
        slots = ExpertChoiceDispatch.apply(tokens, picks)
        h = torch.relu(torch.bmm(slots, self.up))
        return ExpertChoiceCombine.apply(torch.bmm(h, self.down), gates, picks, self.renormalize)
