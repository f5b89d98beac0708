import jax.numpy as jnp


def relative(r_pred, r_true):
    return jnp.einsum("bji,bjk->bik", r_pred, r_true)


def geodesic_loss(r_pred, r_true):
    rel = relative(r_pred, r_true)
    trace = jnp.trace(rel, axis1=-2, axis2=-1)
    cos_angle = 0.5 * (trace - 1.0)
    angle = jnp.arccos(cos_angle)
    return jnp.mean(angle)
