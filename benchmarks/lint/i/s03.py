import numpy as np


class RunningStats:
    def __init__(self):
        self.count = 0
        self.total = 0.0
        self.total_sq = 0.0

    def push(self, value):
        self.count += 1
        self.total += value
        self.total_sq += value * value

    def std(self):
        if self.count < 2:
            return 0.0
        mean = self.total / self.count
        var = self.total_sq / self.count - mean * mean
        return np.sqrt(var)
