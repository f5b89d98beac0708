import numpy as np


def integrate(velocity, dt, steps):
    position = np.zeros(3, dtype=np.float64)
    clock = np.float64(0.0)
    step = np.float64(dt)
    for _ in range(steps):
        position += velocity * step
        clock += step
    return position, float(clock)
