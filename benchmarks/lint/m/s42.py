import math

GRAVITY = 9.81


class Pendulum:
    def __init__(self, mass, length):
        self.mass = mass
        self.length = length

    def potential(self, theta):
        lift = 1.0 - math.cos(theta)
        return self.mass * GRAVITY * self.length * lift

    def kinetic(self, omega):
        return 0.5 * self.mass * (self.length * omega) ** 2
