import jax.numpy as jnp


def rotate(rotvec, v):
    theta = jnp.linalg.norm(rotvec)
    small = theta < 1e-4
    half = 0.5 * theta
    a = jnp.where(small, 1.0 - theta ** 2 / 6.0, jnp.sin(theta) / theta)
    b = jnp.where(small, 0.5, 0.5 * (jnp.sin(half) / half) ** 2)
    wv = jnp.cross(rotvec, v)
    return v + a * wv + b * jnp.cross(rotvec, wv)


def alignment_loss(rotvec, source, target):
    return jnp.sum((rotate(rotvec, source) - target) ** 2)
