import jax.numpy as jnp


def volume_render(rgb, sigma, t_vals):
    """Composite samples along rays.

    rgb: [R, S, 3], sigma: [R, S], t_vals: [R, S + 1]
    """
    delta = t_vals[..., 1:] - t_vals[..., :-1]
    alpha = -jnp.expm1(-sigma * delta)
    log_free = jnp.log(1.0 - alpha)
    trans = jnp.exp(jnp.cumsum(log_free[..., :-1], axis=-1))
    trans = jnp.concatenate([jnp.ones_like(trans[..., :1]), trans], axis=-1)
    weights = alpha * trans
    color = jnp.einsum("rs,rsc->rc", weights, rgb)
    return color, weights
