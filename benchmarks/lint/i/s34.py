import jax
import jax.numpy as jnp

STIFFNESS = 30.0
REST = 0.8


def network_energy(pos):
    disp = pos[:, None, :] - pos[None, :, :]
    dist = jnp.linalg.norm(disp, axis=-1)
    off_diag = 1.0 - jnp.eye(pos.shape[0])
    stretch = (dist - REST) * off_diag
    return 0.25 * STIFFNESS * jnp.sum(stretch**2)


forces = jax.jit(lambda pos: -jax.grad(network_energy)(pos))
