import numpy as np


def thermal_velocities(rng, n, sigma):
    """Maxwellian velocity components for n particles in the plane."""
    u1 = 1.0 - rng.random(n, dtype=np.float32)
    u2 = rng.random(n, dtype=np.float32)
    radius = np.sqrt(-2.0 * np.log(u1))
    angle = 2.0 * np.pi * u2
    vx = sigma * radius * np.cos(angle)
    vy = sigma * radius * np.sin(angle)
    return np.stack([vx, vy], axis=1)
