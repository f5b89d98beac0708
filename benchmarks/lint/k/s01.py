import jax
import jax.numpy as jnp


def spring_energy(pos, edges, rest, k=10.0):
    disp = pos[edges[:, 0]] - pos[edges[:, 1]]
    length = jnp.linalg.norm(disp, axis=-1)
    return 0.5 * k * jnp.sum((length - rest) ** 2)


def forces(pos, edges, rest):
    return -jax.grad(spring_energy)(pos, edges, rest)


def euler_step(pos, vel, edges, rest, dt=1e-2):
    vel = vel + dt * forces(pos, edges, rest)
    return pos + dt * vel, vel
