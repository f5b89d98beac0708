import jax.numpy as jnp


def log_survival(hazard):
    h = jnp.clip(hazard, 0.0, 0.999)
    step = jnp.log1p(-h)
    return jnp.cumsum(step, axis=-1)


def censored_nll(hazard, last_step):
    logs = log_survival(hazard)
    picked = jnp.take_along_axis(logs, last_step[:, None], axis=-1)
    return -jnp.mean(picked)
