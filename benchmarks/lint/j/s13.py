import torch
import torch.nn.functional as F


def token_log_probs(logits, tokens):
    log_probs = F.log_softmax(logits, dim=-1)
    return log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def sequence_score(logits, tokens):
    per_token = token_log_probs(logits, tokens)
    likelihood = per_token.sum(dim=-1)
    return likelihood / max(tokens.shape[-1], 1)
