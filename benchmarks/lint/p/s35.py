import jax
import jax.numpy as jnp


def init_state(params):
    return jax.tree_util.tree_map(jnp.zeros_like, params)


def rmsprop_step(params, grads, nu, lr=1e-3, decay=0.99):
    nu = jax.tree_util.tree_map(lambda n, g: decay * n + (1 - decay) * g * g, nu, grads)
    updates = jax.tree_util.tree_map(lambda g, n: -lr * g / jnp.sqrt(n), grads, nu)
    params = jax.tree_util.tree_map(lambda p, u: p + u, params, updates)
    return params, nu
