"""Arrival promises for a parcel courier: route clock and promise cost.

A stop's promise ("between 14:10 and 14:50") comes out of two pieces.

``RouteClock`` walks the planned route and accumulates driving, waiting for the
recipient's opening time, and handling at the door.  The legs are predicted by
a small network, so the walk is differentiated through.

``make_promise_cost`` prices a promise against the scan of the handheld.

Everything is in minutes after the depot opens.  Routes are padded on the right
to the longest of the batch; ``counts`` holds the true number of stops.
"""

from __future__ import annotations

import keras
import numpy as np
from keras import ops

MAX_LEG = 180.0
WAIT_SOFTNESS = 3.0
HANDLING = {"letterbox": 0.7, "doorstep": 2.2, "upstairs": 4.5, "freight": 9.0}

LATE_RATE = 0.05
EARLY_RATE = 0.02
PATIENCE = 20.0


def live_columns(counts, stops):
    """(routes, stops) list of columns that are 1 for real stops, 0 for padding."""
    position = ops.arange(stops)
    return ops.cast(
        ops.expand_dims(position, 0) < ops.expand_dims(counts, 1), "int32"
    )


class RouteClock(keras.layers.Layer):
    """Arrival minute at every stop.

    A courier who is early waits; the wait is softened over ``softness`` minutes
    because recipients open a little before or after the time on the label:

        arrival_i = clock_{i-1} + leg_i
        clock_i   = arrival_i + softness * softplus((open_i - arrival_i) / softness)
                    + handling_i

    Past the last stop the clock stands still and padding shows its time.
    """

    def __init__(self, softness=WAIT_SOFTNESS, **kwargs):
        super().__init__(**kwargs)
        if softness <= 0:
            raise ValueError("softness must be positive")
        self.softness = softness

    def _bind(self, live):
        """The walk for one batch of padded routes (`live` from live_columns)."""
        softness = self.softness

        @ops.custom_gradient
        def walk(depart, legs, opens, handling):
            stops = legs.shape[1]
            alive = ops.cast(live, legs.dtype)
            clock = depart
            arrivals, pushes = [], []
            for stop in range(stops):
                on = alive[:, stop]
                arrival = clock + on * legs[:, stop]
                early = (opens[:, stop] - arrival) / softness
                wait = softness * ops.softplus(early)
                clock = arrival + on * (wait + handling[:, stop])
                arrivals.append(arrival)
                pushes.append(on * ops.sigmoid(early))

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                d_clock = ops.zeros_like(depart)
                d_legs, d_opens, d_handling = [], [], []
                for stop in range(stops - 1, -1, -1):
                    on = alive[:, stop]
                    push = pushes[stop]
                    d_opens.append(d_clock * push)
                    d_handling.append(d_clock * on)
                    d_arrival = upstream[:, stop] + d_clock * (1.0 - push)
                    d_legs.append(d_arrival * on)
                    d_clock = d_arrival
                return (
                    d_clock,
                    ops.stack(d_legs[::-1], axis=1),
                    ops.stack(d_opens[::-1], axis=1),
                    ops.stack(d_handling[::-1], axis=1),
                )

            return ops.stack(arrivals, axis=1), grad

        return walk

    def call(self, depart, legs, opens, handling, counts):
        live = live_columns(counts, legs.shape[1])
        return self._bind(live)(depart, legs, opens, handling)

    def get_config(self):
        return {**super().get_config(), "softness": self.softness}


def make_promise_cost(late=LATE_RATE, early=EARLY_RATE, patience=PATIENCE):
    """Price of promised windows.

    The window is ``middle - width / 2 .. middle + width / 2``.  Beyond its end
    the cost climbs ever faster, as complaints do,
    ``late * (over + over**2 / (2 * patience))``.  Before its start it flattens,
    ``early * patience * log(1 + under / patience)``: a parcel left with the
    neighbour an hour early is hardly worse than half an hour early.  Inside the
    window only the width is charged, quadratically, by the ``charge`` of the
    product (express parcels may not have wide windows).

    Returns
    -------
    callable
        ``promise_cost(middle, width, charge, scan) -> cost``, where middle and
        scan are (routes, stops), width is (routes, stops) and charge (stops,)
        is shared by the routes of a batch.
    """

    @ops.custom_gradient
    def promise_cost(middle, width, charge, scan):
        half = 0.5 * width
        over = ops.relu(scan - middle - half)
        under = ops.relu(middle - half - scan)
        cost = (
            late * (over + ops.square(over) / (2.0 * patience))
            + early * patience * ops.log1p(under / patience)
            + charge * ops.square(width)
        )

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            is_over = ops.cast(over > 0.0, over.dtype)
            is_under = ops.cast(under > 0.0, under.dtype)
            d_over = upstream * is_over * late * (1.0 + over / patience)
            d_under = upstream * is_under * early / (1.0 + over / patience)
            d_middle = d_under - d_over
            d_width = (
                -0.5 * (d_over + d_under) + 2.0 * upstream * charge * width
            )
            d_charge = ops.sum(upstream * ops.square(width), axis=0)
            return d_middle, d_width, d_charge, -d_middle

        return cost, grad

    return promise_cost


def cyclic_hour(minutes, depot_opens=6 * 60):
    """Two features of the time of day."""
    angle = 2.0 * np.pi * (minutes + depot_opens) / (24.0 * 60.0)
    return ops.stack([ops.sin(angle), ops.cos(angle)], axis=-1)


def handling_minutes(kinds):
    """Table look-up on the host; kinds are names in HANDLING."""
    table = np.vectorize(HANDLING.__getitem__)
    return table(np.asarray(kinds)).astype("float32")


class LegModel(keras.layers.Layer):
    """Driving minutes of every leg from its features, between 0 and MAX_LEG."""

    def __init__(self, hidden=24, **kwargs):
        super().__init__(**kwargs)
        self.hidden = keras.layers.Dense(hidden, activation="gelu")
        self.minutes = keras.layers.Dense(1)

    def call(self, features):
        raw = ops.squeeze(self.minutes(self.hidden(features)), -1)
        return MAX_LEG * ops.sigmoid(raw - 3.0)


class PromiseModel(keras.Model):
    """Legs, clock and window in one model.

    `call` returns the middle and the width of the promise of every stop.
    """

    def __init__(self, softness=WAIT_SOFTNESS, **kwargs):
        super().__init__(**kwargs)
        self.legs = LegModel()
        self.clock = RouteClock(softness)
        self.width_head = keras.layers.Dense(1, activation="softplus")
        self.price = make_promise_cost()

    def call(self, inputs):
        legs = self.legs(inputs["features"])
        middle = self.clock(
            inputs["depart"], legs, inputs["opens"], inputs["handling"], inputs["counts"]
        )
        clues = ops.concatenate([inputs["features"], cyclic_hour(middle)], axis=-1)
        width = 10.0 + 8.0 * ops.squeeze(self.width_head(clues), -1)
        return middle, width

    def promise_loss(self, inputs, scan, charge):
        """Mean price of the real stops of a batch."""
        middle, width = self(inputs)
        price = self.price(middle, width, charge, scan)
        live = ops.cast(live_columns(inputs["counts"], scan.shape[1]), price.dtype)
        return ops.sum(price * live) / ops.maximum(ops.sum(live), 1.0)


def synthetic_batch(routes=6, stops=9, features=5, seed=0):
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, stops + 1, routes).astype("int32")
    kinds = rng.choice(list(HANDLING), (routes, stops))
    opens = np.sort(rng.uniform(20.0, 420.0, (routes, stops)), axis=1)
    inputs = {
        "features": rng.normal(0.0, 1.0, (routes, stops, features)).astype("float32"),
        "depart": rng.uniform(0.0, 45.0, routes).astype("float32"),
        "opens": opens.astype("float32"),
        "handling": handling_minutes(kinds),
        "counts": counts,
    }
    scan = (opens + rng.normal(12.0, 25.0, opens.shape)).astype("float32")
    return {k: ops.convert_to_tensor(v) for k, v in inputs.items()}, ops.convert_to_tensor(scan)


def main():
    inputs, scan = synthetic_batch()
    charge = ops.full((scan.shape[1],), 2e-4)
    model = PromiseModel()
    loss = model.promise_loss(inputs, scan, charge)
    print("backend", keras.backend.backend(), "loss", float(loss))
    middle, width = model(inputs)
    print(ops.convert_to_numpy(middle)[0].round(1))
    print(ops.convert_to_numpy(width)[0].round(1))


if __name__ == "__main__":
    main()
