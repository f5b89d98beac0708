import numpy as np


def read_luma(buf, shape):
    return np.frombuffer(buf, dtype=np.uint8).reshape(shape)


def luma_rmse(buf_a, buf_b, shape):
    a = read_luma(buf_a, shape).astype(np.int32)
    b = read_luma(buf_b, shape).astype(np.int32)
    diff = a - b
    return np.sqrt(np.mean(diff ** 2))
