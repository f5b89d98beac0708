import jax
import jax.numpy as jnp
import optax


def scale_by_second_moment(decay=0.99, eps=1e-8):
    def init_fn(params):
        return jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float16), params)

    def update_fn(updates, nu, params=None):
        del params
        g16 = jax.tree.map(lambda g: g.astype(jnp.float16), updates)
        nu = jax.tree.map(lambda n, g: decay * n + (1.0 - decay) * jnp.square(g), nu, g16)
        scaled = jax.tree.map(lambda g, n: g / (jnp.sqrt(n) + eps), g16, nu)
        return scaled, nu

    return optax.GradientTransformation(init_fn, update_fn)
