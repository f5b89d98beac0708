import jax
import jax.numpy as jnp
import optax


def scale_by_running_rms(decay=0.99, eps=1e-8):
    def init_fn(params):
        return jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)

    def update_fn(updates, nu, params=None):
        del params
        g32 = jax.tree.map(lambda g: g.astype(jnp.float32), updates)
        nu = jax.tree.map(lambda n, g: decay * n + (1.0 - decay) * jnp.square(g), nu, g32)
        scaled = jax.tree.map(lambda g, n: g / (jnp.sqrt(n) + eps), g32, nu)
        return scaled, nu

    return optax.GradientTransformation(init_fn, update_fn)
