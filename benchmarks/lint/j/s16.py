import jax
import jax.numpy as jnp


def pair_distances(positions):
    delta = positions[:, None, :] - positions[None, :, :]
    r2 = jnp.sum(delta**2, axis=-1)
    apart = r2 > 0.0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, r2, 1.0)), 0.0)


def spring_energy(positions, rest_length=1.0, k=10.0):
    n = positions.shape[0]
    r = pair_distances(positions)
    off_diagonal = 1.0 - jnp.eye(n)
    stretch = (r - rest_length) * off_diagonal
    return 0.25 * k * jnp.sum(stretch**2)


forces = jax.jit(jax.grad(lambda x: -spring_energy(x)))
