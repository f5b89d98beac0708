import numpy as np

EARTH_RADIUS = 6371008.8


def distance(lat1, lon1, lat2, lon2):
    """Great circle distance in metres between points given in degrees."""
    p1, l1, p2, l2 = map(np.radians, (lat1, lon1, lat2, lon2))
    h = np.sin((p2 - p1) / 2) ** 2 + np.cos(p1) * np.cos(p2) * np.sin((l2 - l1) / 2) ** 2
    return 2 * EARTH_RADIUS * np.arcsin(np.sqrt(np.minimum(h, 1.0)))


def track_length(lat, lon):
    return np.sum(distance(lat[:-1], lon[:-1], lat[1:], lon[1:]))
