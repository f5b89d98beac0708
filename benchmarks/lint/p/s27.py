import jax.numpy as jnp


def hat(w):
    zero = jnp.zeros_like(w[0])
    return jnp.array([[zero, -w[2], w[1]], [w[2], zero, -w[0]], [-w[1], w[0], zero]])


def so3_exp(w):
    theta = jnp.linalg.norm(w)
    K = hat(w)
    a = jnp.sin(theta) / theta
    half = jnp.sin(0.5 * theta) / theta
    b = 2.0 * half ** 2
    return jnp.eye(3) + a * K + b * (K @ K)
