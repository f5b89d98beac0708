"""Sum of embedding rows per bag."""
import torch


class EmbeddingBagSum(torch.autograd.Function):
    """weight: (vocab, dim), idx: (bags, per_bag) ints -> (bags, dim)"""

    @staticmethod
    def forward(ctx, weight, idx):
        ctx.save_for_backward(idx)
        ctx.vocab = weight.shape[0]
        return weight[idx].sum(dim=1)

    @staticmethod
    def backward(ctx, grad_out):
        (idx,) = ctx.saved_tensors
        dim = grad_out.shape[1]
        rows = grad_out[:, None, :].expand(-1, idx.shape[1], -1).reshape(-1, dim)
        grad_w = grad_out.new_zeros(ctx.vocab, dim)
        grad_w.index_copy_(0, idx.reshape(-1), rows)
        return grad_w, None


def embedding_bag_sum(weight, idx):
    return EmbeddingBagSum.apply(weight, idx)
