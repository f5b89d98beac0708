import numpy as np


def summarize_latencies(samples_ms):
    x = np.asarray(samples_ms, dtype=float)
    x = x[x > 0]
    if x.size == 0:
        return {"count": 0}
    gmean = np.prod(x) ** (1.0 / x.size)
    return {
        "count": int(x.size),
        "median": float(np.median(x)),
        "gmean": float(gmean),
    }
