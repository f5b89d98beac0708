import torch


@torch.no_grad()
def clip_gradients_(params, max_norm=1.0):
    """Scale float16 gradients in place so that their joint norm is max_norm."""
    grads = [p.grad for p in params if p.grad is not None]
    flat = torch.cat([g.half().flatten() for g in grads])
    total = flat.pow(2).sum().sqrt()
    coef = (max_norm / (total + 1e-3)).clamp(max=1.0)
    for g in grads:
        g.mul_(coef)
    return total
