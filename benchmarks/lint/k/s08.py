import numpy as np


def channel_stats(frames):
    """Per-channel mean and std of a (time, channel) recording."""
    frames = np.asarray(frames, dtype=np.float32)
    mean = frames.mean(axis=0)
    centered_sq = np.square(frames - mean).mean(axis=0)
    std = np.sqrt(centered_sq)
    return mean, std
