import torch

EPS = 1e-9


def logmap0(x, c=1.0):
    """Logarithmic map at the origin of the Poincare ball."""
    x = x.to(torch.float32)
    root_c = c ** 0.5
    norm = x.norm(dim=-1, keepdim=True).clamp_min(1e-15)
    arg = (root_c * norm).clamp(-1 + EPS, 1 - EPS)
    return torch.atanh(arg) * x / (root_c * norm)
