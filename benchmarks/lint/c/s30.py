import numpy as np


def psnr(reference, output, peak=255.0):
    a = np.asarray(reference, dtype=np.uint8)
    b = np.asarray(output, dtype=np.uint8)
    mse = np.mean((a - b) ** 2)
    if mse == 0:
        return 100.0
    return 10.0 * np.log10(peak ** 2 / mse)
