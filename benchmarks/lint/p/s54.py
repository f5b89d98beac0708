import jax
import jax.numpy as jnp


def policy_entropy(probs):
    plogp = jnp.where(probs > 0, probs * jnp.log(probs), 0.0)
    return -plogp.sum(axis=-1)


def actor_loss(probs, actions, advantages, beta=0.01):
    picked = jnp.take_along_axis(probs, actions[:, None], axis=-1)[:, 0]
    surrogate = picked / jax.lax.stop_gradient(picked + 1e-6) * advantages
    return -jnp.mean(surrogate + beta * policy_entropy(probs))
