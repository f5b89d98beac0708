import jax
import jax.numpy as jnp

STIFFNESS = 30.0
REST = 0.8


def network_energy(pos):
    disp = pos[:, None, :] - pos[None, :, :]
    d2 = jnp.sum(disp**2, axis=-1)
    apart = d2 > 0.0
    dist = jnp.where(apart, jnp.sqrt(jnp.where(apart, d2, 1.0)), 0.0)
    off_diag = 1.0 - jnp.eye(pos.shape[0])
    stretch = (dist - REST) * off_diag
    return 0.25 * STIFFNESS * jnp.sum(stretch**2)


forces = jax.jit(lambda pos: -jax.grad(network_energy)(pos))
