def jitter_variance(ticks):
    """Sample variance of a list of timer ticks in nanoseconds since the epoch."""
    ticks = [int(t) for t in ticks]
    n = len(ticks)
    s = sum(ticks)
    s2 = sum(t * t for t in ticks)
    return (n * s2 - s * s) / (n * (n - 1))


def jitter_report(channels):
    return {name: jitter_variance(ticks) ** 0.5 for name, ticks in channels.items()}
