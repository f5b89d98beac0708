"""Binary cross entropy on logits with a weight on the positive class."""
import torch
import torch.nn.functional as F


class BCEPosWeight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, pos_weight):
        s = torch.sigmoid(logits)
        ctx.save_for_backward(s, target)
        loss = -(pos_weight * target * F.logsigmoid(logits) + (1 - target) * F.logsigmoid(-logits))
        return loss.mean()

    @staticmethod
    def backward(ctx, grad_loss):
        s, target = ctx.saved_tensors
        d = s - target
        return grad_loss * d / s.numel(), None, None


def bce_pos_weight(logits, target, pos_weight):
    """logits, target: (n,), pos_weight: float. Returns the mean loss."""
    return BCEPosWeight.apply(logits, target, pos_weight)
