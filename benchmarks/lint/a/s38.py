import jax.numpy as jnp
from jax.scipy.linalg import cho_solve


def rbf(a, b, ell):
    return jnp.exp(-0.5 * ((a[:, None] - b[None, :]) / ell) ** 2)


def posterior_mean(x_new, x, y, ell=0.5):
    """Gaussian process regression on sorted one-dimensional inputs."""
    k = rbf(x, x, ell)
    chol = jnp.linalg.cholesky(k)
    alpha = cho_solve((chol, True), y)
    return rbf(x_new, x, ell) @ alpha
