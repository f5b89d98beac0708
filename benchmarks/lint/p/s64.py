import jax
import jax.numpy as jnp


def policy_entropy(probs):
    support = probs > 0
    filled = jnp.where(support, probs, 1.0)
    plogp = jnp.where(support, filled * jnp.log(filled), 0.0)
    return -plogp.sum(axis=-1)


def actor_loss(probs, actions, advantages, beta=0.01):
    picked = jnp.take_along_axis(probs, actions[:, None], axis=-1)[:, 0]
    surrogate = picked / jax.lax.stop_gradient(picked + 1e-6) * advantages
    return -jnp.mean(surrogate + beta * policy_entropy(probs))
