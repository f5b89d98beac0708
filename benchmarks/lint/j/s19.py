import jax
import jax.numpy as jnp


def predict(params, x):
    w, b = params["w"], params["b"]
    return x @ w + b


def logistic_loss(params, x, labels):
    """labels are in {-1, +1}"""
    z = -labels * predict(params, x)
    growth = jnp.exp(z)
    per_example = jnp.log(1.0 + growth)
    return per_example.mean()


@jax.jit
def sgd_step(params, x, labels, lr=0.1):
    grads = jax.grad(logistic_loss)(params, x, labels)
    return jax.tree_util.tree_map(lambda p, g: p - lr * g, params, grads)
