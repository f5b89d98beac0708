import jax.numpy as jnp
from jax.nn import softplus
from jax.scipy.special import i0


def torsion_nll(pred, target_angle):
    """pred[..., 0] is the mean angle, pred[..., 1] the raw concentration."""
    mu = pred[..., 0]
    kappa = softplus(pred[..., 1]) + 1e-3
    log_norm = jnp.log(2.0 * jnp.pi * i0(kappa))
    return jnp.mean(log_norm - kappa * jnp.cos(target_angle - mu))
