import jax
import jax.numpy as jnp

TAU = 0.1


def info_nce(anchors, positives):
    """Contrastive loss of encoder outputs; row i of one matches row i of the other."""
    sim = anchors @ positives.T / TAU
    pos = jnp.diagonal(sim)
    norm = jnp.log(jnp.sum(jnp.exp(sim), axis=1))
    return jnp.mean(norm - pos)


info_nce_grad = jax.value_and_grad(info_nce, argnums=(0, 1))
