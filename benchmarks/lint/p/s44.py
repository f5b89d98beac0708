import jax.numpy as jnp
from jax import lax
from jax.scipy.special import logsumexp


def sinkhorn_plan(x, y, log_a, log_b, reg=0.01, num_iters=100):
    cost = jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)
    log_k = -cost / reg

    def body(_, fg):
        f, g = fg
        f = log_a - logsumexp(log_k + g[None, :], axis=1)
        g = log_b - logsumexp(log_k + f[:, None], axis=0)
        return f, g

    f, g = lax.fori_loop(0, num_iters, body, (jnp.zeros_like(log_a), jnp.zeros_like(log_b)))
    return jnp.exp(f[:, None] + log_k + g[None, :])
