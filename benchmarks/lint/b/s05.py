import numpy as np

EARTH_RADIUS_KM = np.float32(6371.0)


def surface_distance_km(lat1, lon1, lat2, lon2):
    lat1, lon1, lat2, lon2 = [np.asarray(v, dtype=np.float32) for v in (lat1, lon1, lat2, lon2)]
    p1, p2 = np.radians(lat1), np.radians(lat2)
    dlat, dlon = np.radians(lat2 - lat1), np.radians(lon2 - lon1)
    h = np.sin(dlat / 2) ** 2 + np.cos(p1) * np.cos(p2) * np.sin(dlon / 2) ** 2
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(h, 0.0, 1.0)))
