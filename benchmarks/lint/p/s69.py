import jax.numpy as jnp


def regression_objective(params, apply_fn, batch, l2=1e-4):
    preds = apply_fn(params, batch["x"])
    resid = jnp.abs(preds - batch["y"])
    data_term = jnp.mean(resid + jnp.log1p(jnp.exp(-2.0 * resid)) - jnp.log(2.0))
    reg = sum(jnp.sum(p ** 2) for p in params.values())
    return data_term + l2 * reg
