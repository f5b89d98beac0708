from jax import grad, nn
from jax import numpy as jnp


def pairwise_rank_loss(emb, users, pos, neg):
    """Bayesian personalised ranking, emb holds 'user' and 'item' tables."""
    u = emb["user"][users]
    margin = jnp.sum(u * (emb["item"][pos] - emb["item"][neg]), axis=-1)
    logprob = nn.log_sigmoid(margin)
    return -logprob.mean()


pairwise_rank_grad = grad(pairwise_rank_loss)
