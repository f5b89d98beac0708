import numpy as np


def load_gray(buf, shape):
    return np.frombuffer(buf, dtype=np.uint8).reshape(shape)


def frame_rmse(buf_a, buf_b, shape):
    a = load_gray(buf_a, shape)
    b = load_gray(buf_b, shape)
    diff = a - b
    return np.sqrt(np.mean(diff ** 2))
