"""Contact prediction from alignments: direct-coupling analysis pieces with hand-written gradients."""
from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F

Q = 21
GAP = 20


class PottsParams(NamedTuple):
    fields: torch.Tensor  # (L, q)
    couplings: torch.Tensor  # (L, L, q, q), row site first


def _centre(block):
    return (
        block
        - block.mean(-1, keepdim=True)
        - block.mean(-2, keepdim=True)
        + block.mean((-2, -1), keepdim=True)
    )


class PottsPseudoNLL(torch.autograd.Function):
    """Weighted negative log pseudo-likelihood of an alignment under a Potts model.

    Args:
        fields: (L, q) single-site biases.
        couplings: (L, L, q, q); the self blocks [i, i] are ignored.
        alignment: (N, L) int64 states.
        weights: (N,) sequence weights (1 / number of near neighbours), constants.

    Returns the weighted mean over the sequences of the sum over sites, a scalar.
    """

    @staticmethod
    def forward(ctx, fields, couplings, alignment, weights):
        n_sites, q = fields.shape
        onehot = F.one_hot(alignment, q).to(fields.dtype)
        off = 1.0 - torch.eye(n_sites, dtype=fields.dtype, device=fields.device)
        pair = couplings * off[:, :, None, None]
        logits = fields + torch.einsum("ijab,njb->nia", pair, onehot)
        logp = torch.log_softmax(logits, -1)
        nll = -(logp * onehot).sum((-2, -1))
        ctx.save_for_backward(logp, onehot, off, weights)
        return (weights * nll).sum() / weights.sum()

    @staticmethod
    def backward(ctx, grad_loss):
        logp, onehot, off, weights = ctx.saved_tensors
        n_seq = weights.shape[0]
        delta = (logp.exp() - onehot) * weights[:, None, None] / n_seq
        delta = grad_loss * delta
        d_fields = delta.sum(0)
        d_couplings = torch.einsum("nia,njb->ijab", delta, onehot) * off[:, :, None, None]
        return d_fields, d_couplings, None, None


class ZeroSumFrobenius(torch.autograd.Function):
    @staticmethod
    def forward(ctx, couplings, gap: Optional[int] = None, eps: float = 1e-12):
        centred = _centre(couplings)
        if gap is not None:
            keep = torch.ones(couplings.shape[-1], dtype=couplings.dtype, device=couplings.device)
            keep[gap] = 0.0
            centred = centred * keep * keep[:, None]
        norm = torch.sqrt((centred**2).sum((-2, -1)) + eps)
        ctx.save_for_backward(centred, norm)
        return norm

    @staticmethod
    def backward(ctx, grad_norm):
        centred, norm = ctx.saved_tensors
        # the centred block is its own projection
        return (grad_norm / norm)[..., None, None] * centred, None, None


class AverageProductCorrection(torch.autograd.Function):
    """S_ij - S_i. S_.j / S_.. over the last two axes (L, L); leading axes are batch.

    With ``exclude_diagonal`` the means run over the off-diagonal entries and the diagonal comes back zero.
    The scores need not be symmetric; their grand mean must not vanish.
    """

    @staticmethod
    def forward(scores, exclude_diagonal=True):
        keep, n = _support(scores, exclude_diagonal)
        kept = scores * keep
        row = kept.sum(-1, keepdim=True) / n
        col = kept.sum(-2, keepdim=True) / n
        grand = row.mean(-2, keepdim=True)
        return keep * (scores - row * col / grand)

    @staticmethod
    def setup_context(ctx, inputs, output):
        scores, ctx.exclude_diagonal = inputs
        ctx.save_for_backward(scores)

    @staticmethod
    def backward(ctx, grad_out):
        (scores,) = ctx.saved_tensors
        keep, n = _support(scores, ctx.exclude_diagonal)
        kept = scores * keep
        row = kept.sum(-1, keepdim=True) / n
        col = kept.sum(-2, keepdim=True) / n
        grand = row.mean(-2, keepdim=True)
        g = grad_out * keep
        d_row = -(g * col).sum(-1, keepdim=True) / grand
        d_col = -(g * row).sum(-2, keepdim=True) / grand
        d_grand = (g * row * col).sum((-2, -1), keepdim=True) / grand**2
        return g + keep * (d_row / n + d_col / n + d_grand / (n * scores.shape[-1])), None


def _support(scores, exclude_diagonal):
    size = scores.shape[-1]
    keep = torch.ones(size, size, dtype=scores.dtype, device=scores.device)
    if exclude_diagonal:
        keep = keep - torch.eye(size, dtype=scores.dtype, device=scores.device)
    return keep, size - 1 if exclude_diagonal else size


def contact_map(params: PottsParams, gap=None):
    sym = 0.5 * (params.couplings + params.couplings.permute(1, 0, 3, 2))
    return AverageProductCorrection.apply(ZeroSumFrobenius.apply(sym, gap), True)
