import math

import torch
from torch.distributions import Normal


def sample_log_weights(x, z, q, decoder):
    prior = Normal(torch.zeros_like(z), torch.ones_like(z))
    logits = decoder(z)
    rec = -torch.nn.functional.binary_cross_entropy_with_logits(
        logits, x.expand_as(logits), reduction="none").sum(-1)
    return rec + prior.log_prob(z).sum(-1) - q.log_prob(z).sum(-1)


def importance_bound(x, encoder, decoder, k=50):
    """Importance weighted bound with k samples, averaged over the batch."""
    mu, log_std = encoder(x).chunk(2, dim=-1)
    q = Normal(mu, log_std.clamp(-6, 3).exp())
    z = q.rsample((k,))
    log_w = sample_log_weights(x, z, q, decoder)
    bound = log_w.logsumexp(dim=0) - math.log(k)
    return -bound.mean()
