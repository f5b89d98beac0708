import jax
import jax.numpy as jnp

DTYPE = jnp.float32


def init_state(params):
    zeros = lambda p: jnp.zeros(p.shape, DTYPE)
    return {"m": jax.tree_util.tree_map(zeros, params),
            "v": jax.tree_util.tree_map(zeros, params), "t": 0}


def update_leaf(p, g, m, v, t, lr, eps=1e-6):
    b1 = jnp.asarray(0.9, DTYPE)
    b2 = jnp.asarray(0.999, DTYPE)
    g = g.astype(DTYPE)
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    m_hat = m / (1 - b1 ** t)
    v_hat = v / (1 - b2 ** t)
    return p - lr * m_hat / (jnp.sqrt(v_hat) + eps), m, v


def apply(params, grads, state, lr=1e-3):
    t = state["t"] + 1
    new = {k: update_leaf(params[k], grads[k], state["m"][k], state["v"][k], t, lr)
           for k in params}
    return ({k: n[0] for k, n in new.items()},
            {"m": {k: n[1] for k, n in new.items()},
             "v": {k: n[2] for k, n in new.items()}, "t": t})
