import math


class RunningStats:
    def __init__(self):
        self.n = 0
        self.total = 0.0
        self.total_sq = 0.0

    def push(self, reading):
        self.n += 1
        self.total += float(reading)
        self.total_sq += float(reading) ** 2

    def std(self):
        if self.n == 0:
            return 0.0
        mean = self.total / self.n
        mean_sq = self.total_sq / self.n
        var = mean_sq - mean * mean
        return math.sqrt(var)
