import jax
import jax.numpy as jnp


def repulsion_energy(positions, length=1.0):
    delta = positions[:, None, :] - positions[None, :, :]
    dist = jnp.sqrt(jnp.sum(delta ** 2, axis=-1))
    pair = jnp.exp(-dist / length)
    mask = 1.0 - jnp.eye(positions.shape[0])
    return 0.5 * jnp.sum(pair * mask)


forces = jax.grad(lambda x: -repulsion_energy(x))
