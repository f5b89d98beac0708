import math

G = 9.80665


class Pendulum:
    def __init__(self, mass, length):
        self.mass = mass
        self.length = length

    def height(self, theta):
        c = math.cos(theta)
        return self.length * (1.0 - c)

    def energy(self, theta, omega):
        kinetic = 0.5 * self.mass * (self.length * omega) ** 2
        return kinetic + self.mass * G * self.height(theta)
