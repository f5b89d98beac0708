import numpy as np


def channel_stats(frames):
    """Per-channel mean and std of a (time, channel) recording."""
    frames = np.asarray(frames, dtype=np.float32)
    mean = frames.mean(axis=0)
    mean_sq = np.square(frames).mean(axis=0)
    std = np.sqrt(mean_sq - mean ** 2)
    return mean, std
