import jax
import jax.numpy as jnp


def nll_loss(params, batch):
    logits = batch["x"] @ params["w"] + params["b"]
    scores = jax.nn.log_softmax(logits, axis=-1)
    picked = jnp.take_along_axis(scores, batch["y"][:, None], axis=-1)
    return -jnp.mean(picked)


def update(params, batch, lr=1e-2):
    grads = jax.grad(nll_loss)(params, batch)
    return jax.tree_util.tree_map(lambda p, g: p - lr * g, params, grads)
