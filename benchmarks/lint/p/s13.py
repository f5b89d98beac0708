import jax.numpy as jnp


def interval_censored_loglik(beta, covariates, exposure, detected):
    """Detection / non-detection data from a Poisson arrival process."""
    eta = covariates @ beta
    cum_hazard = jnp.exp(jnp.clip(eta, -20.0, 5.0)) * jnp.maximum(exposure, 1e-3)
    p_some = -jnp.expm1(-cum_hazard)
    log_detect = jnp.log(p_some)
    ll = jnp.sum(log_detect[detected]) - jnp.sum(cum_hazard[~detected])
    return ll / exposure.shape[0]
