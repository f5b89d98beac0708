"""Cross entropy with label smoothing, averaged over the batch."""
import torch
import torch.nn.functional as F


class LabelSmoothingCE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, smoothing):
        c = logits.shape[1]
        logp = F.log_softmax(logits, dim=1)
        q = torch.full_like(logp, smoothing / c)
        q.scatter_(1, target[:, None], 1.0 - smoothing + smoothing / c)
        ctx.save_for_backward(logp, q)
        return -(q * logp).sum(1).mean()

    @staticmethod
    def backward(ctx, g):
        logp, q = ctx.saved_tensors
        grad = g * (logp.exp() - q)
        return grad, None, None


def label_smoothing_ce(logits, target, smoothing=0.1):
    """logits: (n, c), target: (n,) class ids. Returns a scalar."""
    return LabelSmoothingCE.apply(logits, target, smoothing)
