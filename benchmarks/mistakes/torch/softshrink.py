import torch


class SoftShrink(torch.autograd.Function):
    """Soft thresholding (proximal map of the l1 norm), elementwise."""

    @staticmethod
    def forward(ctx, x, lam):
        ctx.save_for_backward(x)
        ctx.lam = lam
        return torch.sign(x) * torch.clamp(x.abs() - lam, min=0)

    @staticmethod
    def backward(ctx, dy):
        x, = ctx.saved_tensors
        dx = dy.masked_fill(x.abs() > ctx.lam, 0.0)
        return dx, None


def softshrink(x, lam=0.5):
    return SoftShrink.apply(x, lam)
