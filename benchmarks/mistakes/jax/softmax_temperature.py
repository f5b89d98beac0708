"""Row softmax with a learned temperature."""
import jax
import jax.numpy as jnp


@jax.custom_vjp
def softmax_temperature(logits, tau):
    """logits: (n, c), tau: scalar > 0. Returns probabilities (n, c)."""
    return jax.nn.softmax(logits / tau, axis=-1)


def _st_fwd(logits, tau):
    p = jax.nn.softmax(logits / tau, axis=-1)
    return p, (p, logits, tau)


def _st_bwd(res, upstream):
    p, logits, tau = res
    inner = jnp.sum(upstream * p, axis=-1, keepdims=True)
    ds = p * (upstream - inner)
    d_tau = -jnp.sum(ds * logits) / tau**2
    d_logits = ds
    return d_logits, d_tau


softmax_temperature.defvjp(_st_fwd, _st_bwd)
