"""Row-wise cosine similarity."""
import torch


class CosineSimilarity(torch.autograd.Function):
    """a: (n, d), b: (n, d) -> (n,)"""

    @staticmethod
    def forward(ctx, a, b):
        na = a.norm(dim=1, keepdim=True)
        nb = b.norm(dim=1, keepdim=True)
        ua, ub = a / na, b / nb
        cos = (ua * ub).sum(1, keepdim=True)
        ctx.save_for_backward(ua, ub, na, nb, cos)
        return cos.squeeze(1)

    @staticmethod
    def backward(ctx, grad_output):
        ua, ub, na, nb, cos = ctx.saved_tensors
        g = grad_output.unsqueeze(1)
        grad_a = g * (ub - cos * ua) / na
        grad_b = g * (ua - cos * ub) / nb
        return grad_b, grad_a


cosine_similarity = CosineSimilarity.apply
