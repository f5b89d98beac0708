import numpy as np

EARTH_RADIUS = 6371008.8


def track_distances(lat, lon):
    """Metres between consecutive fixes of a track, degrees in."""
    phi, lam = np.radians(lat), np.radians(lon)
    dphi, dlam = np.diff(phi), np.diff(lam)
    h = np.sin(dphi / 2) ** 2 + np.cos(phi[1:]) * np.cos(phi[:-1]) * np.sin(dlam / 2) ** 2
    return 2 * EARTH_RADIUS * np.arctan2(np.sqrt(h), np.sqrt(np.maximum(1 - h, 0.0)))
