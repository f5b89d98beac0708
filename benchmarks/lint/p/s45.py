import torch


def squared_norms(x):
    return (x * x).sum(dim=-1)


@torch.no_grad()
def nearest_code(latents, codebook, radius):
    """Index of the nearest code, -1 when it lies outside `radius`."""
    offset = latents[:, None, :] - codebook[None, :, :]
    sq = squared_norms(offset)
    dist = sq.sqrt()
    best, index = dist.min(dim=1)
    index[~(best <= radius)] = -1
    return index, best
