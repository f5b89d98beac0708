import torch
from torch.nn import functional as F


def distillation_loss(student_logits, teacher_logits, temperature=1.0):
    p = F.softmax(teacher_logits.detach() / temperature, dim=-1)
    q = F.softmax(student_logits / temperature, dim=-1)
    kl = (p * (p / q).log()).sum(dim=-1)
    return kl.mean() * temperature ** 2
