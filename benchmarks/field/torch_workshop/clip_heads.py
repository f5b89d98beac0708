"""Heads, token stems and losses for contrastive image-text pre-training.

Everything here is memory-lean: only what cannot be recomputed cheaply is kept
between the forward and the backward pass, which is why the ops are spelled as
``torch.autograd.Function`` instead of being left to autograd.

Shape letters
-------------
B  images in the local batch        M  captions in the local batch
D  width of the joint space         N  tokens per image
C  colour channels
"""

from __future__ import annotations

import math
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

MAX_LOGIT_SCALE = 100.0


def _pair(v) -> Tuple[int, int]:
    return (v, v) if isinstance(v, int) else tuple(v)


class L2Normalize(Function):
    """Project onto the unit sphere along one axis.

    Args:
        x: any shape.
        dim: the axis that is normalised.
        eps: lower bound of the divisor; shorter vectors are only scaled by ``1 / eps``.

    Returns:
        unit: ``x / max(|x|, eps)``, shape of ``x``.
        length: ``|x|`` with ``dim`` removed. Feature-length regularisers
            differentiate through this one as well.
    """

    @staticmethod
    def forward(x: Tensor, dim: int, eps: float):
        length = x.norm(dim=dim)
        unit = x / length.unsqueeze(dim).clamp_min(eps)
        return unit, length

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.dim, ctx.eps = inputs
        ctx.save_for_backward(*output)

    @staticmethod
    @once_differentiable
    def backward(ctx, g_unit, g_length):
        unit, length = ctx.saved_tensors
        length = length.unsqueeze(ctx.dim)
        divisor = length.clamp_min(ctx.eps)

        radial = (g_unit * unit).sum(ctx.dim, keepdim=True) * unit
        radial = torch.where(length > ctx.eps, radial, torch.zeros_like(radial))
        gx = (g_unit - radial) / divisor

        # d|x|/dx is the direction of x, whatever divisor was used above
        direction = unit * divisor / length.clamp_min(torch.finfo(unit.dtype).tiny)
        gx = gx + g_length.unsqueeze(ctx.dim) * direction
        return gx, None, None


class ClipLoss(Function):
    """Symmetric InfoNCE over in-batch negatives (CLIP, eq. 1).

    Args:
        image: (B, D) image embeddings, already on the unit sphere.
        text: (B, D) caption embeddings; row ``i`` belongs to image ``i``.
        scale: () inverse temperature.
        reduction: ``"mean"`` or ``"sum"`` over the B pairs, or ``"none"`` for the
            (B,) per-pair losses. A pair's loss is the average of its
            image-to-text and text-to-image cross-entropies.
    """

    @staticmethod
    def forward(ctx, image: Tensor, text: Tensor, scale: Tensor, reduction: str = "mean"):
        sim = image @ text.t()
        logits = scale * sim
        log_p_i2t = F.log_softmax(logits, dim=1)
        log_p_t2i = F.log_softmax(logits, dim=0)
        per_pair = -0.5 * (log_p_i2t.diagonal() + log_p_t2i.diagonal())
        ctx.save_for_backward(image, text, scale, sim, log_p_i2t, log_p_t2i)
        ctx.reduction = reduction
        if reduction == "mean":
            return per_pair.mean()
        if reduction == "sum":
            return per_pair.sum()
        if reduction == "none":
            return per_pair
        raise ValueError(f"unknown reduction {reduction!r}")

    @staticmethod
    def backward(ctx, grad_loss):
        image, text, scale, sim, log_p_i2t, log_p_t2i = ctx.saved_tensors
        b = image.shape[0]
        if ctx.reduction == "none":
            w = grad_loss
        else:
            w = grad_loss.expand(b)
            if ctx.reduction == "mean":
                w = w / b
        # rows carry the image-to-text term, columns the text-to-image term
        d_logits = 0.5 * (w[:, None] * log_p_i2t.exp() + w[None, :] * log_p_t2i.exp())
        d_logits = d_logits - torch.diag(w)
        d_image = d_text = d_scale = None
        if ctx.needs_input_grad[0]:
            d_image = scale * (d_logits @ text)
        if ctx.needs_input_grad[1]:
            d_text = scale * (d_logits @ image)
        if ctx.needs_input_grad[2]:
            d_scale = (d_logits * sim).sum()
        return d_image, d_text, d_scale, None


class SigmoidPairLoss(Function):
    """Pairwise sigmoid loss (SigLIP).

    Args:
        image: (B, D), text: (M, D).
        log_t: () log of the temperature multiplier.
        bias: () logit offset, usually initialised to -10.
        is_match: (B, M) bool, which caption describes which image.
        keep: optional (B, M) bool; pairs with ``False`` (near duplicates) are
            left out of the loss.

    Returns:
        () the sum over kept pairs divided by the number of images.
    """

    @staticmethod
    def forward(ctx, image, text, log_t, bias, is_match, keep=None):
        sign = is_match.to(image.dtype) * 2 - 1
        sim = image @ text.t()
        z = sign * (log_t.exp() * sim + bias)
        nll = F.softplus(-z)
        if keep is not None:
            nll = nll * keep
        ctx.save_for_backward(image, text, log_t, sim, sign, z)
        ctx.keep = keep
        return nll.sum() / image.shape[0]

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        image, text, log_t, sim, sign, z = ctx.saved_tensors
        d_logit = -sign * torch.sigmoid(-z) * (g / image.shape[0])
        if ctx.keep is not None:
            d_logit = d_logit * ctx.keep
        t = log_t.exp()
        d_sim = t * d_logit
        return (
            d_sim @ text,
            d_sim.t() @ image,
            (d_sim * sim).sum(),
            d_logit.sum(),
            None,
            None,
        )


class PatchProject(Function):
    """Non-overlapping patch projection (the ViT stem) as one matmul.

    Args:
        pixels: (B, C, H, W) with H, W multiples of the patch sides.
        weight: (D, C * ph * pw), patch pixels flattened channel-major.
        bias: (D,) or ``None``.
        patch: ``(ph, pw)``.

    Returns:
        (B, N, D) tokens in raster order, ``N = (H / ph) * (W / pw)``.
    """

    @staticmethod
    def forward(ctx, pixels, weight, bias, patch):
        b, c, h, w = pixels.shape
        ph, pw = patch
        gh, gw = h // ph, w // pw
        cols = pixels.reshape(b, c, gh, ph, gw, pw).permute(0, 2, 4, 1, 3, 5)
        cols = cols.reshape(b, gh * gw, c * ph * pw)
        ctx.save_for_backward(cols, weight)
        ctx.geometry = (b, c, gw, gh, ph, pw)
        ctx.image_size = (h, w)
        out = cols @ weight.t()
        return out if bias is None else out + bias

    @staticmethod
    def backward(ctx, g):
        cols, weight = ctx.saved_tensors
        b, c, gh, gw, ph, pw = ctx.geometry
        d_pixels = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_cols = (g @ weight).reshape(b, gh, gw, c, ph, pw)
            d_pixels = d_cols.permute(0, 3, 1, 4, 2, 5).reshape(b, c, *ctx.image_size)
        if ctx.needs_input_grad[1]:
            d_weight = torch.einsum("bnd,bnk->dk", g, cols)
        if ctx.needs_input_grad[2]:
            d_bias = g.sum((0, 1))
        return d_pixels, d_weight, d_bias, None


class QueryPool(Function):
    """Pool tokens with one learned query (a single-head MAP head without projections).

    Args:
        tokens: (B, N, D).
        query: (D,).
        valid: (B, N) bool, ``False`` for padding; every image has a valid token.

    Returns:
        (B, D) convex combinations of the valid tokens.
    """

    @staticmethod
    def forward(ctx, tokens: Tensor, query: Tensor, valid: Tensor) -> Tensor:
        scores = (tokens @ query) / math.sqrt(query.shape[0])
        attn = scores.masked_fill(~valid, float("-inf")).softmax(-1)
        pooled = torch.einsum("bn,bnd->bd", attn, tokens)
        ctx.save_for_backward(tokens, query, attn, pooled)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        tokens, query, attn, pooled = ctx.saved_tensors
        g_attn = torch.einsum("bd,bnd->bn", g, tokens)
        g_mean = (g * pooled).sum(-1, keepdim=True)
        g_scores = attn * (g_attn - g_mean) / math.sqrt(query.shape[0])
        d_tokens = attn.unsqueeze(-1) * g.unsqueeze(1) + g_scores.unsqueeze(-1) * query
        d_query = torch.einsum("bn,bnd->d", g_scores, tokens)
        return d_tokens, d_query, None


# --------------------------------------------------------------------------- modules


class PatchStem(nn.Module):
    def __init__(self, width: int, patch=16, channels: int = 3, bias: bool = True):
        super().__init__()
        self.patch = _pair(patch)
        fan_in = channels * self.patch[0] * self.patch[1]
        self.weight = nn.Parameter(torch.randn(width, fan_in) * fan_in**-0.5)
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, pixels: Tensor) -> Tensor:
        return PatchProject.apply(pixels, self.weight, self.bias, self.patch)


class ImageTower(nn.Module):
    """A stem, a pooling query and the sphere; enough for unit tests and tiny runs."""

    def __init__(self, width: int = 64, patch=(16, 16)):
        super().__init__()
        self.stem = PatchStem(width, patch)
        self.query = nn.Parameter(torch.randn(width) * 0.02)

    def forward(self, pixels: Tensor, valid: Optional[Tensor] = None):
        tokens = self.stem(pixels)
        if valid is None:
            valid = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        return L2Normalize.apply(QueryPool.apply(tokens, self.query, valid), -1, 1e-6)


class ContrastiveHead(nn.Module):
    def __init__(self, kind: str = "softmax", reduction: str = "mean"):
        super().__init__()
        self.kind = kind
        self.reduction = reduction
        self.log_t = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
        self.bias = nn.Parameter(torch.tensor(-10.0)) if kind == "sigmoid" else None

    def forward(self, image, text, is_match=None, keep=None):
        if self.kind == "softmax":
            scale = self.log_t.exp().clamp(max=MAX_LOGIT_SCALE)
            return ClipLoss.apply(image, text, scale, self.reduction)
        if is_match is None:
            is_match = torch.eye(len(image), len(text), dtype=torch.bool, device=image.device)
        return SigmoidPairLoss.apply(image, text, self.log_t, self.bias, is_match, keep)


if __name__ == "__main__":
    torch.manual_seed(0)
    tower = ImageTower(32, patch=(8, 8))
    emb, length = tower(torch.randn(6, 3, 32, 48))
    txt, _ = L2Normalize.apply(torch.randn(6, 32), -1, 1e-6)
    loss = ContrastiveHead()(emb, txt) + 1e-3 * length.pow(2).mean()
    loss.backward()
    print(loss.item())
