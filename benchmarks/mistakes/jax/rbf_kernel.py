"""Squared-exponential covariance with a scalar lengthscale."""
import jax
import jax.numpy as jnp


@jax.custom_vjp
def rbf_kernel(x, z, ell):
    """x: (n, d), z: (m, d), ell: scalar. Returns the (n, m) kernel matrix."""
    diff = x[:, None] - z[None]
    return jnp.exp(-0.5 * jnp.sum(diff**2, -1) / ell**2)


def rbf_fwd(x, z, ell):
    diff = x[:, None] - z[None]
    sq = jnp.sum(diff**2, -1)
    K = jnp.exp(-0.5 * sq / ell**2)
    return K, (diff, sq, K, ell)


def rbf_bwd(res, Kbar):
    diff, sq, K, ell = res
    gk = Kbar * K
    pairs = gk[..., None] * diff / ell**2
    x_bar = -pairs.sum(1)
    z_bar = pairs.sum(0)
    ell_bar = jnp.sum(gk * sq) / ell**2
    return x_bar, z_bar, ell_bar


rbf_kernel.defvjp(rbf_fwd, rbf_bwd)
