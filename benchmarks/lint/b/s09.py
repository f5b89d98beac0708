import torch
import torch.nn.functional as F


def blank_memory(batch, slots, width):
    return torch.zeros(batch, slots, width)


def address_by_content(memory, key, beta):
    """memory: (batch, slots, width), key: (batch, width), beta: (batch, 1)."""
    dot = (memory * key.unsqueeze(1)).sum(dim=-1)
    norms = memory.norm(dim=-1) * key.norm(dim=-1, keepdim=True)
    sim = dot / norms.clamp_min(1e-6)
    return F.softmax(beta * sim, dim=-1)
