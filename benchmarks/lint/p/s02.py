import jax.numpy as jnp


def hat(w):
    zero = jnp.zeros_like(w[0])
    return jnp.array([[zero, -w[2], w[1]], [w[2], zero, -w[0]], [-w[1], w[0], zero]])


def so3_exp(w):
    sq = jnp.dot(w, w)
    tiny = sq < 1e-6
    theta = jnp.sqrt(jnp.where(tiny, 1.0, sq))
    K = hat(w)
    a = jnp.where(tiny, 1.0 - sq / 6.0, jnp.sin(theta) / theta)
    half = jnp.where(tiny, 0.5 - sq / 48.0, jnp.sin(0.5 * theta) / theta)
    b = 2.0 * half ** 2
    return jnp.eye(3) + a * K + b * (K @ K)
