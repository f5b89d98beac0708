import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

NOISE_VAR = 1e-2


def rbf(a, b, ell):
    return jnp.exp(-0.5 * ((a[:, None] - b[None, :]) / ell) ** 2)


def smooth(x_new, x, y, ell=0.5):
    """Gaussian process regression on sorted one-dimensional inputs."""
    k = rbf(x, x, ell) + NOISE_VAR * jnp.eye(x.shape[0])
    chol = jnp.linalg.cholesky(k)
    alpha = cho_solve((chol, True), y)
    return rbf(x_new, x, ell) @ alpha
