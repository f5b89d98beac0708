import jax.numpy as jnp


def interval_censored_loglik(beta, covariates, exposure, detected):
    """Detection / non-detection data from a Poisson arrival process."""
    eta = covariates @ beta
    cum_hazard = jnp.exp(jnp.clip(eta, -20.0, 5.0)) * exposure
    p_none = jnp.exp(-cum_hazard)
    log_detect = jnp.log(1.0 - p_none)
    ll = jnp.sum(log_detect[detected]) - jnp.sum(cum_hazard[~detected])
    return ll / exposure.shape[0]
