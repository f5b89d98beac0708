"""Batch normalisation in training mode."""
import torch
from torch.autograd import Function


class BatchNormTrain(Function):
    """x: (n, c), gamma: (c,), beta: (c,) -> (n, c); statistics over n."""

    @staticmethod
    def forward(ctx, x, gamma, beta, eps):
        mean = x.mean(0)
        var = x.var(0, unbiased=False)
        inv_std = 1.0 / torch.sqrt(var + eps)
        x_hat = (x - mean) * inv_std
        ctx.save_for_backward(x_hat, gamma, inv_std)
        return gamma * x_hat + beta

    @staticmethod
    def backward(ctx, dout):
        x_hat, gamma, inv_std = ctx.saved_tensors
        dbeta = dout.sum(0)
        dgamma = (dout * x_hat).sum(0)
        dx_hat = dout * gamma
        centred = dx_hat - dx_hat.mean(0)
        dx = inv_std * (centred - x_hat * (dx_hat * x_hat).sum(0))
        return dx, dgamma, dbeta, None


def batch_norm_train(x, gamma, beta, eps=1e-5):
    return BatchNormTrain.apply(x, gamma, beta, eps)
