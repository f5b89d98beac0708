import torch


@torch.no_grad()
def global_norm(grads):
    acc = torch.zeros((), dtype=torch.float64)
    for g in grads:
        h = g.to(torch.float64)
        acc += (h * h).sum()
    return acc.sqrt()


@torch.no_grad()
def clip_(grads, max_norm=1.0):
    scale = max_norm / (global_norm(grads) + 1e-6)
    for g in grads:
        g.mul_(scale.clamp(max=1.0))
