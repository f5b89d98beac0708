import torch


def instance_norm(x, eps=1e-5):
    mu = x.mean(dim=(2, 3), keepdim=True)
    centred = x - mu
    var = centred.square().mean(dim=(2, 3), keepdim=True)
    scale = torch.sqrt(var + eps)
    return centred.div(scale)
