import jax.numpy as jnp
from flax import linen as nn


class PixelDecoder(nn.Module):
    width: int = 32
    pixels: int = 16

    @nn.compact
    def __call__(self, z):
        h = nn.relu(nn.Dense(self.width)(z))
        return nn.Dense(self.pixels)(h)


def bernoulli_nll(logits, x):
    log_p = nn.log_sigmoid(logits)
    log_q = nn.log_sigmoid(-logits)
    ll = x * log_p + (1.0 - x) * log_q
    return -jnp.sum(ll, axis=-1)
