import jax
import jax.numpy as jnp


def masked_policy(logits, legal):
    return jax.nn.softmax(jnp.where(legal, logits, -1e9), axis=-1)


def entropy_bonus(logits, legal, coef=0.01):
    probs = masked_policy(logits, legal)
    plogp = jnp.where(probs > 1e-30, probs * jnp.log(probs), 0.0)
    return -coef * jnp.mean(jnp.sum(-plogp, axis=-1))
