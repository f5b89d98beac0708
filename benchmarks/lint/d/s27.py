import jax.numpy as jnp
from jax import grad


def spring_energy(pos, adjacency, rest=1.0, k=4.0):
    """Elastic energy of a network; pos (N, 3), adjacency (N, N) with zero diagonal."""
    delta = pos[:, None, :] - pos[None, :, :]
    dist = jnp.sqrt(jnp.sum(delta ** 2, axis=-1))
    stretch = adjacency * (dist - rest) ** 2
    return 0.25 * k * jnp.sum(stretch)


def forces(pos, adjacency):
    return -grad(spring_energy)(pos, adjacency)
