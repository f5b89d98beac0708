"""Mean over valid time steps."""
import torch


class MaskedMean(torch.autograd.Function):
    """x: (batch, time), mask: (batch, time) of zeros and ones -> (batch,)"""

    @staticmethod
    def forward(ctx, x, mask):
        count = mask.sum(dim=1).clamp(min=1)
        ctx.save_for_backward(count)
        ctx.steps = x.shape[1]
        return (x * mask).sum(dim=1) / count

    @staticmethod
    def backward(ctx, ct):
        (count,) = ctx.saved_tensors
        per_row = (ct / count).unsqueeze(1)
        return per_row.expand(-1, ctx.steps), None


def masked_mean(x, mask):
    return MaskedMean.apply(x, mask)
