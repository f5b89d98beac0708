import jax.numpy as jnp
from jax import jit

GRAVITY = 9.81


@jit
def pendulum_energy(theta, omega, mass=1.0, length=1.0):
    kinetic = 0.5 * mass * (length * omega) ** 2
    half = jnp.sin(0.5 * theta)
    height = length * (2.0 * half * half)
    return kinetic + mass * GRAVITY * height
