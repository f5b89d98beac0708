import torch


class CumProd(torch.autograd.Function):
    """Cumulative product over the last axis; entries must be nonzero.

    x: (n, t) -> (n, t)
    """

    @staticmethod
    def forward(ctx, x):
        y = torch.cumprod(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        tail = (g * y).flip(-1).cumsum(-1).flip(-1)
        return tail / y


def cumprod(x):
    return CumProd.apply(x)
