import jax
import jax.numpy as jnp


def component_log_prob(x, mu, log_scale):
    z = (x[:, None, :] - mu) * jnp.exp(-log_scale)
    return -0.5 * jnp.sum(z * z + 2.0 * log_scale + jnp.log(2.0 * jnp.pi), axis=-1)


def mixture_nll(params, x):
    """Negative log likelihood of a diagonal Gaussian mixture; x has shape (N, D)."""
    weights = jax.nn.softmax(params["logits"])
    lp = component_log_prob(x, params["mu"], params["log_scale"])
    total = jnp.log(jnp.sum(weights * jnp.exp(lp), axis=-1))
    return -jnp.mean(total)
