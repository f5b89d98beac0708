import jax
from jax import lax
import jax.numpy as jnp


def alignment_loss(params, feats, targets, eps=1e-8):
    """One minus the mean cosine; feats is padded with zero rows."""
    a = feats @ params
    num = jnp.sum(a * targets, axis=-1)
    ra = lax.rsqrt(jnp.maximum(jnp.sum(a * a, axis=-1), eps))
    rt = lax.rsqrt(jnp.maximum(jnp.sum(targets * targets, axis=-1), eps))
    return 1.0 - jnp.mean(num * ra * rt)


alignment_grad = jax.grad(alignment_loss)
