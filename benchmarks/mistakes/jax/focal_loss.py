"""Binary focal loss on logits (Lin et al. 2017), per example."""
import jax
import jax.numpy as jnp

GAMMA = 2.0


@jax.custom_gradient
def focal_loss(logits, sign):
    """logits: (n,), sign: (n,) with +1 for positives and -1 for negatives."""
    z = sign * logits
    p = jax.nn.sigmoid(z)
    logp = jax.nn.log_sigmoid(z)
    loss = -((1.0 - p) ** GAMMA) * logp

    def grad(upstream):
        dz = -((1.0 - p) ** (GAMMA + 1.0))
        return upstream * dz * sign, upstream * dz * logits

    return loss, grad
