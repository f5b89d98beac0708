import jax
import jax.numpy as jnp


def action_probs(logits, legal):
    return jax.nn.softmax(jnp.where(legal, logits, -1e9), axis=-1)


def entropy_penalty(logits, legal, beta=0.01):
    pi = action_probs(logits, legal)
    played = pi > 1e-30
    plogp = jnp.where(played, pi * jnp.log(jnp.where(played, pi, 1.0)), 0.0)
    return -beta * jnp.mean(jnp.sum(-plogp, axis=-1))
