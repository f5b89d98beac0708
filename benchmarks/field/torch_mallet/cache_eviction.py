"""Key/value cache compression that is trained together with the model.

Long prompts are compressed after prefill: every layer gets a budget of cache
slots, the keys with little accumulated attention are evicted, and what is
evicted is folded into the nearest slot that stays.  The retained keys are then
moved to consecutive positions.

Budgets, decay and fold weights are learned with the language-model loss on top,
so the four steps are differentiable.  They are written as autograd functions
because they run once per layer on tensors of the size of the attention map.

Shapes use B batch, H query heads, G key/value heads, T queries, S keys, D head
width, L layers.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function

ROPE_BASE = 10_000.0
MASS_EPS = 1e-6
DROPPED = -1


def rope_frequencies(rotary_dim: int, base: float = ROPE_BASE) -> torch.Tensor:
    return base ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float32) / rotary_dim)


class HeavyHitterMass(Function):
    """Attention each key has received, with older queries fading.

    Args:
        attn: attention probabilities, (B, H, T, S).
        decay: fading per query step for each query head, (H,), in (0, 1].  With
            1.0 this is the plain accumulated score.
        kv_heads: number of key/value heads; H is a multiple of it.

    Returns:
        (B, G, S): summed over the query heads of each group.
    """

    @staticmethod
    def forward(ctx, attn: torch.Tensor, decay: torch.Tensor, kv_heads: int) -> torch.Tensor:
        batch, heads, queries, keys = attn.shape
        age = torch.arange(queries - 1, -1, -1, device=attn.device, dtype=attn.dtype)
        fade = decay[:, None] ** age
        mass = torch.einsum("bhts,ht->bhs", attn, fade)
        ctx.save_for_backward(attn, age, fade)
        ctx.kv_heads = kv_heads
        return mass.reshape(batch, kv_heads, heads // kv_heads, keys).sum(dim=2)

    @staticmethod
    def backward(ctx, grad: torch.Tensor):
        attn, age, fade = ctx.saved_tensors
        repeat = attn.shape[1] // ctx.kv_heads
        per_head = grad.repeat_interleave(repeat, dim=1)
        d_attn = d_decay = None
        if ctx.needs_input_grad[0]:
            d_attn = per_head[:, :, None, :] * fade[None, :, :, None]
        if ctx.needs_input_grad[1]:
            pulled = torch.einsum("bhts,bhs->ht", attn, per_head)
            d_decay = (pulled * age * fade).sum(dim=1)
        return d_attn, d_decay, None


class BudgetAllocator(Function):
    """Split a total number of cache slots over layers.

    scores: (..., L) importance of each layer; temperature: scalar tensor.  Each
    layer receives ``floor`` slots, the rest goes by a softmax of
    ``scores / temperature``, and no layer gets more than ``ceiling``.  What the
    ceiling cuts off is returned as the second output, (...), so that a penalty
    can discourage it.
    """

    @staticmethod
    def forward(ctx, scores, temperature, total, floor, ceiling):
        layers = scores.shape[-1]
        pool = total - layers * floor
        share = torch.softmax(scores / temperature, dim=-1)
        wanted = floor + pool * share
        capped = wanted > ceiling
        budget = wanted.clamp(max=ceiling)
        spill = (wanted - ceiling).clamp(min=0).sum(dim=-1)
        ctx.save_for_backward(scores, temperature, budget, capped)
        ctx.floor = floor
        ctx.pool = pool
        return budget, spill

    @staticmethod
    def backward(ctx, g_budget, g_spill):
        scores, temperature, budget, capped = ctx.saved_tensors
        share = (budget - ctx.floor) / ctx.pool
        g_wanted = torch.where(capped, g_spill[..., None].expand_as(g_budget), g_budget)
        g_share = ctx.pool * g_wanted
        g_logit = share * (g_share - (share * g_share).sum(dim=-1, keepdim=True))
        d_scores = g_logit / temperature if ctx.needs_input_grad[0] else None
        d_temperature = None
        if ctx.needs_input_grad[1]:
            d_temperature = -(g_logit * scores).sum() / temperature**2
        return d_scores, d_temperature, None, None, None


class EvictedMeanMerge(Function):
    """Fold evicted entries into the slots that stay.

    ``slot`` (B, S) names for each entry the slot it goes to, or ``DROPPED``.
    A slot may take any number of entries, including none.  ``weight`` (B, S) is
    the entry's pull.  Gives merged keys (B, n_slots, D), merged values
    (B, n_slots, Dv) and the log of each slot's weight, to be added to its
    attention logit.
    """

    @staticmethod
    def forward(ctx, keys, values, weight, slot, n_slots):
        kept = slot != DROPPED
        target = torch.where(kept, slot, torch.zeros_like(slot))
        pull = torch.where(kept, weight, torch.zeros_like(weight))

        total = weight.new_zeros(weight.shape[0], n_slots).scatter_add(1, target, pull) + MASS_EPS

        def pooled(x):
            out = x.new_zeros(x.shape[0], n_slots, x.shape[-1])
            out = out.scatter_add(1, target[..., None].expand_as(x), pull[..., None] * x)
            return out / total[..., None]

        merged_k = pooled(keys)
        merged_v = pooled(values)
        ctx.save_for_backward(keys, values, pull, target, kept, total, merged_k, merged_v)
        return merged_k, merged_v, torch.log(total)

    @staticmethod
    def backward(ctx, g_k, g_v, g_log):
        keys, values, pull, target, kept, total, merged_k, merged_v = ctx.saved_tensors

        def at(x):
            return torch.gather(x, 1, target[..., None].expand(*target.shape, x.shape[-1]))

        total_at = torch.gather(total, 1, target)
        pulled_k, pulled_v = at(g_k), at(g_v)
        scale = (pull / total_at)[..., None]

        d_keys = scale * pulled_k if ctx.needs_input_grad[0] else None
        d_values = scale * pulled_v if ctx.needs_input_grad[1] else None
        d_weight = None
        if ctx.needs_input_grad[2]:
            d_weight = (pulled_k * (keys - at(merged_k))).sum(-1)
            d_weight = d_weight + (pulled_v * (values - at(merged_v))).sum(-1)
            d_weight = (d_weight + torch.gather(g_log, 1, target)) / total_at
            d_weight = torch.where(kept, d_weight, torch.zeros_like(d_weight))
        return d_keys, d_values, d_weight, None, None


class PositionReindex(Function):
    r"""Rotate cached keys by a change of position.

    keys        (B, G, S, D)
    shift       (B, S)       new minus old position, integers
    frequency   (R / 2,)     rotary frequencies; the last D - R channels pass
    interleaved bool         pairs (0,1),(2,3).. instead of halves
    """

    @staticmethod
    def _split(x, rotary, interleaved):
        head = x[..., :rotary]
        if interleaved:
            return head[..., 0::2], head[..., 1::2]
        return head[..., : rotary // 2], head[..., rotary // 2 :]

    @staticmethod
    def _join(a, b, tail, interleaved):
        if interleaved:
            head = torch.stack([a, b], dim=-1).flatten(-2)
        else:
            head = torch.cat([a, b], dim=-1)
        return torch.cat([head, tail], dim=-1)

    @staticmethod
    def forward(ctx: Any, keys, shift, frequency, interleaved: bool = False):
        rotary = 2 * frequency.shape[0]
        moved = shift.to(keys.dtype)
        angle = moved[:, None, :, None] * frequency
        c, s = torch.cos(angle), torch.sin(angle)
        a, b = PositionReindex._split(keys, rotary, interleaved)
        ra, rb = a * c - b * s, a * s + b * c
        ctx.save_for_backward(moved, c, s, ra, rb)
        ctx.interleaved = interleaved
        ctx.rotary = rotary
        return PositionReindex._join(ra, rb, keys[..., rotary:], interleaved)

    @staticmethod
    def backward(ctx: Any, grad):
        moved, c, s, ra, rb = ctx.saved_tensors
        ga, gb = PositionReindex._split(grad, ctx.rotary, ctx.interleaved)
        d_keys = d_freq = None
        if ctx.needs_input_grad[0]:
            d_keys = PositionReindex._join(
                ga * c + gb * s, gb * c - ga * s, grad[..., ctx.rotary :], ctx.interleaved
            )
        if ctx.needs_input_grad[2]:
            d_angle = gb * ra - ga * rb
            d_freq = torch.einsum("bgsf,bs->f", d_angle, moved)
        return d_keys, None, d_freq, None


def nearest_slot(keys: torch.Tensor, keep: torch.Tensor, threshold: float) -> torch.Tensor:
    """Slot of the most similar kept key, or DROPPED if below ``threshold``.

    keys (B, S, D); keep (B, K) sorted indices of what stays.
    """
    unit = F.normalize(keys, dim=-1)
    anchors = torch.gather(unit, 1, keep[..., None].expand(-1, -1, unit.shape[-1]))
    likeness = unit @ anchors.transpose(-1, -2)
    best, slot = likeness.max(dim=-1)
    slot = torch.where(best < threshold, torch.full_like(slot, DROPPED), slot)
    own = torch.arange(keep.shape[1], device=keep.device).expand_as(keep)
    return slot.scatter(1, keep, own)


class CacheCompressor(nn.Module):
    """Compresses one layer's cache to a given number of slots."""

    def __init__(
        self,
        heads: int,
        kv_heads: int,
        head_dim: int,
        rotary_dim: Optional[int] = None,
        threshold: float = 0.2,
        interleaved: bool = False,
        decay: float = 1.0,
    ):
        super().__init__()
        if heads % kv_heads:
            raise ValueError("heads must be a multiple of kv_heads")
        self.kv_heads = kv_heads
        self.threshold = threshold
        self.interleaved = interleaved
        self.decay = nn.Parameter(torch.full((heads,), decay))
        self.frequency = nn.Parameter(rope_frequencies(rotary_dim or head_dim))

    def forward(
        self, keys: torch.Tensor, values: torch.Tensor, attn: torch.Tensor, slots: int
    ) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """keys, values (B, G, S, D), attn (B, H, T, S) -> compressed, and logit bias."""
        batch, groups, length, width = keys.shape
        mass = HeavyHitterMass.apply(attn, self.decay, self.kv_heads)
        flat_mass = mass.reshape(batch * groups, length)
        keep = flat_mass.topk(slots, dim=-1).indices.sort(dim=-1).values

        flat_k = keys.reshape(batch * groups, length, width)
        flat_v = values.reshape(batch * groups, length, values.shape[-1])
        with torch.no_grad():
            slot = nearest_slot(flat_k, keep, self.threshold)
        merged_k, merged_v, bias = EvictedMeanMerge.apply(flat_k, flat_v, flat_mass, slot, slots)

        fresh = torch.arange(slots, device=keys.device).expand_as(keep)
        moved_k = PositionReindex.apply(
            merged_k[:, None], fresh - keep, self.frequency, self.interleaved
        )[:, 0]
        return (
            moved_k.reshape(batch, groups, slots, width),
            merged_v.reshape(batch, groups, slots, -1),
            bias.reshape(batch, groups, slots),
        )


class LayerBudgets(nn.Module):
    """Learned number of slots per layer under a fixed total."""

    def __init__(self, layers: int, total: int, floor: int = 16, ceiling: int = 512):
        super().__init__()
        if layers * floor > total:
            raise ValueError("floor exceeds the total")
        self.scores = nn.Parameter(torch.zeros(layers))
        self.temperature = nn.Parameter(torch.tensor(1.0))
        self.limits: Dict[str, float] = {
            "total": float(total),
            "floor": float(floor),
            "ceiling": float(ceiling),
        }

    def forward(self) -> Tuple[torch.Tensor, torch.Tensor]:
        return BudgetAllocator.apply(
            self.scores,
            self.temperature,
            self.limits["total"],
            self.limits["floor"],
            self.limits["ceiling"],
        )


def compressed_attention(query, keys, values, bias):
    """Attention of query (B, H, T, D) on a compressed cache of G heads."""
    repeat = query.shape[1] // keys.shape[1]
    k = keys.repeat_interleave(repeat, dim=1)
    v = values.repeat_interleave(repeat, dim=1)
    logits = query @ k.transpose(-1, -2) / math.sqrt(query.shape[-1])
    logits = logits + bias.repeat_interleave(repeat, dim=1)[:, :, None]
    return torch.softmax(logits, dim=-1) @ v


if __name__ == "__main__":
    torch.manual_seed(0)
    compressor = CacheCompressor(heads=8, kv_heads=2, head_dim=16, rotary_dim=8)
    k, v = torch.randn(2, 2, 40, 16), torch.randn(2, 2, 40, 16)
    q = torch.randn(2, 8, 12, 16)
    probs = torch.softmax(q @ k.repeat_interleave(4, 1).transpose(-1, -2) / 4.0, dim=-1)
    small = compressor(k, v, probs, slots=10)
    out = compressed_attention(q, *small)
    out.square().mean().backward()
    print(out.shape, compressor.decay.grad, compressor.frequency.grad)

    budgets, spill = LayerBudgets(12, 2048)()
    print(budgets, spill)
