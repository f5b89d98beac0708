from jax import grad, nn
from jax import numpy as jnp


def bpr_loss(emb, users, pos, neg):
    """Bayesian personalised ranking, emb holds 'user' and 'item' tables."""
    u = emb["user"][users]
    margin = jnp.sum(u * (emb["item"][pos] - emb["item"][neg]), axis=-1)
    prob = nn.sigmoid(margin)
    return -jnp.log(prob).mean()


bpr_grad = grad(bpr_loss)
