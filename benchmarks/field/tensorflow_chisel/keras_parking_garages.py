"""Occupancy forecasts for the parking garages of a town centre.

Entry counters say how many cars want to enter each garage per time slot.  How
many are inside later depends on how long people stay, which differs by garage
(station, market, hospital).  When a garage fills up, drivers are refused and
drive on to another one.  Two differentiable blocks model this and sit behind a
small recurrent demand forecaster:

StayOccupancy   demand of the past slots and a garage's stay curve -> cars inside
OverflowRouter  demand and capacity -> cars parked after refused drivers moved on

Shapes used throughout: B days in a batch, T slots in a day, Z garages, K stay bins.
"""

import math
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

SLOT_MINUTES = 15
MIN_CAPACITY = 1.0


@dataclass
class Garage:
    """Static facts about one garage."""

    name: str
    capacity: float
    east: float
    north: float
    mean_stay_slots: float = 6.0


TOWN = (
    Garage("station", 420.0, 0.0, 0.0, 18.0),
    Garage("market", 160.0, 350.0, 120.0, 4.0),
    Garage("hospital", 260.0, 900.0, 640.0, 7.0),
    Garage("theatre", 90.0, 420.0, 300.0, 9.0),
)


def walking_distance(garages):
    """Pairwise street distance in metres (taxicab)."""
    place = np.array([(g.east, g.north) for g in garages])
    return np.abs(place[:, None] - place[None, :]).sum(-1)


def starting_routes(garages, reach=400.0, lost=0.15):
    """Share of the drivers refused at garage i who try garage j.

    Rows sum to ``1 - lost``: some drivers give up and go home.
    """
    pull = np.exp(-walking_distance(garages) / reach)
    pull = pull * np.array([g.capacity for g in garages])[None, :]
    np.fill_diagonal(pull, 0.0)
    return (1.0 - lost) * pull / pull.sum(axis=1, keepdims=True)


def geometric_stay_logits(garages, bins):
    """Logits of a geometric stay length for each garage, (Z, bins)."""
    stay = np.array([g.mean_stay_slots for g in garages])
    return -np.arange(bins)[None, :] / stay[:, None]


def start_at(values):
    """Keras initializer which sets a weight to the given array."""
    values = np.asarray(values, dtype="float32")
    return lambda shape, dtype=None: ops.convert_to_tensor(values, dtype=dtype)


def shift_later(x, slots):
    """Moves a (B, T, Z) series `slots` slots later, filling with zeros."""
    length = x.shape[1]
    return ops.pad(x, [[0, 0], [slots, 0], [0, 0]])[:, :length]


def shift_earlier(x, slots):
    return ops.pad(x, [[0, 0], [0, slots], [0, 0]])[:, slots:]


@ops.custom_gradient
def cars_inside(entries, stay_logits):
    """Cars inside each garage at the end of each slot.

    A car which enters in slot s is still inside in slot s + k with probability
    P(stay bin >= k); stay bins follow softmax(stay_logits) over the last axis.

    Args:
        entries: (B, T, Z) cars entering.
        stay_logits: (Z, K).

    Returns:
        (B, T, Z).
    """
    bins = stay_logits.shape[-1]
    pmf = ops.softmax(stay_logits, axis=-1)
    remain = ops.flip(ops.cumsum(ops.flip(pmf, axis=-1), axis=-1), axis=-1)
    inside = entries * remain[:, 0]
    for k in range(1, bins):
        inside = inside + shift_later(entries, k) * remain[:, k]

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        g_entries = upstream * remain[:, 0]
        g_remain = [ops.sum(upstream * entries, axis=(0, 1))]
        for k in range(1, bins):
            g_entries = g_entries + shift_earlier(upstream, k) * remain[:, k]
            g_remain.append(ops.sum(upstream * shift_later(entries, k), axis=(0, 1)))
        g_pmf = ops.cumsum(ops.stack(g_remain, axis=-1), axis=-1)
        centre = ops.sum(pmf * g_pmf, axis=-1, keepdims=True)
        return g_entries, pmf * (g_pmf - centre)

    return inside, grad


class StayOccupancy(keras.layers.Layer):
    """Layer around `cars_inside` with a trainable stay curve for each garage."""

    def __init__(self, garages=TOWN, bins=24, **kwargs):
        super().__init__(**kwargs)
        self.garages = tuple(garages)
        self.bins = bins

    def build(self, input_shape):
        self.stay_logits = self.add_weight(
            shape=(len(self.garages), self.bins), name="stay_logits",
            initializer=start_at(geometric_stay_logits(self.garages, self.bins)))

    def call(self, entries):
        return cars_inside(entries, ops.convert_to_tensor(self.stay_logits))

    def mean_stay_minutes(self):
        pmf = ops.softmax(self.stay_logits, axis=-1)
        slots = ops.arange(self.bins, dtype=pmf.dtype)
        return SLOT_MINUTES * ops.sum(pmf * slots, axis=-1)


class OverflowRouter(keras.layers.Layer):
    """Caps the wanted occupancy by capacity and moves refused drivers on.

    A garage of capacity C takes ``C * (1 - exp(-d / C))`` of a demand d, a smooth
    stand-in for min(d, C) that allows for cars which circle and drive out again.
    Refused drivers split over the other garages by the routing shares.

    Args:
        garages: sequence of `Garage`.
        train_routes: whether the shares are fitted.
        effort: the share of refused drivers who look for another garage at all.
    """

    def __init__(self, garages=TOWN, train_routes=True, effort=1.0, **kwargs):
        super().__init__(**kwargs)
        self.garages = tuple(garages)
        self.train_routes = train_routes
        self.effort = effort
        self._parked = self._make_rule()

    def build(self, input_shape):
        count = len(self.garages)
        self.log_capacity = self.add_weight(
            shape=(count,), name="log_capacity",
            initializer=start_at(np.log([g.capacity for g in self.garages])))
        self.routes = self.add_weight(
            shape=(count, count), name="routes", trainable=self.train_routes,
            initializer=start_at(starting_routes(self.garages)))

    def _make_rule(self):
        effort = self.effort

        @ops.custom_gradient
        def parked(demand, capacity, routes):
            # demand (B, Z), capacity (Z,), routes (Z, Z): from garage, to garage
            filling = ops.exp(-demand / capacity)
            served = capacity * (1.0 - filling)
            refused = demand - served
            moved = effort * ops.einsum("bi,ij->bj", refused, routes)

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                g_refused = effort * ops.einsum("bj,ji->bi", upstream, routes)
                g_served = upstream - g_refused
                g_demand = g_refused + g_served * filling
                g_capacity = ops.sum(
                    g_served * (1.0 - filling * (1.0 + demand / capacity)), axis=0)
                g_routes = effort * ops.einsum("bi,bj->ij", refused, upstream)
                return g_demand, g_capacity, g_routes

            return served + moved, grad

        return parked

    def call(self, demand):
        """demand: (..., Z); leading axes are folded into one."""
        count = len(self.garages)
        shape = ops.shape(demand)
        flat = ops.reshape(demand, (-1, count))
        capacity = MIN_CAPACITY + ops.exp(self.log_capacity)
        out = self._parked(flat, capacity, ops.convert_to_tensor(self.routes))
        return ops.reshape(out, shape)


class GarageForecaster(keras.Model):
    """Entry forecaster (GRU on calendar features) with the two blocks behind it."""

    def __init__(self, garages=TOWN, units=16, bins=24, **kwargs):
        super().__init__(**kwargs)
        self.rnn = keras.layers.GRU(units, return_sequences=True)
        self.head = keras.layers.Dense(len(garages))
        self.stay = StayOccupancy(garages, bins)
        self.router = OverflowRouter(garages)

    def call(self, features):
        entries = ops.softplus(self.head(self.rnn(features))) * 10.0
        return self.router(self.stay(entries))


def calendar_features(days, slots):
    """Time of day as two harmonics and a market-day flag, (days, slots, 5)."""
    phase = 2.0 * math.pi * np.arange(slots) / slots
    wave = np.stack([np.sin(phase), np.cos(phase), np.sin(2 * phase),
                     np.cos(2 * phase)], axis=-1)
    market = ((np.arange(days) % 7) == 5).astype("float32")
    flag = np.broadcast_to(market[:, None, None], (days, slots, 1))
    wave = np.broadcast_to(wave[None], (days, slots, 4))
    return np.concatenate([wave, flag], axis=-1).astype("float32")


def made_up_history(days, slots, garages=TOWN, seed=0):
    """Occupancies with a noon hump, for the demo."""
    rng = np.random.default_rng(seed)
    phase = np.arange(slots) / slots
    hump = np.exp(-((phase - 0.5) / 0.15) ** 2)
    cap = np.array([g.capacity for g in garages])
    level = 0.3 + 0.6 * rng.random((days, 1, len(garages)))
    return (cap * level * hump[None, :, None]).astype("float32")


def relative_error(target, forecast):
    """Mean absolute error by capacity, averaged over garages."""
    cap = ops.convert_to_tensor([g.capacity for g in TOWN], dtype=forecast.dtype)
    return ops.mean(ops.abs(target - forecast) / cap)


if __name__ == "__main__":
    features = calendar_features(14, 48)
    history = made_up_history(14, 48)
    model = GarageForecaster(bins=12)
    model.compile(optimizer="adam", loss=relative_error)
    model.fit(features, history, epochs=2, batch_size=7, verbose=2)
    print("mean stay", ops.convert_to_numpy(model.stay.mean_stay_minutes()).round())
