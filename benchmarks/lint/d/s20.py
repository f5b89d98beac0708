import torch as th
from torch.nn import functional as F

MASK = -1e9


def policy_kl(old_logits, new_logits, valid):
    """KL(old || new) over the valid actions, averaged over the batch."""
    logp = F.log_softmax(old_logits.masked_fill(~valid, MASK), dim=-1)
    logq = F.log_softmax(new_logits.masked_fill(~valid, MASK), dim=-1)
    kl = (th.exp(logp) * (logp - logq)).sum(-1)
    return kl.mean()
