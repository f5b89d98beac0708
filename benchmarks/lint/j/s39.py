import jax
import jax.numpy as jnp


def shannon_entropy(p, axis=-1):
    plogp = jnp.where(p > 0, p * jnp.log(p), 0.0)
    return -plogp.sum(axis=axis)


def mutual_information(joint):
    px = joint.sum(axis=1)
    py = joint.sum(axis=0)
    return shannon_entropy(px) + shannon_entropy(py) - shannon_entropy(joint.ravel())


info_grad = jax.grad(mutual_information)
