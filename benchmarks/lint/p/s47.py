import numpy as np


def channel_params(w, bits):
    lo = w.min(axis=1, keepdims=True)
    hi = w.max(axis=1, keepdims=True)
    span = np.where(hi > lo, hi - lo, 1.0)
    return lo, span / (2 ** bits - 1)


def quantize_weights(w, bits=8):
    lo, scale = channel_params(w, bits)
    codes = np.round((w - lo) / scale)
    return codes.astype(np.uint8), scale, lo


def dequantize(codes, scale, lo):
    return codes * scale + lo
