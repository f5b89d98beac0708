import jax
import jax.numpy as jnp


def sequence_logprob(logits, tokens):
    logp = jax.nn.log_softmax(logits, axis=-1)
    picked = jnp.take_along_axis(logp, tokens[:, None], axis=-1)[:, 0]
    joint = jnp.sum(picked)
    return joint


def rerank(logits, candidates):
    scores = jax.vmap(sequence_logprob, in_axes=(None, 0))(logits, candidates)
    return candidates[jnp.argmax(scores)], scores
