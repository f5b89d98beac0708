import math


class RunningStats:
    def __init__(self):
        self.n = 0
        self.total = 0
        self.total_sq = 0

    def push(self, reading):
        tick = int(reading)
        self.n += 1
        self.total += tick
        self.total_sq += tick * tick

    def std(self):
        if self.n == 0:
            return 0.0
        num = self.n * self.total_sq - self.total * self.total
        return math.sqrt(num / (self.n * self.n))
