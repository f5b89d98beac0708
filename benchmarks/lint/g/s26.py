import torch as th


def sentence_vector(tokens, mask):
    m = mask.unsqueeze(-1).to(tokens.dtype)
    v = (tokens * m).sum(dim=1)
    length = v.pow(2).sum(dim=-1, keepdim=True).clamp_min(1e-10).sqrt()
    return v.div(length)


def sentence_cosine(a, mask_a, b, mask_b):
    """Cosine of the pooled tokens; an empty sentence has a mask of zeros."""
    return th.einsum("bd,bd->b", sentence_vector(a, mask_a), sentence_vector(b, mask_b))
