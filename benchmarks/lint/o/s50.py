from jax import numpy as jnp


def interval_intensity(eta, dt):
    return dt * jnp.exp(jnp.clip(eta, -30.0, 10.0))


def survival_nll(params, x, event, dt=1.0):
    """Discrete-time Cox likelihood.

    event is 1 where the failure happened inside the interval.
    """
    eta = x @ params["w"] + params["b"]
    h = interval_intensity(eta, dt)
    p_survive = jnp.exp(-h)
    log_fail = jnp.log(1.0 - p_survive)
    ll = jnp.where(event > 0, log_fail, -h)
    return -ll.mean()
