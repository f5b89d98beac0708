import numpy as np

EARTH_RADIUS_M = 6371008.8


def great_circle(lat1, lon1, lat2, lon2):
    lat1, lon1, lat2, lon2 = np.radians([lat1, lon1, lat2, lon2])
    dlat = lat2 - lat1
    dlon = lon2 - lon1
    h = np.sin(0.5 * dlat) ** 2
    h += np.cos(lat1) * np.cos(lat2) * np.sin(0.5 * dlon) ** 2
    h = np.clip(h, 0.0, 1.0)
    return 2.0 * EARTH_RADIUS_M * np.arcsin(np.sqrt(h))


def track_length(lats, lons):
    legs = [great_circle(*p, *q) for p, q in zip(zip(lats, lons), zip(lats[1:], lons[1:]))]
    return float(np.sum(legs))
