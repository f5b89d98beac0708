import jax
import jax.numpy as jnp


def component_log_prob(x, mu, log_scale):
    z = (x[:, None, :] - mu) * jnp.exp(-log_scale)
    return -0.5 * jnp.sum(z * z + 2.0 * log_scale + jnp.log(2.0 * jnp.pi), axis=-1)


def mixture_nll(params, x):
    """Negative log likelihood of a diagonal Gaussian mixture; x has shape (N, D)."""
    log_w = jax.nn.log_softmax(params["logits"])
    lp = log_w + component_log_prob(x, params["mu"], params["log_scale"])
    top = jax.lax.stop_gradient(jnp.max(lp, axis=-1, keepdims=True))
    total = jnp.log(jnp.sum(jnp.exp(lp - top), axis=-1)) + top[..., 0]
    return -jnp.mean(total)
