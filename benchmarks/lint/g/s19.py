import flax.linen as nn
import jax.numpy as jnp


class AttentionReadout(nn.Module):
    """Attention pooling; lengths are token counts, 0 for entries that only fill up the batch."""

    @nn.compact
    def __call__(self, feats, lengths):
        logits = nn.Dense(1)(feats)[..., 0]
        keep = jnp.arange(feats.shape[1])[None, :] < lengths[:, None]
        logits = jnp.where(keep, logits, -1e9)
        probs = jnp.exp(logits - logits.max(axis=-1, keepdims=True))
        probs = probs / probs.sum(axis=-1, keepdims=True)
        return jnp.einsum("bt,btd->bd", probs, feats)
