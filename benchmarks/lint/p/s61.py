import torch


def squared_norms(x):
    return (x * x).sum(dim=1)


@torch.no_grad()
def nearest_code(latents, codebook, radius):
    """Index of the nearest code, -1 when it lies outside `radius`."""
    cross = latents @ codebook.t()
    sq = squared_norms(latents)[:, None] + squared_norms(codebook)[None, :] - 2.0 * cross
    dist = sq.sqrt()
    best, index = dist.min(dim=1)
    index[~(best <= radius)] = -1
    return index, best
