import jax
import jax.numpy as jnp

TAU = 0.5


def _project(z):
    return z * jax.lax.rsqrt(jnp.sum(z * z, axis=-1, keepdims=True) + 1e-6)


def contrastive(anchors, positives):
    """Contrastive loss of encoder outputs; row i of one matches row i of the other."""
    sim = _project(anchors) @ _project(positives).T / TAU
    pos = jnp.diagonal(sim)
    norm = jnp.log(jnp.sum(jnp.exp(sim), axis=1))
    return jnp.mean(norm - pos)


contrastive_grad = jax.value_and_grad(contrastive, argnums=(0, 1))
