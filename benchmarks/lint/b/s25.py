import jax
import jax.numpy as jnp


def coulomb_energy(pos, charge):
    disp = pos[:, None, :] - pos[None, :, :]
    r2 = jnp.sum(disp ** 2, axis=-1)
    off = ~jnp.eye(pos.shape[0], dtype=bool)
    inv_r = jnp.where(off, 1.0 / jnp.sqrt(r2), 0.0)
    return 0.5 * jnp.sum(charge[:, None] * charge[None, :] * inv_r)


def forces(pos, charge):
    return -jax.grad(coulomb_energy)(pos, charge)
