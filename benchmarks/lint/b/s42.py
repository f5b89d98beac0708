import numpy as np


def psnr(reference, image):
    """Peak signal to noise ratio of two 8-bit images."""
    a = np.asarray(reference, dtype=np.uint8)
    b = np.asarray(image, dtype=np.uint8)
    mse = np.mean((a - b) ** 2)
    if mse == 0:
        return float("inf")
    return 10.0 * np.log10(255.0 ** 2 / mse)
