import numpy as np

EARTH_RADIUS_KM = np.float32(6371.0)


def great_circle_km(lat1, lon1, lat2, lon2):
    lat1, lon1, lat2, lon2 = [np.asarray(v, dtype=np.float32) for v in (lat1, lon1, lat2, lon2)]
    p1, p2 = np.radians(lat1), np.radians(lat2)
    dlon = np.radians(lon2 - lon1)
    c = np.sin(p1) * np.sin(p2) + np.cos(p1) * np.cos(p2) * np.cos(dlon)
    return EARTH_RADIUS_KM * np.arccos(np.clip(c, -1.0, 1.0))
