import jax.numpy as jnp
from jax.scipy.stats import norm


def tobit_loglik(beta, log_sigma, X, y, limit):
    """Right-censored linear regression."""
    sigma = jnp.exp(log_sigma)
    mean = X @ beta
    z = (jnp.minimum(y, limit) - mean) / sigma
    observed = norm.logpdf(z) - log_sigma
    tail = 1.0 - norm.cdf(z)
    censored = jnp.log(tail)
    return jnp.sum(jnp.where(y >= limit, censored, observed))
