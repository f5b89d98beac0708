import jax.numpy as jnp


def log_survival(hazard):
    h = jnp.clip(hazard, 0.0, 0.999)
    alive = jnp.cumprod(1.0 - h, axis=-1)
    return jnp.log(alive)


def censored_nll(hazard, last_step):
    logs = log_survival(hazard)
    picked = jnp.take_along_axis(logs, last_step[:, None], axis=-1)
    return -jnp.mean(picked)
