import jax
import jax.numpy as jnp


def classification_loss(params, batch):
    logits = batch["x"] @ params["w"] + params["b"]
    probs = jax.nn.softmax(logits, axis=-1)
    picked = jnp.take_along_axis(probs, batch["y"][:, None], axis=-1)
    return -jnp.mean(jnp.log(picked))


def sgd_step(params, batch, lr=1e-2):
    grads = jax.grad(classification_loss)(params, batch)
    return jax.tree_util.tree_map(lambda p, g: p - lr * g, params, grads)
