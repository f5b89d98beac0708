"""Softened Coulomb potential q / sqrt(r^2 + a^2)."""
import tensorflow as tf

SOFTENING = 0.4


@tf.custom_gradient
def soft_coulomb(r, q):
    """r, q: (n,). Returns (n,)."""
    d2 = r * r + SOFTENING**2
    v = q / tf.sqrt(d2)

    def grad(dv):
        dr = -dv * q * r * d2 ** -0.5
        dq = dv / tf.sqrt(d2)
        return dr, dq

    return v, grad
