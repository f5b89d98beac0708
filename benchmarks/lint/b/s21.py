import jax
import jax.numpy as jnp


def electrostatic(pos, charge):
    disp = pos[:, None, :] - pos[None, :, :]
    off = ~jnp.eye(pos.shape[0], dtype=bool)
    r2 = jnp.where(off, jnp.sum(disp ** 2, axis=-1), 1.0)
    inv_r = jnp.where(off, 1.0 / jnp.sqrt(r2), 0.0)
    return 0.5 * jnp.sum(charge[:, None] * charge[None, :] * inv_r)


def forces(pos, charge):
    return -jax.grad(electrostatic)(pos, charge)
