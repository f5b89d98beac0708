import torch


class HuberDelta(torch.autograd.Function):
    """Elementwise Huber loss with threshold delta."""

    @staticmethod
    def forward(ctx, pred, target, delta):
        r = pred - target
        a = r.abs()
        quad = a <= delta
        ctx.save_for_backward(r, quad)
        return torch.where(quad, 0.5 * r * r, delta * (a - 0.5 * delta))

    @staticmethod
    def backward(ctx, grad_output):
        r, quad = ctx.saved_tensors
        slope = torch.where(quad, r, torch.sign(r))
        g = grad_output * slope
        return g, -g, None


def huber_delta(pred, target, delta):
    """pred, target: (n,), delta: float. Returns (n,)."""
    return HuberDelta.apply(pred, target, delta)
