import numpy as np


def integrate(velocity, dt, steps):
    position = np.zeros(3, dtype=np.float32)
    clock = np.float32(0.0)
    step = np.float32(dt)
    for _ in range(steps):
        position += velocity * step
        clock += step
    return position, float(clock)
