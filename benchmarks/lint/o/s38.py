from jax import numpy as jnp


def intensity_in_bin(eta, width):
    return width * jnp.exp(jnp.clip(eta, -30.0, 10.0))


def cloglog_nll(params, x, event, width=1.0):
    """Grouped Cox likelihood.

    event is 1 where the failure happened inside the bin.
    """
    eta = x @ params["w"] + params["b"]
    h = intensity_in_bin(eta, width)
    fail = -jnp.expm1(-h)
    log_fail = jnp.log(fail)
    ll = jnp.where(event > 0, log_fail, -h)
    return -ll.mean()
