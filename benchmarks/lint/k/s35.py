import jax
import jax.numpy as jnp


def spring_energy(pos, edges, rest, k=10.0):
    disp = pos[edges[:, 0]] - pos[edges[:, 1]]
    sq = jnp.sum(disp * disp, axis=-1)
    apart = sq > 0
    length = jnp.where(apart, jnp.sqrt(jnp.where(apart, sq, 1.0)), 0.0)
    return 0.5 * k * jnp.sum((length - rest) ** 2)


def forces(pos, edges, rest):
    return -jax.grad(spring_energy)(pos, edges, rest)


def euler_step(pos, vel, edges, rest, dt=1e-2):
    vel = vel + dt * forces(pos, edges, rest)
    return pos + dt * vel, vel
