import jax
import jax.numpy as jnp


def shannon_entropy(p, axis=-1):
    occupied = p > 0
    logp = jnp.log(jnp.where(occupied, p, 1.0))
    plogp = jnp.where(occupied, p * logp, 0.0)
    return -plogp.sum(axis=axis)


def mutual_information(joint):
    px = joint.sum(axis=1)
    py = joint.sum(axis=0)
    return shannon_entropy(px) + shannon_entropy(py) - shannon_entropy(joint.ravel())


info_grad = jax.grad(mutual_information)
