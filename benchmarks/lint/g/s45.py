import torch as th


def pool(tokens, mask):
    m = mask.unsqueeze(-1).to(tokens.dtype)
    v = (tokens * m).sum(dim=1)
    length = v.pow(2).sum(dim=-1, keepdim=True).sqrt()
    return v.div(length)


def document_similarity(a, mask_a, b, mask_b):
    """Cosine of the pooled tokens; an empty document has a mask of zeros."""
    return th.einsum("bd,bd->b", pool(a, mask_a), pool(b, mask_b))
