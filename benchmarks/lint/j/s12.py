import torch
import torch.nn.functional as F


def token_probs(logits, tokens):
    probs = F.softmax(logits, dim=-1)
    return probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def sequence_score(logits, tokens):
    per_token = token_probs(logits, tokens)
    likelihood = per_token.prod(dim=-1)
    return likelihood.log() / tokens.size(-1)
