import math

G = 9.80665


class Pendulum:
    def __init__(self, mass, length):
        self.mass = mass
        self.length = length

    def height(self, theta):
        s = math.sin(0.5 * theta)
        return self.length * (2.0 * s * s)

    def energy(self, theta, omega):
        kinetic = 0.5 * self.mass * (self.length * omega) ** 2
        return kinetic + self.mass * G * self.height(theta)
