from typing import NamedTuple

import jax
import jax.numpy as jnp


class Pendulum(NamedTuple):
    mass: float = 1.0
    length: float = 1.0
    gravity: float = 9.81


@jax.jit
def potential(theta, p=Pendulum()):
    half = jnp.sin(0.5 * theta)
    height = p.length * 2.0 * half * half
    return p.mass * p.gravity * height


def energy(theta, omega, p=Pendulum()):
    kinetic = 0.5 * p.mass * (p.length * omega) ** 2
    return kinetic + potential(theta, p)
