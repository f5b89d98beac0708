import torch
import torch.nn.functional as F

IGNORE = -100


def token_loss(logits, labels):
    per_token = F.cross_entropy(
        logits.transpose(1, 2), labels, ignore_index=IGNORE, reduction="none"
    )
    keep = (labels != IGNORE).to(per_token.dtype)
    per_row = (per_token * keep).sum(dim=1)
    per_row = per_row / keep.sum(dim=1)
    return per_row.mean()
