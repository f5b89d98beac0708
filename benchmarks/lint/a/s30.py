import jax
import jax.numpy as jnp


def cosine_loss(params, feats, targets, eps=1e-8):
    """One minus the mean cosine; feats is padded with zero rows."""
    a = feats @ params
    num = jnp.sum(a * targets, axis=-1)
    den = jnp.linalg.norm(a, axis=-1) * jnp.linalg.norm(targets, axis=-1)
    return 1.0 - jnp.mean(num / (den + eps))


cosine_grad = jax.grad(cosine_loss)
