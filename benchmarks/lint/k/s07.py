import jax
import jax.numpy as jnp


def sequence_logprob(logits, tokens):
    probs = jax.nn.softmax(logits, axis=-1)
    picked = jnp.take_along_axis(probs, tokens[:, None], axis=-1)[:, 0]
    joint = jnp.prod(picked)
    return jnp.log(joint)


def rerank(logits, candidates):
    scores = jax.vmap(sequence_logprob, in_axes=(None, 0))(logits, candidates)
    return candidates[jnp.argmax(scores)], scores
