import jax.numpy as jnp


def hat(w):
    return jnp.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])


def so3_exp(w):
    """Rotation matrix of a rotation vector, zero is the identity."""
    theta = jnp.sqrt(jnp.dot(w, w))
    k = hat(w / theta)
    return jnp.eye(3) + jnp.sin(theta) * k + 2 * jnp.sin(theta / 2) ** 2 * (k @ k)
