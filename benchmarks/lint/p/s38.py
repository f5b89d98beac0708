import jax.numpy as jnp


def unit_rows(x, eps=1e-6):
    return x / jnp.sqrt(jnp.sum(x * x, axis=-1, keepdims=True) + eps)


def info_nce(image_emb, text_emb, temperature=0.01):
    """Symmetric-free CLIP style objective over a batch of pairs."""
    image_emb = unit_rows(image_emb)
    text_emb = unit_rows(text_emb)
    sim = image_emb @ text_emb.T / temperature
    scores = jnp.exp(sim)
    positives = jnp.diagonal(scores)
    return -jnp.mean(jnp.log(positives / scores.sum(axis=1)))
