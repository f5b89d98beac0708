import jax.numpy as jnp

EPS = 1e-6


def binary_log_loss(y_true, y_prob):
    """Binary cross entropy of predicted probabilities (float32)."""
    y_prob = jnp.asarray(y_prob, dtype=jnp.float32)
    p = jnp.clip(y_prob, EPS, 1.0 - EPS)
    per_item = y_true * jnp.log(p) + (1.0 - y_true) * jnp.log1p(-p)
    return -jnp.mean(per_item)
