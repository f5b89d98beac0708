import jax
import jax.numpy as jnp

SOFT = 0.05


def plummer_energy(pos, rest=1.0, k=10.0):
    """Energy of beads that are all joined by springs, pos is (n, 3)."""
    n = pos.shape[0]
    delta = pos[:, None, :] - pos[None, :, :]
    r = jnp.sqrt(jnp.sum(delta ** 2, axis=-1) + SOFT ** 2)
    offdiag = 1.0 - jnp.eye(n)
    return 0.25 * k * jnp.sum(offdiag * (r - rest) ** 2)


@jax.jit
def accelerations(pos):
    return -jax.grad(plummer_energy)(pos)
