import torch


class LogAbsDet(torch.autograd.Function):
    """log|det A| of a square matrix. a: (n, n) -> scalar"""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return torch.linalg.slogdet(a).logabsdet

    @staticmethod
    def backward(ctx, grad_out):
        (a,) = ctx.saved_tensors
        inv = torch.linalg.inv(a)
        return inv.t()


def log_abs_det(a):
    return LogAbsDet.apply(a)
