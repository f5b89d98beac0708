import numpy as np


class StationInterpolator:
    def __init__(self, coords_km, readings, power=2.0):
        self.coords = np.asarray(coords_km, dtype=float)
        self.readings = np.asarray(readings, dtype=float)
        self.power = power

    def _distances(self, points):
        delta = points[:, None, :] - self.coords[None, :, :]
        return np.maximum(np.sqrt((delta ** 2).sum(axis=-1)), 1e-3)

    def __call__(self, points_km):
        dist = self._distances(np.atleast_2d(points_km))
        w = 1.0 / dist ** self.power
        return (w @ self.readings) / w.sum(axis=1)
