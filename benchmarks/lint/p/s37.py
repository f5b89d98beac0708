import jax.numpy as jnp
from jax import lax


def sinkhorn_plan(x, y, a, b, reg=0.01, num_iters=100):
    cost = jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)
    gibbs = jnp.exp(-cost / reg)

    def body(_, uv):
        u, v = uv
        u = a / (gibbs @ v)
        v = b / (gibbs.T @ u)
        return u, v

    u, v = lax.fori_loop(0, num_iters, body, (jnp.ones_like(a), jnp.ones_like(b)))
    return u[:, None] * gibbs * v[None, :]
