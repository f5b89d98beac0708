import jax
import jax.numpy as jnp


def quaternion_dot(q, p):
    return jnp.abs(jnp.sum(q * p, axis=-1))


def geodesic_angle(q, target):
    cosine = jnp.clip(quaternion_dot(q, target), 0.0, 1.0)
    return 2.0 * jnp.arccos(cosine)


def rotation_loss(q, target):
    return jnp.mean(geodesic_angle(q, target))


rotation_grad = jax.grad(rotation_loss)
