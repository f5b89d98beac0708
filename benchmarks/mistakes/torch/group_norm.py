"""Group normalisation without affine parameters."""
import torch


class GroupNorm(torch.autograd.Function):
    """x: (n, c, l), c divisible by groups. Same shape out."""

    @staticmethod
    def forward(ctx, x, groups):
        xg = x.reshape(x.shape[0], groups, -1)
        mu = xg.mean(-1, keepdim=True)
        rstd = (xg.var(-1, unbiased=False, keepdim=True) + 1e-5).rsqrt()
        xhat = (xg - mu) * rstd
        ctx.save_for_backward(xhat)
        return xhat.reshape(x.shape)

    @staticmethod
    def backward(ctx, grad_output):
        (xhat,) = ctx.saved_tensors
        g = grad_output.reshape(xhat.shape)
        a = g.mean(-1, keepdim=True)
        b = (g * xhat).mean(-1, keepdim=True)
        gx = g - a - xhat * b
        return gx.reshape(grad_output.shape), None


def group_norm(x, groups):
    return GroupNorm.apply(x, groups)
