import jax
from jax import numpy as jnp

TAU = 0.1


def l2_normalize(x):
    return x * jax.lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-6)


def clip_loss(image_emb, text_emb):
    logits = l2_normalize(image_emb) @ l2_normalize(text_emb).T / TAU
    scores = jnp.exp(logits)
    matched = jnp.diagonal(logits)
    return jnp.mean(jnp.log(scores.sum(axis=1)) - matched)
