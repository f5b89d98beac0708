import math

R_EARTH = 6371008.8


def gps_distance(lat1, lon1, lat2, lon2):
    """Metres between two fixes in degrees."""
    p1, p2 = math.radians(lat1), math.radians(lat2)
    dlat = math.radians(lat2 - lat1)
    dlon = math.radians(lon2 - lon1)
    s = math.sin(dlat / 2) ** 2 + math.cos(p1) * math.cos(p2) * math.sin(dlon / 2) ** 2
    return 2 * R_EARTH * math.asin(math.sqrt(min(1.0, s)))


def path_length(fixes):
    total = 0.0
    for (la, lo), (lb, lp) in zip(fixes[:-1], fixes[1:]):
        total += gps_distance(la, lo, lb, lp)
    return total
