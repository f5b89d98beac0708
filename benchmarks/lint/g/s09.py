import flax.linen as nn
import jax.numpy as jnp


class PoolingHead(nn.Module):
    """Attention pooling; lengths are token counts, 0 for entries that only fill up the batch."""

    @nn.compact
    def __call__(self, tokens, lengths):
        scores = nn.Dense(1)(tokens)[..., 0]
        valid = jnp.arange(tokens.shape[1])[None, :] < lengths[:, None]
        scores = jnp.where(valid, scores, -jnp.inf)
        weights = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        return jnp.einsum("bt,btd->bd", weights, tokens)
