import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr


def probit_nll(params, features, labels):
    """labels in {0, 1}."""
    score = features @ params["w"] + params["b"]
    sign = 2.0 * labels - 1.0
    loglik = log_ndtr(sign * score)
    penalty = 0.5 * jnp.sum(params["w"] ** 2)
    return -jnp.sum(loglik) + penalty


probit_grad = jax.grad(probit_nll)
