import numpy as np


class EpisodeStore:
    def __init__(self, gamma=0.99):
        self.gamma = np.float32(gamma)
        self.rewards = []

    def add(self, reward):
        self.rewards.append(reward)

    def returns(self):
        """Discounted reward-to-go for every step."""
        r = np.asarray(self.rewards, dtype=np.float32)
        out = np.zeros_like(r)
        tail = np.float32(0.0)
        for t in range(len(r) - 1, -1, -1):
            tail = r[t] + self.gamma * tail
            out[t] = tail
        return out
