"""Swish with a trainable slope."""
import jax
import jax.numpy as jnp


@jax.custom_gradient
def swish_beta(x, beta):
    """x * sigmoid(beta * x).

    x: (batch, features), beta: scalar. Returns (batch, features).
    """
    s = jax.nn.sigmoid(beta * x)

    def pullback(ct):
        ds = s * (1.0 - s)
        ct_x = ct * (s + beta * x * ds)
        ct_beta = jnp.sum(ct * x * ds)
        return ct_x, ct_beta

    return x * s, pullback
