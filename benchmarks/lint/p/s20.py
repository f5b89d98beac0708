import numpy as np


def channel_params(w, bits):
    lo = w.min(axis=1, keepdims=True)
    hi = w.max(axis=1, keepdims=True)
    scale = (hi - lo) / (2 ** bits - 1)
    return lo, scale


def quantize_weights(w, bits=8):
    lo, scale = channel_params(w, bits)
    codes = np.round((w - lo) / scale)
    return codes.astype(np.uint8), scale, lo


def dequantize(codes, scale, lo):
    return codes * scale + lo
