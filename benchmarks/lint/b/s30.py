import torch
from torch.nn import functional as F


def soft_target_loss(student_logits, teacher_logits, temperature=1.0):
    p = F.softmax(teacher_logits.detach() / temperature, dim=-1)
    log_q = F.log_softmax(student_logits / temperature, dim=-1)
    kl = F.kl_div(log_q, p, reduction="batchmean")
    return kl * temperature ** 2
