import math

EARTH_RADIUS_M = 6371008.8


def distance_m(lat1, lon1, lat2, lon2):
    """Distance between two GPS fixes given in degrees."""
    p1, p2 = math.radians(lat1), math.radians(lat2)
    dlon = math.radians(lon2 - lon1)
    c = math.sin(p1) * math.sin(p2) + math.cos(p1) * math.cos(p2) * math.cos(dlon)
    return EARTH_RADIUS_M * math.acos(c)


def track_length(fixes):
    total = 0.0
    for (la, lo), (lb, lp) in zip(fixes[:-1], fixes[1:]):
        total += distance_m(la, lo, lb, lp)
    return total
