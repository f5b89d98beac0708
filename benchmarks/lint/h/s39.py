import numpy as np


def mse(ref, out):
    """ref, out: 8-bit images of one shape."""
    ref = np.asarray(ref, dtype=np.uint8)
    out = np.asarray(out, dtype=np.uint8)
    diff = ref - out
    return np.mean(diff ** 2)


def psnr(ref, out, peak=255.0):
    err = mse(ref, out)
    if err == 0:
        return np.inf
    return 10.0 * np.log10(peak ** 2 / err)
