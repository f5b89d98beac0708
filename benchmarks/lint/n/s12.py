import numpy as np


def simulate(x0, rate, steps, dt=1e-3):
    clock = np.float32(0.0)
    step = np.float32(dt)
    x = float(x0)
    for _ in range(steps):
        x += dt * rate * np.cos(clock)
        clock += step
    return x, clock
