"""Where a grouping lands: score models for steel-tip darts.

The desk fits throwing models to the hand-marked boards of a county league.  A
player is described by the scatter of the grouping (mm), by how concentrated
the darts are around the aimed bearing, by the speed and tilt of the dart at
the board, and by a table of "leave" values (how good it is to stand on a given
score with three fresh darts in hand).

Conventions
-----------
* Radii are in millimetres from the centre of the bull, ``RING_EDGES_MM``.
* Bearings are in radians clockwise from the top of the board.
* ``B`` players (or legs), ``T`` throws, ``R`` rings, ``K`` possible scores of
  a single dart.

The heavier reductions carry their own gradients: the boards are marked in
the hundreds of thousands and the graph of the plain expressions keeps
``B x T x 20`` intermediates alive.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

# Inner bull, outer bull, inner/outer treble wire, inner/outer double wire.
RING_EDGES_MM: Tuple[float, ...] = (0.0, 6.35, 15.9, 99.0, 107.0, 162.0, 170.0)
RING_NAMES = ("bull", "outer_bull", "inner_single", "treble", "outer_single", "double")

SEGMENT_ORDER = (20, 1, 18, 4, 13, 6, 10, 15, 2, 17, 3, 19, 7, 16, 8, 11, 14, 9, 12, 5)
SEGMENTS = len(SEGMENT_ORDER)
START_SCORE = 501

# Tilt of the barrel against the board normal, degrees.
TILT_SAFE_DEG = 12.0
TILT_FAIL_DEG = 38.0
BOUNCE_SPEED_MPS = 9.0
WIRE_SHARE = 0.06


class GroupingParams(NamedTuple):
    """What is fitted for each player."""

    log_sigma: tf.Tensor
    log_kappa: tf.Tensor
    ring_edges: tf.Tensor


@dataclasses.dataclass(frozen=True)
class BoardSpec:
    """Geometry and wire of one board make."""

    name: str
    wire_share: float = WIRE_SHARE
    tilt_safe_deg: float = TILT_SAFE_DEG
    tilt_fail_deg: float = TILT_FAIL_DEG
    bounce_speed: float = BOUNCE_SPEED_MPS


ROUND_WIRE = BoardSpec("round wire", wire_share=0.09)
BLADE_WIRE = BoardSpec("blade wire", wire_share=0.04, tilt_fail_deg=44.0)


def segment_bearings(rotation: float = 0.0) -> np.ndarray:
    """Bearings of the twenty segment centres, clockwise, 20 at the top."""
    step = 2.0 * np.pi / SEGMENTS
    return (np.arange(SEGMENTS) * step + rotation).astype("float64")


def single_dart_scores(include_miss: bool = True) -> np.ndarray:
    """Distinct scores of one dart, ascending: ``(K,)`` int32."""
    scores = {25, 50}
    for face in SEGMENT_ORDER:
        scores.update((face, 2 * face, 3 * face))
    if include_miss:
        scores.add(0)
    return np.asarray(sorted(scores), dtype="int32")


def _unbroadcast(grad: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Sum ``grad`` down to ``shape``, undoing numpy-style broadcasting."""
    extra = tf.rank(grad) - tf.size(shape)
    padded = tf.concat([tf.ones([extra], shape.dtype), shape], axis=0)
    stretched = tf.logical_and(tf.equal(padded, 1), tf.not_equal(tf.shape(grad), 1))
    axes = tf.reshape(tf.where(stretched), [-1])
    return tf.reshape(tf.reduce_sum(grad, axis=axes, keepdims=True), shape)


# --------------------------------------------------------------------------
# Rings
# --------------------------------------------------------------------------


@tf.custom_gradient
def ring_mass(sigma: tf.Tensor, edges: tf.Tensor):
    """Probability of each ring for a grouping centred on the bull.

    Args:
      sigma: scatter of the grouping in mm, ``(B,)``, positive.
      edges: the ring radii, ``(R + 1,)``, ascending; the wires are fitted
        because the boards are photographed at slightly different distances.

    Returns:
      ``(B, R)``: Rayleigh mass between consecutive radii.  What lies beyond
      the last edge is a miss and is not returned.
    """
    ratio = edges[None, :] / sigma[:, None]
    survival = tf.exp(-0.5 * tf.square(ratio))
    mass = survival[:, :-1] - survival[:, 1:]

    def grad(upstream):
        inner = tf.pad(upstream, [[0, 0], [0, 1]])
        outer = tf.pad(upstream, [[0, 0], [1, 0]])
        d_survival = (inner - outer) * survival
        d_sigma = tf.reduce_sum(d_survival * tf.square(ratio), axis=1) / sigma
        d_edges = tf.reduce_sum(-d_survival * ratio / sigma[:, None], axis=0)
        return d_sigma, d_edges

    return mass, grad


def ring_log_likelihood(params: GroupingParams, counts: tf.Tensor) -> tf.Tensor:
    """Multinomial log-likelihood of marked ring counts, one value a player.

    The last column of ``counts`` is the darts that missed the doubles.
    """
    mass = ring_mass(tf.exp(params.log_sigma), params.ring_edges)
    miss = 1.0 - tf.reduce_sum(mass, axis=1, keepdims=True)
    full = tf.concat([mass, miss], axis=1)
    return tf.reduce_sum(counts * tf.math.log(full + 1e-12), axis=1)


# --------------------------------------------------------------------------
# Segments
# --------------------------------------------------------------------------


class GroupModel:
    """Soft assignment of bearings to the twenty segments.

    Parameters
    ----------
    rotation : float
        How far the board hangs off vertical, radians.
    dtype : str
        Floating type of the whole model.

    Notes
    -----
    ``segments(bearing, kappa)`` takes ``bearing`` with one row per player and
    one column per throw and ``kappa`` with one column; a player's
    concentration is the same for every throw of the session.
    """

    def __init__(self, rotation: float = 0.0, dtype: str = "float32"):
        self.dtype = dtype
        self.centres = tf.constant(segment_bearings(rotation), dtype)
        self._share = self._build_segments()

    def _build_segments(self) -> Callable[..., tf.Tensor]:
        @tf.custom_gradient
        def segment_share(bearing, kappa, centres):
            offset = bearing[:, :, None] - centres[None, None, :]
            towards = tf.cos(offset)
            share = tf.nn.softmax(kappa[:, :, None] * towards, axis=-1)

            def grad(upstream):
                mean = tf.reduce_sum(upstream * share, axis=-1, keepdims=True)
                d_logit = share * (upstream - mean)
                d_offset = -d_logit * kappa[:, :, None] * tf.sin(offset)
                d_kappa = tf.reduce_sum(d_logit * towards, axis=-1)
                return (
                    tf.reduce_sum(d_offset, axis=-1),
                    tf.reduce_mean(d_kappa, axis=1, keepdims=True),
                    -tf.reduce_sum(d_offset, axis=[0, 1]),
                )

            return share, grad

        return segment_share

    def segments(
        self,
        bearing: tf.Tensor,
        kappa: tf.Tensor,
        centres: Optional[tf.Tensor] = None,
    ) -> tf.Tensor:
        """Segment probabilities, ``(B, T, 20)``."""
        centres = self.centres if centres is None else centres
        return self._share(
            tf.convert_to_tensor(bearing, self.dtype),
            tf.convert_to_tensor(kappa, self.dtype),
            tf.convert_to_tensor(centres, self.dtype),
        )

    def face_value(self, bearing: tf.Tensor, kappa: tf.Tensor) -> tf.Tensor:
        """Mean face value of each throw (no rings)."""
        faces = tf.constant(SEGMENT_ORDER, self.dtype)
        return tf.linalg.matvec(self.segments(bearing, kappa), faces)


# --------------------------------------------------------------------------
# Leaves
# --------------------------------------------------------------------------


@tf.custom_gradient
def leave_value(table, hit, standing, points):
    """Value of the score a dart leaves, in expectation over where it lands.

    ``table`` holds a value for each score from 0 to 501; ``hit`` has a row
    for each leg with the probability of every entry of the integer list
    ``points``; ``standing`` is the score before the dart.  A dart that would
    leave 1 or less than nothing is a bust, and the player goes back to the
    score of ``standing``.
    """
    reached = standing[:, None] - points[None, :]
    bust = tf.logical_or(reached < 0, tf.equal(reached, 1))
    landing = tf.where(bust, tf.broadcast_to(standing[:, None], tf.shape(reached)), reached)
    worth = tf.gather(table, landing)
    value = tf.reduce_sum(hit * worth, axis=1)

    def grad(upstream):
        flow = upstream[:, None] * hit
        kept = tf.where(bust, tf.zeros_like(flow), flow)
        d_table = tf.math.unsorted_segment_sum(
            tf.reshape(kept, [-1]), tf.reshape(landing, [-1]), tf.shape(table)[0]
        )
        return d_table, upstream[:, None] * worth, None, None

    return value, grad


def bellman_gap(
    table: tf.Tensor,
    hit: tf.Tensor,
    standing: tf.Tensor,
    *,
    dart_cost: float = 1.0,
) -> tf.Tensor:
    """Squared residual of ``V(s) = cost + E V(s')``, averaged over the legs."""
    points = tf.constant(single_dart_scores())
    after = leave_value(table, hit, standing, points)
    here = tf.gather(table, standing)
    return tf.reduce_mean(tf.square(here - dart_cost - after))


# --------------------------------------------------------------------------
# Bounce-outs
# --------------------------------------------------------------------------


def make_bounce_out(spec: BoardSpec = ROUND_WIRE) -> Callable[..., tf.Tensor]:
    """Probability that a dart does not stay in the board.

    A share of darts meets a wire; of those, the slow ones fall out, and the
    steeply tilted ones are levered out.  The tilt acts through a smoothstep
    between the safe and the failing angle.

    Args:
      spec: the make of the board.

    Returns:
      A function of the speed (m/s) and the tilt (degrees).  The two broadcast
      against each other, so a player's one speed goes with a row of tilts.
    """
    span = spec.tilt_fail_deg - spec.tilt_safe_deg

    @tf.custom_gradient
    def bounce_out(speed, tilt):
        raw = (tilt - spec.tilt_safe_deg) / span
        excess = tf.clip_by_value(raw, 0.0, 1.0)
        levered = excess * excess * (3.0 - 2.0 * excess)
        slow = tf.exp(-speed / spec.bounce_speed)
        chance = spec.wire_share * (slow + levered - slow * levered)

        def grad(upstream):
            d_slow = upstream * spec.wire_share * (1.0 - levered)
            d_levered = upstream * spec.wire_share * (1.0 - slow)
            d_speed = -d_slow * slow / spec.bounce_speed
            d_tilt = d_levered * 6.0 * excess * (1.0 - excess) / span
            return (
                _unbroadcast(d_speed, tf.shape(speed)),
                _unbroadcast(d_tilt, tf.shape(tilt)),
            )

        return chance, grad

    return bounce_out


# --------------------------------------------------------------------------
# Fitting
# --------------------------------------------------------------------------


class PlayerBook(tf.Module):
    """All players of a league season."""

    def __init__(self, names: Sequence[str], spec: BoardSpec = ROUND_WIRE):
        super().__init__(name="player_book")
        self.names = list(names)
        count = len(self.names)
        self.log_sigma = tf.Variable(tf.fill([count], float(np.log(28.0))))
        self.log_kappa = tf.Variable(tf.fill([count], float(np.log(12.0))))
        self.log_speed = tf.Variable(tf.fill([count], float(np.log(17.0))))
        self.edges = tf.constant(RING_EDGES_MM, tf.float32)
        self.group = GroupModel()
        self.bounce = make_bounce_out(spec)

    def loss(self, session: Dict[str, tf.Tensor]) -> tf.Tensor:
        """Negative log-likelihood of rings, segments and bounce-outs."""
        params = GroupingParams(
            tf.convert_to_tensor(self.log_sigma),
            tf.convert_to_tensor(self.log_kappa),
            self.edges,
        )
        rings = ring_log_likelihood(params, session["ring_counts"])
        share = self.group.segments(session["bearing"], tf.exp(params.log_kappa)[:, None])
        picked = tf.gather(share, session["segment"], axis=2, batch_dims=2)
        segments = tf.reduce_sum(tf.math.log(picked + 1e-9), axis=1)
        chance = self.bounce(tf.exp(self.log_speed)[:, None], session["tilt"])
        fell = session["fell"]
        stayed = fell * tf.math.log(chance) + (1.0 - fell) * tf.math.log1p(-chance)
        return -tf.reduce_mean(rings + segments + tf.reduce_sum(stayed, axis=1))

    def fit(self, session: Dict[str, tf.Tensor], steps: int = 50, rate: float = 1e-2):
        optimizer = tf.keras.optimizers.Adam(rate)
        history = []
        for _ in range(steps):
            with tf.GradientTape() as tape:
                loss = self.loss(session)
            grads = tape.gradient(loss, self.trainable_variables)
            optimizer.apply_gradients(zip(grads, self.trainable_variables))
            history.append(float(loss))
        return history


def demo_session(players: int, throws: int, seed: int = 3) -> Dict[str, tf.Tensor]:
    """A made-up evening at the oche."""
    rng = np.random.default_rng(seed)
    rings = rng.multinomial(throws, [0.02, 0.1, 0.6, 0.05, 0.15, 0.03, 0.05], size=players)
    return {
        "ring_counts": tf.constant(rings, tf.float32),
        "bearing": tf.constant(rng.normal(0.0, 0.2, (players, throws)), tf.float32),
        "segment": tf.constant(rng.integers(0, SEGMENTS, (players, throws)), tf.int32),
        "tilt": tf.constant(rng.uniform(0.0, 50.0, (players, throws)), tf.float32),
        "fell": tf.constant(rng.random((players, throws)) < 0.04, tf.float32),
    }


if __name__ == "__main__":
    book = PlayerBook(["Ada", "Bert", "Cyn"], BLADE_WIRE)
    curve = book.fit(demo_session(3, 24), steps=20)
    print(f"negative log-likelihood {curve[0]:.2f} -> {curve[-1]:.2f}")
    values = tf.Variable(np.linspace(0.0, 18.0, START_SCORE + 1), dtype=tf.float32)
    dart = tf.fill([2, len(single_dart_scores())], 1.0 / len(single_dart_scores()))
    print("gap", float(bellman_gap(tf.convert_to_tensor(values), dart, tf.constant([501, 170]))))
