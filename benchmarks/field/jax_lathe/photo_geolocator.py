"""Where was this photograph taken?  Heads and losses for planet-scale geolocation.

The image encoder gives one feature vector per photo.  Two linear heads predict
a coarse and a fine cell of a fixed partition of the globe; the training loss
spreads each label over the neighbouring cells by great-circle distance, the
metric is the guessing-game score out of 5000, and the GPS encoder (for
image-to-location retrieval) works on map coordinates of an equal-area
projection in place of raw degrees.

Latitude and longitude are radians in every function here, degrees only in
``PlanetGrid.from_degrees``.  Batches go first.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Dict, NamedTuple, Tuple

import numpy as np

import jax
import jax.numpy as jnp

EARTH_RADIUS_KM = 6371.0
SCORE_LENGTH_KM = 1492.7
TOP_SCORE = 5000.0

# Equal Earth polynomial, Savric, Patterson and Jenny (2018)
A1, A2, A3, A4 = 1.340264, -0.081106, 0.000893, 0.003796
HALF_SQRT3 = math.sqrt(3.0) / 2.0


# ------------------------------------------------------------------------
# label smoothing over the globe
# ------------------------------------------------------------------------

def _pairwise_km(centres: np.ndarray) -> np.ndarray:
    lat, lon = centres[:, 0], centres[:, 1]
    xyz = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], -1)
    chord = np.linalg.norm(xyz[:, None] - xyz[None], axis=-1)
    return 2.0 * EARTH_RADIUS_KM * np.arcsin(np.clip(chord / 2.0, 0.0, 1.0))


class PlanetGrid:
    """A partition of the globe with the table of distances between its cells.

    Parameters
    ----------
    centres : ndarray, (cells, 2)
        Latitude and longitude of the cell centres.
    parent : ndarray of int, (cells,)
        Number of the coarse cell that holds each fine cell.
    """

    def __init__(self, centres: np.ndarray, parent: np.ndarray):
        self.centres = np.asarray(centres, dtype=np.float64)
        self.parent = np.asarray(parent, dtype=np.int32)
        self.distance = _pairwise_km(self.centres)

    @classmethod
    def from_degrees(cls, degrees, parent) -> "PlanetGrid":
        return cls(np.deg2rad(np.asarray(degrees)), parent)

    @property
    def n_cells(self) -> int:
        return self.centres.shape[0]

    @property
    def n_coarse(self) -> int:
        return int(self.parent.max()) + 1

    def soft_labels(self, length_km: float, horizon_km: float) -> np.ndarray:
        """Row i: weight of every cell as a label for a photo taken in cell i.

        Weights fall off exponentially and add to one over the globe; those of
        cells beyond the horizon are then set to zero.
        """
        weight = np.exp(-self.distance / length_km)
        weight = weight / weight.sum(axis=1, keepdims=True)
        return np.where(self.distance <= horizon_km, weight, 0.0)

    def build_loss(self, length_km: float = 400.0, horizon_km: float = 1000.0):
        """Loss of a batch of fine-cell logits for this grid.

        ``horizon_km`` bounds how far a label is spread.
        """
        labels = jnp.asarray(self.soft_labels(length_km, horizon_km))

        @jax.custom_vjp
        def spread_loss(logits, cell, valid):
            """Mean cross entropy against the spread labels over valid photos.

            logits (batch, cells); cell (batch,) integers; valid (batch,) bool.
            """
            return forward(logits, cell, valid)[0]

        def forward(logits, cell, valid):
            target = labels[cell].astype(logits.dtype)
            log_prob = jax.nn.log_softmax(logits, axis=-1)
            row = -jnp.sum(target * log_prob, axis=-1)
            count = jnp.maximum(jnp.sum(valid), 1).astype(logits.dtype)
            loss = jnp.sum(jnp.where(valid, row, 0.0)) / count
            return loss, (log_prob, cell, valid, count)

        def backward(res, ct):
            log_prob, cell, valid, count = res
            target = labels[cell].astype(log_prob.dtype)
            scale = jnp.where(valid, ct / count, 0.0)
            return scale[:, None] * (jnp.exp(log_prob) - target), None, None

        spread_loss.defvjp(forward, backward)
        return spread_loss


# ------------------------------------------------------------------------
# nested partitions
# ------------------------------------------------------------------------

@jax.custom_vjp
def nested_cell_scores(coarse, fine, parent):
    """Log score of every fine cell, its own log-probability plus its parent's.

    Args:
        coarse: (batch, n_coarse) logits.
        fine: (batch, n_fine) logits.
        parent: (n_fine,) integer, coarse cell of each fine cell.  Coarse cells
            without any fine cell are allowed.

    Returns:
        (batch, n_fine); not normalised.
    """
    upper = jax.nn.log_softmax(coarse, axis=-1)
    return jax.nn.log_softmax(fine, axis=-1) + upper[:, parent]


def _nested_fwd(coarse, fine, parent):
    upper = jax.nn.log_softmax(coarse, axis=-1)
    lower = jax.nn.log_softmax(fine, axis=-1)
    return lower + upper[:, parent], (upper, lower, parent)


def _nested_bwd(res, ct):
    upper, lower, parent = res
    whole = jnp.sum(ct, axis=-1, keepdims=True)
    d_fine = ct - jnp.exp(lower) * whole
    gathered = jnp.zeros_like(upper).at[:, parent].add(ct)
    d_coarse = gathered - jnp.exp(upper) * whole
    return d_coarse, d_fine, None


nested_cell_scores.defvjp(_nested_fwd, _nested_bwd)


# ------------------------------------------------------------------------
# the guessing-game score
# ------------------------------------------------------------------------

def _haversine_terms(lat1, lon1, lat2, lon2):
    s_lat = jnp.sin((lat2 - lat1) / 2.0)
    s_lon = jnp.sin((lon2 - lon1) / 2.0)
    return s_lat, s_lon, s_lat ** 2 + jnp.cos(lat1) * jnp.cos(lat2) * s_lon ** 2


@jax.custom_jvp
def guess_points(guess, truth):
    """Points of the game, 5000 for a perfect guess, falling off with distance.

    ``guess`` and ``truth`` are (..., 2), latitude and longitude.  A guess that
    sits exactly on the truth, or at its antipode, has no direction to move in
    and its tangent is zero.
    """
    _, _, hav = _haversine_terms(guess[..., 0], guess[..., 1], truth[..., 0], truth[..., 1])
    km = 2.0 * EARTH_RADIUS_KM * jnp.arcsin(jnp.sqrt(jnp.clip(hav, 0.0, 1.0)))
    return TOP_SCORE * jnp.exp(-km / SCORE_LENGTH_KM)


@guess_points.defjvp
def _guess_points_jvp(primals, tangents):
    guess, truth = primals
    d_guess, d_truth = tangents
    lat1, lon1 = guess[..., 0], guess[..., 1]
    lat2, lon2 = truth[..., 0], truth[..., 1]
    points = guess_points(guess, truth)
    s_lat, s_lon, hav = _haversine_terms(lat1, lon1, lat2, lon2)
    half_sin_lat = 0.5 * jnp.sin(lat2 - lat1)
    half_sin_lon = 0.5 * jnp.sin(lon2 - lon1)
    cos1, cos2 = jnp.cos(lat1), jnp.cos(lat2)
    d_hav = half_sin_lat * (d_truth[..., 0] - d_guess[..., 0]) \
        + cos1 * cos2 * half_sin_lon * (d_truth[..., 1] - d_guess[..., 1]) \
        - s_lon ** 2 * (jnp.sin(lat1) * cos2 * d_guess[..., 0]
                        + cos1 * jnp.sin(lat2) * d_truth[..., 0])
    inside = hav * (1.0 - hav)
    usable = inside > 0.0
    d_km = jnp.where(usable, EARTH_RADIUS_KM / jnp.sqrt(jnp.where(usable, inside, 1.0)), 0.0) * d_hav
    return points, -points / SCORE_LENGTH_KM * d_km


# ------------------------------------------------------------------------
# map coordinates for the GPS encoder
# ------------------------------------------------------------------------

@partial(jax.custom_jvp, nondiff_argnums=(2,))
def equal_earth_xy(lat, lon, meridian=0.0):
    """Equal Earth map coordinates of unit-sphere positions.

    lat, lon: arrays of one shape.  ``meridian``: central meridian, a float.
    Returns x and y, of that shape.  Longitudes are measured from the central
    meridian without wrapping.
    """
    theta = jnp.arcsin(HALF_SQRT3 * jnp.sin(lat))
    t2 = theta ** 2
    t6 = t2 ** 3
    slope = A1 + 3.0 * A2 * t2 + t6 * (7.0 * A3 + 9.0 * A4 * t2)
    x = (lon - meridian) * jnp.cos(theta) / (HALF_SQRT3 * slope)
    y = theta * (A1 + A2 * t2 + t6 * (A3 + A4 * t2))
    return x, y


@equal_earth_xy.defjvp
def _equal_earth_xy_jvp(meridian, primals, tangents):
    lat, lon = primals
    d_lat, d_lon = tangents
    sin_theta = HALF_SQRT3 * jnp.sin(lat)
    theta = jnp.arcsin(sin_theta)
    cos_theta = jnp.cos(theta)
    t2 = theta ** 2
    t6 = t2 ** 3
    slope = A1 + 3.0 * A2 * t2 + t6 * (7.0 * A3 + 9.0 * A4 * t2)
    stretch = 1.0 / (HALF_SQRT3 * slope)
    x = (lon - meridian) * cos_theta * stretch
    y = theta * (A1 + A2 * t2 + t6 * (A3 + A4 * t2))

    d_theta = HALF_SQRT3 * jnp.cos(lat) / cos_theta * d_lat
    d_x = stretch * (cos_theta * d_lon - (lon - meridian) * sin_theta * d_theta)
    d_y = slope * d_theta
    return (x, y), (d_x, d_y)


class GpsEncoder(NamedTuple):
    """Random Fourier features of map coordinates, then one linear layer."""

    frequencies: jax.Array     # (2, features)
    weight: jax.Array          # (2 * features, dim)

    @classmethod
    def init(cls, key, features: int = 64, dim: int = 32, sigma: float = 4.0) -> "GpsEncoder":
        k1, k2 = jax.random.split(key)
        return cls(sigma * jax.random.normal(k1, (2, features)),
                   jax.random.normal(k2, (2 * features, dim)) / math.sqrt(2 * features))

    def __call__(self, latlon: jax.Array) -> jax.Array:
        x, y = equal_earth_xy(latlon[..., 0], latlon[..., 1])
        phase = jnp.stack([x, y], axis=-1) @ self.frequencies
        out = jnp.concatenate([jnp.cos(phase), jnp.sin(phase)], axis=-1) @ self.weight
        return out / jnp.linalg.norm(out, axis=-1, keepdims=True)


# ------------------------------------------------------------------------
# model
# ------------------------------------------------------------------------

class Geolocator:
    """Linear heads on frozen image features."""

    def __init__(self, grid: PlanetGrid, width: int, length_km: float = 400.0,
                 horizon_km: float = 1000.0):
        self.grid = grid
        self.width = width
        self.loss = grid.build_loss(length_km, horizon_km)
        self.parent = jnp.asarray(grid.parent)
        self.centres = jnp.asarray(grid.centres)

    def init(self, key) -> Dict[str, jax.Array]:
        k1, k2 = jax.random.split(key)
        scale = 1.0 / math.sqrt(self.width)
        return {"coarse": scale * jax.random.normal(k1, (self.width, self.grid.n_coarse)),
                "fine": scale * jax.random.normal(k2, (self.width, self.grid.n_cells))}

    def scores(self, params, features):
        return nested_cell_scores(features @ params["coarse"], features @ params["fine"], self.parent)

    def objective(self, params, features, cell, valid):
        return self.loss(self.scores(params, features), cell, valid)

    def expected_points(self, params, features, truth) -> Tuple[jax.Array, jax.Array]:
        """Mean points of the soft guess (centres weighted by probability)."""
        prob = jax.nn.softmax(self.scores(params, features), axis=-1)
        table = guess_points(self.centres[None], truth[:, None])
        return jnp.mean(jnp.sum(prob * table, axis=-1)), prob

    def train(self, params, features, cell, valid, steps: int = 30, rate: float = 0.5):
        step = jax.jit(jax.grad(self.objective))
        for _ in range(steps):
            grads = step(params, features, cell, valid)
            params = jax.tree_util.tree_map(lambda p, g: p - rate * g, params, grads)
        return params


def refine_guess(guess, candidates, weights, steps: int = 20, rate: float = 1e-6):
    """Move guesses to where the weighted candidates give the most points."""
    def total(g):
        return jnp.sum(weights * guess_points(g[:, None], candidates))
    for _ in range(steps):
        guess = guess + rate * jax.grad(total)(guess)
    return guess


if __name__ == "__main__":
    cities = [[48.9, 2.3], [51.5, -0.1], [52.5, 13.4], [40.4, -3.7], [41.9, 12.5],
              [35.7, 139.7], [37.6, 127.0], [-33.9, 151.2]]
    grid = PlanetGrid.from_degrees(cities, [0, 0, 0, 1, 1, 2, 2, 3])
    model = Geolocator(grid, width=16)
    params = model.init(jax.random.PRNGKey(0))
    feats = jax.random.normal(jax.random.PRNGKey(1), (12, 16))
    cell = jnp.arange(12) % grid.n_cells
    valid = jnp.arange(12) != 3
    print(model.objective(params, feats, cell, valid))
    params = model.train(params, feats, cell, valid)
    print(model.objective(params, feats, cell, valid))
    print(model.expected_points(params, feats, model.centres[cell])[0])
    print(GpsEncoder.init(jax.random.PRNGKey(2))(model.centres).shape)
