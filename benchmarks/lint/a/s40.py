import jax.numpy as jnp


def skew(w):
    return jnp.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])


def rotvec_to_matrix(w):
    """Rotation matrix of a rotation vector, zero is the identity."""
    t2 = jnp.dot(w, w)
    small = t2 < 1e-4
    theta = jnp.sqrt(jnp.where(small, 1.0, t2))
    a = jnp.where(small, 1.0 - t2 / 6.0, jnp.sin(theta) / theta)
    b = jnp.where(small, 0.5 - t2 / 24.0, 2.0 * (jnp.sin(theta / 2) / theta) ** 2)
    k = skew(w)
    return jnp.eye(3) + a * k + b * (k @ k)
