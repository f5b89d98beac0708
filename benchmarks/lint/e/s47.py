import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def locate_patch(frame, template):
    """Sum of absolute differences of an 8 bit frame against an 8 bit template."""
    frame = np.asarray(frame, dtype=np.uint8).astype(np.int64)
    template = np.asarray(template, dtype=np.uint8)
    windows = sliding_window_view(frame, template.shape)
    diff = np.abs(windows - template)
    score = np.sum(diff, axis=(-2, -1))
    return np.unravel_index(np.argmin(score), score.shape), score
