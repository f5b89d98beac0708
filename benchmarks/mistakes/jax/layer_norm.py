"""Layer normalisation over the last axis with gain and bias."""
import jax
import jax.numpy as jnp

EPS = 1e-5


def _stats(x):
    mu = x.mean(axis=-1, keepdims=True)
    rstd = jax.lax.rsqrt(x.var(axis=-1, keepdims=True) + EPS)
    return mu, rstd


@jax.custom_vjp
def layer_norm(x, gamma, beta):
    """x: (n, d), gamma: (d,), beta: (d,) -> (n, d)"""
    mu, rstd = _stats(x)
    return (x - mu) * rstd * gamma + beta


def layer_norm_fwd(x, gamma, beta):
    mu, rstd = _stats(x)
    xhat = (x - mu) * rstd
    return xhat * gamma + beta, (xhat, rstd, gamma)


def layer_norm_bwd(res, dy):
    xhat, rstd, gamma = res
    dgamma = jnp.sum(dy * xhat, axis=0)
    dbeta = jnp.sum(dy, axis=0)
    dxhat = dy * gamma
    m1 = jnp.mean(dxhat, axis=0, keepdims=True)
    m2 = jnp.mean(dxhat * xhat, axis=-1, keepdims=True)
    dx = rstd * (dxhat - m1 - xhat * m2)
    return dx, dgamma, dbeta


layer_norm.defvjp(layer_norm_fwd, layer_norm_bwd)
