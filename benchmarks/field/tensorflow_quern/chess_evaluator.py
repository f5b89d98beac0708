"""Position evaluation for a small alpha-beta / MCTS hybrid chess engine.

The network follows the efficiently updatable layout used by most modern
engines: sparse piece-square features are summed into an accumulator for both
perspectives, squashed, and read by two thin dense heads (an opening and an
ending score).  The two scores are tapered by the material left on the board
and turned into win / draw / loss frequencies by a logistic model whose
location and width drift with the move number.

A second head produces move logits, trained against the visit counts of the
search.

Everything in here is batched over positions; moves and features are plain
integer tables produced by the C++ move generator (see ``tools/pack_games``).
"""

import collections

import numpy as np
import tensorflow as tf

NUM_SQUARES = 64
NUM_PIECES = 10            # both colours, kings live in the bucket index
MAX_ACTIVE = 30            # most non-king men on a legal board
PAD = -1

# knight, bishop, rook, queen; the classical 24-point phase budget
PIECE_PHASE = np.array([1.0, 1.0, 2.0, 4.0])
FULL_PHASE = 24.0

PLY_FLOOR = 8
PLY_CEIL = 120
PLY_UNIT = 32.0

OPPOSITE_BISHOP_SCALE = 0.5
LONE_PAWN_SCALE = 0.75

PositionBatch = collections.namedtuple(
    "PositionBatch",
    ["active", "officers", "bishop_colours", "pawns", "ply", "legal", "visits", "frequencies"],
)


def feature_index(king_bucket, piece, square):
    """Flat row of the feature table for one man seen from one king bucket."""
    return (king_bucket * NUM_PIECES + piece) * NUM_SQUARES + square


def polyval(coefficients, x):
    """Horner evaluation, highest power first; returns an array like ``x``."""
    value = tf.zeros_like(x)
    for k in range(coefficients.shape[0]):
        value = value * x + coefficients[k]
    return value


def _powers(x, count):
    """(B,) -> (B, count), highest power first, matching :func:`polyval`."""
    return tf.stack([x ** (count - 1 - k) for k in range(count)], axis=-1)


def ending_scale(bishop_colours, pawns, dtype=tf.float32):
    """Drawishness factor of the ending score.

    ``bishop_colours`` is 1 where each side has one bishop and they run on
    opposite colours, ``pawns`` counts pawns of the stronger side.
    """
    scale = tf.ones(tf.shape(pawns), dtype)
    scale = tf.where(pawns == 1, LONE_PAWN_SCALE * scale, scale)
    return tf.where(bishop_colours > 0, OPPOSITE_BISHOP_SCALE * scale, scale)


# ---------------------------------------------------------------------------
# accumulator
# ---------------------------------------------------------------------------


def build_accumulator(squared=True):
    """Returns the sparse first layer.

    Args:
      squared: use the squared clipped rectifier, otherwise the plain one.

    Returns:
      A function ``(table, bias, active) -> features``.
    """

    @tf.custom_gradient
    def accumulate_men(table, bias, active):
        # table (F, W), bias (W,), active int (B, 2, M) padded with PAD
        on_board = tf.cast(active != PAD, table.dtype)[..., None]
        rows = tf.maximum(active, 0)
        pre = bias + tf.reduce_sum(tf.gather(table, rows) * on_board, axis=2)
        clipped = tf.clip_by_value(pre, 0.0, 1.0)
        out = clipped * clipped if squared else clipped
        batch, width = tf.shape(active)[0], tf.shape(table)[1]

        def grad(upstream):
            g = tf.reshape(upstream, [batch, 2, width])
            open_gate = tf.cast((pre > 0.0) & (pre < 1.0), g.dtype)
            g = g * open_gate
            if squared:
                g = g * 2.0 * clipped
            per_man = g[:, :, None, :] * on_board
            g_table = tf.math.unsorted_segment_sum(
                tf.reshape(per_man, [-1, width]), tf.reshape(rows, [-1]), tf.shape(table)[0]
            )
            return g_table, tf.reduce_sum(g, axis=[0, 1]), None

        return tf.reshape(out, [batch, 2 * width]), grad

    return accumulate_men


# ---------------------------------------------------------------------------
# tapering
# ---------------------------------------------------------------------------


class PhaseBlend:
    """Tapers an opening and an ending score by the officers still on the board.

    The share of the opening score is ``counts . piece_phase / total`` held to
    the unit interval, so early promotions do not push it past one.
    """

    def __init__(self, total=FULL_PHASE):
        self.total = total
        self._blend = self.build()

    def build(self):
        total = self.total

        @tf.custom_gradient
        def blend(opening, ending, scale, counts, piece_phase):
            men = tf.cast(counts, piece_phase.dtype)
            raw = tf.linalg.matvec(men, piece_phase)
            share = tf.clip_by_value(raw / total, 0.0, 1.0)
            score = share * opening + (1.0 - share) * scale * ending

            def grad(upstream):
                inside = (raw > 0.0) & (raw < total)
                g_share = upstream * (opening - ending)
                g_raw = tf.where(inside, g_share / total, tf.zeros_like(g_share))
                return (
                    upstream * share,
                    upstream * (1.0 - share) * scale,
                    upstream * (1.0 - share) * ending,
                    None,
                    tf.linalg.matvec(men, g_raw, transpose_a=True),
                )

            return score, grad

        return blend

    def __call__(self, opening, ending, scale, counts, piece_phase):
        """All of ``opening``, ``ending``, ``scale`` are (B,); counts (B, 4) int."""
        return self._blend(opening, ending, scale, counts, piece_phase)


# ---------------------------------------------------------------------------
# win / draw / loss
# ---------------------------------------------------------------------------


@tf.custom_gradient
def outcome_nll(score, curve, ply, frequencies, weight):
    """Weighted mean negative log likelihood of game results.

    The model is ``P(win) = s((v - a) / b)`` and ``P(loss) = s((-v - a) / b)``
    with ``a`` and ``b`` polynomials of the clipped move number; what is left
    is the draw.

    Parameters
    ----------
    score : (B,) float
        Evaluation in pawns, from the side to move.
    curve : dict
        ``{"location": (4,), "width": (4,)}``, highest power first.  Both
        polynomials have to be positive over the clipped range.
    ply : (B,) int
    frequencies : (B, 3) float
        Win, draw and loss frequencies. Data, no derivative is returned.
    weight : (B,) float
        Row weights, zero for padding. Data, no derivative is returned.
    """
    x = tf.cast(tf.clip_by_value(ply, PLY_FLOOR, PLY_CEIL), score.dtype) / PLY_UNIT
    a = polyval(curve["location"], x)
    b = polyval(curve["width"], x)
    z_win = (score - a) / b
    z_loss = (-score - a) / b
    ratio = a / b
    log_draw = (
        tf.math.log_sigmoid(-z_win)
        + tf.math.log_sigmoid(-z_loss)
        + tf.math.log(-tf.math.expm1(-2.0 * ratio))
    )
    won, drawn, lost = tf.unstack(frequencies, axis=-1)
    nll = -(won * tf.math.log_sigmoid(z_win) + drawn * log_draw + lost * tf.math.log_sigmoid(z_loss))
    mass = tf.maximum(tf.reduce_sum(weight), 1e-6)
    loss = tf.reduce_sum(weight * nll) / mass

    def grad(upstream):
        row = upstream * weight / mass
        p_win, p_loss = tf.sigmoid(z_win), tf.sigmoid(z_loss)
        g_win = row * (drawn * p_win - won * (1.0 - p_win))
        g_loss = row * (drawn * p_loss - lost * (1.0 - p_loss))
        g_ratio = -row * drawn * 2.0 / tf.math.expm1(2.0 * ratio)
        g_a = (g_ratio - g_win - g_loss) / b
        g_b = -(g_win * z_win + g_loss * z_loss + g_ratio * ratio) / b
        basis = _powers(x, 4)
        g_curve = {
            "location": tf.linalg.matvec(basis, g_a, transpose_a=True),
            "width": tf.linalg.matvec(basis, g_b, transpose_a=True),
        }
        return (g_win - g_loss) / b, g_curve, None, None, None

    return loss, grad


# ---------------------------------------------------------------------------
# moves
# ---------------------------------------------------------------------------


def make_visit_loss(smoothing=0.0, sharpen=1.0):
    """Cross entropy of move logits against search visits.

    Args:
      smoothing: share of the target spread evenly over the legal moves.
      sharpen: exponent applied to the visit counts.
    """

    @tf.custom_gradient
    def visit_loss(logits, legal, visits):
        """logits (B, A); legal (B, A) bool; visits (B, A) counts. Scalar mean
        over the positions that have a legal move."""
        dtype = logits.dtype
        mask = tf.cast(legal, dtype)
        moves = tf.reduce_sum(mask, axis=-1, keepdims=True)
        live = tf.cast(moves > 0.0, dtype)
        top = tf.reduce_max(tf.where(legal, logits, logits.dtype.min), axis=-1, keepdims=True)
        shifted = tf.where(legal, logits - top, tf.zeros_like(logits))
        expo = tf.exp(shifted) * mask
        norm = tf.reduce_sum(expo, axis=-1, keepdims=True)
        log_prob = (shifted - tf.math.log(tf.where(norm > 0.0, norm, tf.ones_like(norm)))) * mask
        prob = tf.math.divide_no_nan(expo, norm)

        share = tf.cast(visits, dtype) ** sharpen * mask
        visited = tf.reduce_sum(share, axis=-1, keepdims=True)
        even = tf.math.divide_no_nan(mask, moves)
        share = tf.where(visited > 0.0, tf.math.divide_no_nan(share, visited), even)

        searched = -tf.reduce_sum(share * log_prob, axis=-1)
        uniform = -tf.reduce_sum(even * log_prob, axis=-1)
        rows = tf.maximum(tf.reduce_sum(live), 1.0)
        loss = tf.reduce_sum((1.0 - smoothing) * searched + smoothing * uniform) / rows
        width = tf.cast(tf.shape(logits)[-1], dtype)

        def grad(upstream):
            target = (1.0 - smoothing) * share + smoothing * mask / width
            return upstream * live * (prob - target) / rows, None, None

        return loss, grad

    return visit_loss


# ---------------------------------------------------------------------------
# network
# ---------------------------------------------------------------------------


class ChessNet(tf.Module):
    """Accumulator, two score heads, one move head."""

    def __init__(self, features, width=32, moves=128, smoothing=0.03, seed=0, name=None):
        super().__init__(name=name)
        rng = np.random.default_rng(seed)
        f32 = np.float32
        self.table = tf.Variable(0.15 * rng.standard_normal((features, width)).astype(f32))
        self.bias = tf.Variable(0.3 * np.ones(width, f32))
        self.score_kernel = tf.Variable(0.2 * rng.standard_normal((2 * width, 2)).astype(f32))
        self.move_kernel = tf.Variable(0.1 * rng.standard_normal((2 * width, moves)).astype(f32))
        self.piece_phase = tf.Variable(PIECE_PHASE.astype(f32))
        self.location = tf.Variable(np.array([0.01, -0.06, 0.12, 0.9], f32))
        self.width_curve = tf.Variable(np.array([-0.005, 0.03, 0.02, 0.45], f32))
        self._accumulate = build_accumulator(squared=True)
        self._taper = PhaseBlend()
        self._visit_loss = make_visit_loss(smoothing=smoothing)

    def __call__(self, batch):
        hidden = self._accumulate(
            tf.convert_to_tensor(self.table), tf.convert_to_tensor(self.bias), batch.active
        )
        both = hidden @ self.score_kernel
        scale = ending_scale(batch.bishop_colours, batch.pawns)
        score = self._taper(
            both[:, 0], both[:, 1], scale, batch.officers, tf.convert_to_tensor(self.piece_phase)
        )
        return score, hidden @ self.move_kernel

    def loss(self, batch):
        score, logits = self(batch)
        curve = {
            "location": tf.convert_to_tensor(self.location),
            "width": tf.convert_to_tensor(self.width_curve),
        }
        value = outcome_nll(score, curve, batch.ply, batch.frequencies, tf.ones_like(score))
        return value + self._visit_loss(logits, batch.legal, batch.visits)


def random_batch(size, features, moves, seed=0):
    """A made-up batch with the shapes of the packed game files."""
    rng = np.random.default_rng(seed)
    active = rng.integers(0, features, (size, 2, MAX_ACTIVE))
    for row in range(size):
        active[row, :, rng.integers(6, MAX_ACTIVE):] = PAD
    legal = rng.random((size, moves)) < 0.25
    visits = rng.poisson(4.0, (size, moves)) * legal
    frequencies = rng.dirichlet([2.0, 3.0, 2.0], size)
    return PositionBatch(
        active=tf.constant(active, tf.int32),
        officers=tf.constant(rng.integers(0, [5, 5, 5, 3], (size, 4)), tf.int32),
        bishop_colours=tf.constant(rng.integers(0, 2, size), tf.int32),
        pawns=tf.constant(rng.integers(0, 6, size), tf.int32),
        ply=tf.constant(rng.integers(1, 160, size), tf.int32),
        legal=tf.constant(legal),
        visits=tf.constant(visits, tf.int32),
        frequencies=tf.constant(frequencies, tf.float32),
    )


def train(steps=5, size=16, features=640, moves=96, rate=0.002):
    net = ChessNet(features, moves=moves)
    optimizer = tf.keras.optimizers.SGD(rate)
    history = []
    for step in range(steps):
        batch = random_batch(size, features, moves, seed=step)
        with tf.GradientTape() as tape:
            loss = net.loss(batch)
        variables = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        history.append(float(loss))
    return history


if __name__ == "__main__":
    print(["%.4f" % value for value in train()])
