import numpy as np


class DrivenOscillator:
    """Damped oscillator with a sinusoidal drive."""

    def __init__(self, omega, damping, drive_hz, dt=1e-3):
        self.omega, self.damping, self.drive_hz = omega, damping, drive_hz
        self.dt = np.float32(dt)
        self.t = np.float32(0.0)
        self.x, self.v = 1.0, 0.0

    def step(self):
        force = np.sin(2.0 * np.pi * self.drive_hz * self.t)
        acc = force - self.omega ** 2 * self.x - self.damping * self.v
        self.v += acc * self.dt
        self.x += self.v * self.dt
        self.t += self.dt

    def run(self, n):
        for _ in range(n):
            self.step()
        return self.x, self.t
