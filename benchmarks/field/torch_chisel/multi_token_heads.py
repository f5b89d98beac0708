"""Multi-token prediction heads and the bookkeeping of self-drafted decoding.

A trunk produces one hidden state per position; H light heads on top of it
predict the next 1..H tokens.  At training time all heads share one loss; at
decoding time heads 2..H draft tokens which head 1 then verifies.

This file has the fused pieces with hand-written backward passes (they keep the
peak memory at one logits tensor) and a small module that wires them up.

Shapes: B batch, T positions, H heads, D width, V vocabulary, K draft length.
"""

import math
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

IGNORE = -100


def shifted_targets(tokens: torch.Tensor, heads: int, ignore: int = IGNORE) -> torch.Tensor:
    """(B, T) -> (B, T, H); entry [b, t, h] is the token at t + 1 + h or ``ignore``."""
    batch, length = tokens.shape
    out = tokens.new_full((batch, length, heads), ignore)
    for h in range(heads):
        step = h + 1
        if step < length:
            out[:, : length - step, h] = tokens[:, step:]
    return out


class HorizonNLL(Function):
    """Weighted next-k-token cross entropy.

    Each head's loss is averaged over its own valid positions (later heads run
    out of targets earlier), then the heads are added with ``weights``.

    Inputs: logits (B, T, H, V); tokens (B, T) long; weights (H,); ignore int.
    Outputs: scalar loss, per-head loss (H,), per-head count (H,); the count is
    not differentiable.
    """

    @staticmethod
    def forward(ctx, logits, tokens, weights, ignore):
        target = shifted_targets(tokens, logits.shape[2], ignore)
        valid = target != ignore
        logp = torch.log_softmax(logits, dim=-1)
        picked = logp.gather(-1, target.masked_fill(~valid, 0)[..., None])[..., 0]
        count = valid.sum((0, 1))
        denominator = count.clamp_min(1).to(logits.dtype)
        per_head = -(picked * valid).sum((0, 1)) / denominator
        loss = (weights * per_head).sum()
        ctx.save_for_backward(logits, target, weights, per_head, denominator)
        ctx.ignore = ignore
        ctx.mark_non_differentiable(count)
        return loss, per_head, count

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss, grad_per_head, _):
        logits, target, weights, per_head, denominator = ctx.saved_tensors
        grad_logits = grad_weights = None
        if ctx.needs_input_grad[0]:
            valid = target != ctx.ignore
            head_scale = (grad_per_head + grad_loss * weights) / denominator
            scale = head_scale * valid
            grad_logits = torch.softmax(logits, dim=-1)
            index = target.masked_fill(~valid, 0)[..., None]
            grad_logits.scatter_add_(-1, index, -torch.ones_like(grad_logits[..., :1]))
            grad_logits.mul_(scale[..., None])
        if ctx.needs_input_grad[2]:
            grad_weights = grad_loss * per_head
        return grad_logits, None, grad_weights, None


class ExpectedAccept(Function):
    """Expected number of accepted draft tokens.

    The k-th drafted token is accepted with probability min(1, p/q), given that
    all before it were.

    Args:
        target_logp (Tensor): (B, K) log-probability under the verifier.
        draft_logp (Tensor): (B, K) log-probability under the drafting head.
        lengths (LongTensor): (B,) tokens really drafted, 0..K.

    Returns:
        expected length (B,) and survival probability (B, K), zero past the
        drafted length.
    """

    @staticmethod
    def forward(target_logp, draft_logp, lengths):
        valid = torch.arange(target_logp.shape[1], device=lengths.device) < lengths[:, None]
        step = (target_logp - draft_logp).clamp_max(0.0)
        survive = torch.exp(torch.cumsum(step, dim=1)) * valid
        return survive.sum(1), survive

    @staticmethod
    def setup_context(ctx, inputs, output):
        target_logp, draft_logp, _ = inputs
        _, survive = output
        ctx.save_for_backward(target_logp < draft_logp, survive)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_length, grad_survive):
        limited, survive = ctx.saved_tensors
        mass = (grad_survive + grad_length[:, None]) * survive
        through = mass.flip(1).cumsum(1).flip(1) * limited
        return through, -through, None


class HeadStateNorm(Function):
    """RMS normalisation of ``x`` along ``dim`` with a gain of that length.

    y = gain * x / sqrt(mean(x**2, dim) + eps)

    ``dim=-1`` is the usual per-position norm; the head mixer also normalises
    along the head axis so that no head dominates by sheer magnitude.
    """

    @staticmethod
    def forward(ctx, x, gain, dim, eps):
        dim = dim % x.dim()
        inverse = torch.rsqrt(x.square().mean(dim, keepdim=True) + eps)
        shape = [1] * x.dim()
        shape[dim] = -1
        ctx.save_for_backward(x, gain, inverse)
        ctx.dim = dim
        ctx.gain_shape = shape
        return x * inverse * gain.view(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_y):
        x, gain, inverse = ctx.saved_tensors
        dim = ctx.dim
        width = x.shape[-1]
        scaled = grad_y * gain.view(ctx.gain_shape)
        inner = (scaled * x).sum(dim, keepdim=True)
        grad_x = inverse * (scaled - x * inverse.square() * inner / width)
        others = [axis for axis in range(x.dim()) if axis != dim]
        grad_gain = (grad_y * x * inverse).sum(others) if others else grad_y * x * inverse
        return grad_x, grad_gain, None, None


class ActiveHeadMix(Function):
    """Softmax mixture of the first ``active[b]`` heads of each example.

    Parameters
    ----------
    trunk : (B, D)
    heads : (B, H, D)
    gate : (H,)
    active : (B,) long
        How many heads the scheduler switched on; an example with none passes
        its trunk state through.
    temperature : float

    Returns
    -------
    mixed : (B, D)
    entropy : (B,)
        Entropy of the mixture in nats, zero for an example without heads.
    """

    @staticmethod
    def forward(ctx, trunk, heads, gate, active, temperature):
        on = torch.arange(gate.shape[0], device=gate.device) < active[:, None]
        weight, log_weight = _masked_softmax(gate / temperature, on)
        entropy = -(weight * log_weight).sum(1)
        mixed = torch.einsum("bh,bhd->bd", weight, heads)
        none = (active <= 0)[:, None]
        mixed = torch.where(none, trunk, mixed)
        ctx.save_for_backward(heads, weight, log_weight, entropy, none)
        ctx.temperature = temperature
        return mixed, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_mixed, grad_entropy):
        heads, weight, log_weight, entropy, none = ctx.saved_tensors
        grad_trunk = grad_heads = grad_gate = None
        if ctx.needs_input_grad[0]:
            grad_trunk = grad_mixed * none
        if ctx.needs_input_grad[1]:
            grad_heads = weight[..., None] * grad_mixed[:, None, :]
        if ctx.needs_input_grad[2]:
            score = torch.einsum("bd,bhd->bh", grad_mixed, heads)
            centred = score - (weight * score).sum(1, keepdim=True)
            centred = centred - grad_entropy[:, None] * (log_weight + entropy[:, None])
            grad_gate = (weight * centred).sum(0) / ctx.temperature
        return grad_trunk, grad_heads, grad_gate, None, None


def _masked_softmax(logit: torch.Tensor, on: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """Softmax of ``logit`` (H,) over the ``on`` entries of each row; rows without
    any are all zero.  The logarithm is zero where the weight is."""
    full = logit.expand(on.shape).masked_fill(~on, -math.inf)
    peak = full.amax(1, keepdim=True)
    peak = torch.where(torch.isfinite(peak), peak, torch.zeros_like(peak))
    power = torch.exp(full - peak)
    total = power.sum(1, keepdim=True)
    safe = torch.where(total > 0, total, torch.ones_like(total))
    log_weight = (full - peak - safe.log()).masked_fill(~on, 0.0)
    return power / safe, log_weight


class HeadBlock(nn.Module):
    """One drafting head: low-rank residual on the trunk state."""

    def __init__(self, width: int, rank: int):
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return state + self.up(F.silu(self.down(state)))


class MultiTokenHeads(nn.Module):
    def __init__(
        self,
        width: int,
        vocab: int,
        heads: int = 4,
        rank: int = 16,
        decay: float = 0.8,
        norm_over_heads: bool = False,
        temperature: float = 1.0,
        eps: float = 1e-6,
    ):
        super().__init__()
        self.blocks = nn.ModuleList(HeadBlock(width, rank) for _ in range(heads))
        self.unembed = nn.Parameter(torch.randn(vocab, width) / math.sqrt(width))
        self.gain = nn.Parameter(torch.ones(heads if norm_over_heads else width))
        self.gate = nn.Parameter(torch.zeros(heads))
        self.register_buffer("horizon", decay ** torch.arange(heads).float())
        self.norm_dim = -2 if norm_over_heads else -1
        self.temperature = temperature
        self.eps = eps

    def head_states(self, trunk: torch.Tensor) -> torch.Tensor:
        """(..., D) -> (..., H, D)"""
        stacked = torch.stack([block(trunk) for block in self.blocks], dim=-2)
        return HeadStateNorm.apply(stacked, self.gain, self.norm_dim, self.eps)

    def forward(self, trunk: torch.Tensor, tokens: torch.Tensor) -> Dict[str, torch.Tensor]:
        logits = self.head_states(trunk) @ self.unembed.t()
        loss, per_head, count = HorizonNLL.apply(logits, tokens, self.horizon, IGNORE)
        return {"loss": loss, "per_head": per_head, "count": count}

    def summary_state(self, trunk: torch.Tensor, active: torch.Tensor):
        """Mixture of heads at the last position, for the value probe."""
        last = trunk[:, -1]
        return ActiveHeadMix.apply(
            last, self.head_states(last), self.gate, active, self.temperature
        )


def draft_bonus(
    verifier: torch.Tensor,
    drafter: torch.Tensor,
    drafted: torch.Tensor,
    lengths: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """Mean expected acceptance; verifier and drafter are (B, K, V) logits."""
    if lengths is None:
        lengths = drafted.new_full((drafted.shape[0],), drafted.shape[1])
    pick = drafted[..., None]
    p = torch.log_softmax(verifier, -1).gather(-1, pick)[..., 0]
    q = torch.log_softmax(drafter, -1).gather(-1, pick)[..., 0]
    expected, _ = ExpectedAccept.apply(p, q, lengths)
    return expected.mean()


def train_step(model: MultiTokenHeads, trunk, tokens, optimizer) -> List[float]:
    out = model(trunk, tokens)
    optimizer.zero_grad()
    out["loss"].backward()
    optimizer.step()
    return out["per_head"].detach().tolist()


if __name__ == "__main__":
    torch.manual_seed(1)
    model = MultiTokenHeads(width=24, vocab=50, heads=3)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    hidden = torch.randn(2, 9, 24)
    text = torch.randint(0, 50, (2, 9))
    for _ in range(3):
        print(train_step(model, hidden, text, sgd))
    mixed, entropy = model.summary_state(hidden, torch.tensor([3, 0]))
    print(mixed.shape, entropy)
    print(float(draft_bonus(torch.randn(2, 3, 50), torch.randn(2, 3, 50), text[:, :3])))
