import numpy as np

EARTH_RADIUS = 6371008.8


def step_lengths(lat, lon):
    """Metres between consecutive fixes of a track, degrees in."""
    phi, lam = np.radians(lat), np.radians(lon)
    dlam = np.diff(lam)
    c = np.sin(phi[1:]) * np.sin(phi[:-1]) + np.cos(phi[1:]) * np.cos(phi[:-1]) * np.cos(dlam)
    return EARTH_RADIUS * np.arccos(c)
