import numpy as np


def mse(a, b):
    diff = a.astype(np.int32) - b
    return np.mean(diff ** 2)


def psnr(a: np.ndarray, b: np.ndarray, peak=255.0):
    """Peak signal to noise ratio of two different images of dtype uint8."""
    assert a.dtype == np.uint8 and b.dtype == np.uint8
    return 10 * np.log10(peak ** 2 / mse(a, b))
