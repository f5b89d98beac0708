import jax
import jax.numpy as jnp


def preference_loss(params, chosen, rejected, beta=1.0):
    r_chosen = chosen @ params["w"] + params["b"]
    r_rejected = rejected @ params["w"] + params["b"]
    margin = beta * (r_chosen - r_rejected)
    return jnp.mean(jnp.logaddexp(0.0, -margin))


step = jax.jit(jax.value_and_grad(preference_loss))
