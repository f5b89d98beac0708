import numpy as np


def summarize_latencies(samples_ms):
    x = np.asarray(samples_ms, dtype=float)
    x = x[x > 0]
    if x.size == 0:
        return {"count": 0}
    gmean = np.exp(np.log(x).mean())
    return {
        "count": int(x.size),
        "median": float(np.median(x)),
        "gmean": float(gmean),
    }
