import torch


class WeightNorm(torch.autograd.Function):
    """w = gain * v / ||v|| with the norm per output row.

    v: (out, in), gain: (out,). Returns w: (out, in).
    """

    @staticmethod
    def forward(ctx, v, gain):
        norm = v.norm(dim=1, keepdim=True)
        u = v / norm
        ctx.save_for_backward(u, norm, gain)
        return gain[:, None] * u

    @staticmethod
    def backward(ctx, dw):
        u, norm, gain = ctx.saved_tensors
        along = (dw * u).sum(dim=1, keepdim=True)
        dv = gain[:, None] / norm * (dw + along * u)
        return dv, along.squeeze(1)


weight_norm = WeightNorm.apply
