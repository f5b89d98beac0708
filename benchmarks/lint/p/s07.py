import jax.numpy as jnp


def regression_objective(params, apply_fn, batch, l2=1e-4):
    preds = apply_fn(params, batch["x"])
    resid = preds - batch["y"]
    data_term = jnp.mean(jnp.log(jnp.cosh(resid)))
    reg = sum(jnp.sum(p ** 2) for p in params.values())
    return data_term + l2 * reg
