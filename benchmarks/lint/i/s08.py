import numpy as np

EARTH_RADIUS_M = 6371008.8


def great_circle(lat1, lon1, lat2, lon2):
    lat1, lon1, lat2, lon2 = np.radians([lat1, lon1, lat2, lon2])
    dlon = lon2 - lon1
    c = np.sin(lat1) * np.sin(lat2)
    c += np.cos(lat1) * np.cos(lat2) * np.cos(dlon)
    return EARTH_RADIUS_M * np.arccos(c)


def track_length(lats, lons):
    legs = [great_circle(*p, *q) for p, q in zip(zip(lats, lons), zip(lats[1:], lons[1:]))]
    return float(np.sum(legs))
