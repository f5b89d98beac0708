import numpy as np


class RolloutBuffer:
    def __init__(self, gamma=0.99):
        self.gamma = np.float32(gamma)
        self.rewards = []

    def add(self, reward):
        self.rewards.append(reward)

    def returns(self):
        """Discounted reward-to-go for every step."""
        r = np.asarray(self.rewards, dtype=np.float32)
        disc = self.gamma ** np.arange(len(r), dtype=np.float32)
        tail = np.cumsum((r * disc)[::-1])[::-1]
        return tail / disc
