"""Golf strategy layers: strokes-gained baselines, putting fits, club choice.

The caddie model looks at a hole as a set of candidate clubs.  Each club leaves
the ball at some distance and lie; a baseline table says how many strokes a
scratch player needs from there; a soft minimum over the clubs that are in the
bag gives the value of the tee shot and a choice distribution that we compare
with what tour players really took.

Putting inside thirty feet is fitted separately with the geometric model of
Gelman and Nolan, extended by Broadie's distance control term.

Runs on Keras 3 (``keras.ops`` only), whatever backend ``keras.json`` or
``KERAS_BACKEND`` names.
"""

import math

import keras
import numpy as np
from keras import ops

LIES = ("tee", "fairway", "rough", "sand", "recovery")
TEE, FAIRWAY, ROUGH, SAND, RECOVERY = range(len(LIES))

# yards; denser near the green where the curve bends
BASELINE_KNOTS = np.array(
    [10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 140.0, 180.0, 220.0, 280.0, 360.0, 460.0]
)

BASELINE_FAIRWAY = np.array(
    [2.18, 2.40, 2.60, 2.70, 2.75, 2.80, 2.91, 3.08, 3.32, 3.60, 3.96, 4.40]
)

LIE_PENALTY = np.array([-0.03, 0.0, 0.22, 0.35, 0.80])

# feet
HOLE_RADIUS = 4.25 / 24.0
BALL_RADIUS = 1.68 / 24.0
PUTT_GAP = HOLE_RADIUS - BALL_RADIUS
PUTT_OVERSHOOT = 1.0
PUTT_TOLERANCE = 3.0
PUTT_FLOOR = 1e-6

SQRT2 = math.sqrt(2.0)
INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


def normal_cdf(x):
    return 0.5 * (1.0 + ops.erf(x / SQRT2))


def normal_pdf(x):
    return INV_SQRT_2PI * ops.exp(-0.5 * x * x)


def baseline_table(dtype="float32"):
    """Starting values of the baseline, one row a lie."""
    table = BASELINE_FAIRWAY[None, :] + LIE_PENALTY[:, None]
    return table.astype(dtype)


def sum_like(value, target):
    """Collapse broadcast axes of ``value`` so that it has the shape of ``target``."""
    shape = tuple(target.shape)
    while len(value.shape) > len(shape):
        value = ops.sum(value, axis=0)
    for axis, size in enumerate(shape):
        if size == 1 and value.shape[axis] != 1:
            value = ops.sum(value, axis=axis, keepdims=True)
    return value


# -- baseline ---------------------------------------------------------------


def make_strokes_to_hole(knots=BASELINE_KNOTS):
    """Interpolated baseline over the given distance knots.

    Distances outside of the table follow the first or last segment on, so
    that a 600 yard par five is still worth more than a 500 yard one.
    """
    knots = np.asarray(knots)
    count = len(knots)

    @ops.custom_gradient
    def strokes_to_hole(table, lie, distance):
        """table: (lies, knots); lie: int (...); distance: (...) -> (...)"""
        grid = ops.convert_to_tensor(knots, dtype=distance.dtype)
        flat_distance = ops.reshape(distance, (-1,))
        right = ops.searchsorted(grid, flat_distance, side="right")
        right = ops.cast(ops.clip(right, 1, count - 1), "int32")
        left = right - 1
        gap = ops.take(grid, right) - ops.take(grid, left)
        part = (flat_distance - ops.take(grid, left)) / gap
        row = ops.cast(ops.reshape(lie, (-1,)), "int32") * count
        flat_table = ops.reshape(table, (-1,))
        near = ops.take(flat_table, row + left)
        far = ops.take(flat_table, row + right)
        value = near + part * (far - near)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = ops.reshape(upstream, (-1,))
            cells = ops.concatenate([row + left, row + right])
            parts = ops.concatenate([g * (1.0 - part), g * part])
            g_table = ops.segment_sum(parts, cells, num_segments=table.shape[0] * count)
            g_distance = g * (far - near) / gap
            return (
                ops.reshape(g_table, table.shape),
                None,
                ops.reshape(g_distance, ops.shape(distance)),
            )

        return ops.reshape(value, ops.shape(distance)), grad

    return strokes_to_hole


# -- putting ----------------------------------------------------------------


@ops.custom_gradient
def putting_log_likelihood(distance, made, tried, log_angle, log_touch):
    """Binomial log likelihood of holed putts, summed over everything.

    A putt drops when its direction is within the angle the hole leaves and
    its speed would carry it past by less than the tolerance.

    Args:
        distance: feet to the hole, e.g. `(1, D)` for binned tour data.
        made: putts holed, `(P, D)`. Counts; no gradient.
        tried: putts struck, `(P, D)`. Counts; no gradient.
        log_angle: log of the direction error in radians, `(P, 1)` or scalar.
        log_touch: log of the relative speed error, `(P, 1)` or scalar.
    """
    sigma = ops.exp(log_angle)
    touch = ops.exp(log_touch)
    ratio = ops.minimum(PUTT_GAP / distance, 1.0)
    z = ops.arcsin(ratio) / (sigma * SQRT2)
    on_line = ops.erf(z)
    reach = distance + PUTT_OVERSHOOT
    spread = reach * touch
    z_long = (PUTT_TOLERANCE - PUTT_OVERSHOOT) / spread
    z_short = -PUTT_OVERSHOOT / spread
    on_speed = normal_cdf(z_long) - normal_cdf(z_short)
    raw = on_line * on_speed
    chance = ops.clip(raw, PUTT_FLOOR, 1.0 - PUTT_FLOOR)
    missed = tried - made
    total = ops.sum(made * ops.log(chance) + missed * ops.log1p(-chance))

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        g = upstream * (made / chance - missed / (1.0 - chance))
        free = ops.logical_and(raw > PUTT_FLOOR, raw < 1.0 - PUTT_FLOOR)
        g = ops.where(free, g, ops.zeros_like(g))
        g_z = g * on_speed * (2.0 / math.sqrt(math.pi)) * ops.exp(-z * z)
        g_speed = g * on_line
        squeeze = z_long * normal_pdf(z_long) - z_short * normal_pdf(z_short)
        beyond = distance > PUTT_GAP
        safe = ops.where(beyond, ratio, ops.zeros_like(ratio))
        turn = -safe / (distance * ops.sqrt(1.0 - safe * safe))
        g_distance = g_z * turn / (sigma * SQRT2) - g_speed * squeeze / reach
        return (
            sum_like(g_distance, distance),
            None,
            None,
            sum_like(-g_z * z, log_angle),
            sum_like(-g_speed * squeeze, log_touch),
        )

    return total, grad


# -- club choice ------------------------------------------------------------


@ops.custom_gradient
def pick_club(cost, in_bag, log_heat):
    """Soft minimum of expected strokes over the clubs in the bag.

    Returns ``(value, share)``: the value of the shot, (...), normalised such
    that equal costs give just that cost, and the choice shares (..., clubs).
    ``in_bag`` is a 0/1 mask of the shape of ``cost`` with at least one club a
    row; ``log_heat`` a scalar, how undecided the player is.
    """
    heat = ops.exp(log_heat)
    held = ops.where(in_bag > 0, -cost / heat, ops.full_like(cost, -1e30))
    top = ops.max(held, axis=-1, keepdims=True)
    weight = ops.exp(held - top)
    norm = ops.sum(weight, axis=-1, keepdims=True)
    share = weight / norm
    clubs = ops.sum(in_bag, axis=-1)
    value = -heat * (ops.squeeze(ops.log(norm) + top, -1) - ops.log(clubs))
    mean_cost = ops.sum(share * cost, axis=-1)

    def grad(*args, upstream=None):
        g_value, g_share = args if upstream is None else upstream
        inner = ops.sum(g_share * share, axis=-1, keepdims=True)
        g_cost = g_value[..., None] * share - share * (g_share - inner) / heat
        g_log_heat = ops.sum(g_value * (value - mean_cost))
        return g_cost, None, g_log_heat

    return (value, share), grad


# -- layers -----------------------------------------------------------------


class StrokesBaseline(keras.layers.Layer):
    """Trainable baseline table; input ``(lie, distance)``."""

    def __init__(self, knots=BASELINE_KNOTS, **kwargs):
        super().__init__(**kwargs)
        self.knots = np.asarray(knots)
        self._read = make_strokes_to_hole(self.knots)

    def build(self, input_shape=None):
        self.table = self.add_weight(
            shape=(len(LIES), len(self.knots)), initializer="zeros", name="table"
        )
        start = np.stack([np.interp(self.knots, BASELINE_KNOTS, row) for row in baseline_table()])
        self.table.assign(start)
        self.built = True

    def call(self, lie, distance):
        if not self.built:
            self.build()
        return self._read(ops.copy(self.table), lie, distance)


class Caddie(keras.layers.Layer):
    """Values a tee shot from where each club would leave the ball."""

    def __init__(self, baseline, entropy_weight=0.0, **kwargs):
        super().__init__(**kwargs)
        self.baseline = baseline
        self.entropy_weight = entropy_weight

    def build(self, *shapes):
        self.log_heat = self.add_weight(shape=(), initializer="zeros", name="log_heat")
        self.log_heat.assign(math.log(0.15))
        self.built = True

    def call(self, lie, distance, in_bag):
        # all three (holes, clubs)
        cost = 1.0 + self.baseline(lie, distance)
        value, share = pick_club(cost, in_bag, ops.copy(self.log_heat))
        if self.entropy_weight:
            entropy = -ops.sum(share * ops.log(share + 1e-12), axis=-1)
            self.add_loss(-self.entropy_weight * ops.mean(entropy))
        return value, share


def choice_cross_entropy(share, taken):
    """Mean log loss of the clubs really taken, ``taken`` int (holes,)."""
    picked = ops.take_along_axis(share, taken[:, None], axis=-1)
    return -ops.mean(ops.log(picked + 1e-12))


class PuttingSkill(keras.layers.Layer):
    """One direction and one touch parameter for each player."""

    def __init__(self, players, **kwargs):
        super().__init__(**kwargs)
        self.players = players
        self.log_angle = self.add_weight(
            shape=(players, 1), initializer=keras.initializers.Constant(math.log(0.03)),
            name="log_angle",
        )
        self.log_touch = self.add_weight(
            shape=(players, 1), initializer=keras.initializers.Constant(math.log(0.14)),
            name="log_touch",
        )

    def call(self, distance, made, tried):
        return putting_log_likelihood(
            distance,
            made,
            tried,
            ops.copy(self.log_angle),
            ops.copy(self.log_touch),
        )


def demo_hole(holes=4, clubs=6, seed=0):
    rng = np.random.default_rng(seed)
    lie = rng.integers(0, len(LIES), (holes, clubs)).astype("int32")
    distance = rng.uniform(15.0, 420.0, (holes, clubs)).astype("float32")
    in_bag = np.ones((holes, clubs), "float32")
    in_bag[1, 2:4] = 0.0
    return lie, distance, in_bag


if __name__ == "__main__":
    lie, distance, in_bag = demo_hole()
    caddie = Caddie(StrokesBaseline(), entropy_weight=0.01)
    value, share = caddie(ops.convert_to_tensor(lie), ops.convert_to_tensor(distance),
                          ops.convert_to_tensor(in_bag))
    print("value", ops.convert_to_numpy(value))
    print("choice", float(choice_cross_entropy(share, ops.convert_to_tensor([0, 1, 2, 3]))))
    feet = np.array([[2.0, 4.0, 8.0, 12.0, 20.0]], "float32")
    tried = np.array([[90.0, 80.0, 60.0, 40.0, 40.0], [70.0, 70.0, 50.0, 50.0, 30.0]], "float32")
    made = np.floor(tried * np.array([[0.95, 0.8, 0.5, 0.3, 0.14]])).astype("float32")
    skill = PuttingSkill(players=2)
    print("putts", float(skill(ops.convert_to_tensor(feet), ops.convert_to_tensor(made),
                               ops.convert_to_tensor(tried))))
