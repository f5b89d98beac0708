"""Following a ceilidh dance on video.

A clip has T pose frames and a dance card of C figures ("right-hand star", "promenade") that are danced in order. We embed both,
compare them with a scaled cosine, and sum over all monotone ways to dance the card through the clip. Some figures may be
left out by a tired set (a second swing, the bow at the end); they are marked *skippable*.

Shapes used below: B clips, T frames, C figures, D features.
"""
from dataclasses import dataclass

import tensorflow as tf

NEVER = -1.0e9
MAX_SCALE = 100.0
NORM_FLOOR = 1.0e-6


@dataclass
class DriftOptions:
    """How the timing drift is penalised."""

    kind: str = "pseudo"         # "pseudo" (pseudo-Huber) or "welsch"
    delta: float = 0.25          # beats at which an offset begins to count as an outlier
    normalise: str = "count"     # divide by the "count" of figures or by the sum of the "weights"


def _sum_to(g, shape):
    """Add up g over the leading axes that `shape` lacks."""
    extra = g.shape.rank - len(shape)
    return tf.reduce_sum(g, axis=list(range(extra))) if extra else g


def _directions(x):
    length = tf.sqrt(tf.reduce_sum(x * x, axis=-1, keepdims=True))
    return x / tf.maximum(length, tf.cast(NORM_FLOOR, x.dtype)), length


def _through_direction(g, unit, length):
    floor = tf.cast(NORM_FLOOR, g.dtype)
    inward = tf.reduce_sum(g * unit, axis=-1, keepdims=True) * unit
    return tf.where(length > floor, g - inward, g) / tf.maximum(length, floor)


@tf.custom_gradient
def figure_affinity(frames, figures, log_scale):
    """Scaled cosine between every frame and every figure.

    Args:
      frames: [B, T, D].
      figures: [B, C, D], or [C, D] when all the clips share one card.
      log_scale: scalar; the scale exp(log_scale) is capped at MAX_SCALE.

    Returns:
      [B, T, C] affinities. Empty (all zero) frames have affinity zero.
    """
    f, f_len = _directions(frames)
    c, c_len = _directions(figures)
    cap = tf.cast(MAX_SCALE, frames.dtype)
    free = tf.exp(log_scale)
    scale = tf.minimum(free, cap)
    cosine = tf.matmul(f, c, transpose_b=True) if figures.shape.rank == 3 else tf.einsum("btd,cd->btc", f, c)

    def grad(g):
        shared = figures.shape.rank == 2
        wide = tf.broadcast_to(c, tf.concat([tf.shape(f)[:1], tf.shape(c)], 0)) if shared else c
        df = scale * tf.matmul(g, wide)
        dc = _sum_to(scale * tf.matmul(g, f, transpose_a=True), figures.shape)
        dscale = tf.reduce_sum(g * cosine)
        dlog = tf.where(free < cap, dscale * free, tf.zeros_like(dscale))
        return _through_direction(df, f, f_len), _through_direction(dc, c, c_len), dlog

    return scale * cosine, grad


@tf.custom_gradient
def figure_mean(frames, in_view, spans):
    """Mean of the frames in each figure's span in which the dancers are in view, by running sums.

    `in_view` is a boolean [B, T]; `spans` is int [B, C, 2] with (first, last + 1), 0 <= first <= end <= T. Spans may overlap
    (two couples are at different figures) or be empty, in which case the mean is zero. Gives [B, C, D].
    """
    keep = tf.cast(in_view, frames.dtype)
    kept = frames * keep[..., None]
    sums = tf.pad(tf.cumsum(kept, axis=1), [[0, 0], [1, 0], [0, 0]])
    counts = tf.pad(tf.cumsum(keep, axis=1), [[0, 0], [1, 0]])
    first, end = spans[..., 0], spans[..., 1]
    total = tf.gather(sums, end, batch_dims=1) - tf.gather(sums, first, batch_dims=1)
    n = tf.gather(counts, end, batch_dims=1) - tf.gather(counts, first, batch_dims=1)
    n = tf.maximum(n, 1.0)[..., None]

    def grad(g):
        share = g / n
        rows = tf.broadcast_to(tf.range(tf.shape(first)[0], dtype=first.dtype)[:, None], tf.shape(first))
        edges = tf.zeros_like(sums)
        edges = tf.tensor_scatter_nd_add(edges, tf.stack([rows, first], -1), share)
        edges = tf.tensor_scatter_nd_sub(edges, tf.stack([rows, end], -1), share)
        return tf.cumsum(edges, axis=1)[:, :-1] * keep[..., None], None, None

    return total / n, grad


def _right(x, k):
    """x[..., c - k], NEVER where there is none."""
    return tf.pad(x, [[0, 0], [k, 0]], constant_values=NEVER)[:, : x.shape[-1]]


def _left(x, k):
    """x[..., c + k], NEVER where there is none."""
    return tf.pad(x, [[0, 0], [0, k]], constant_values=NEVER)[:, k:]


def _lse(*parts):
    return tf.reduce_logsumexp(tf.stack(parts, -1), axis=-1)


@tf.custom_gradient
def card_likelihood(affinity, frame_counts, skippable):
    """Log of the summed weight of all monotone ways through the card, one number per clip.

    affinity [B, T, C] with C >= 2; frame_counts int [B], frames after the count are padding; skippable bool [C]. From one frame to the next
    the set stays with the figure, goes on to the next one, or jumps over one skippable figure. The first frame belongs to the
    first figure (or the second, if the first is skippable), and the last frame likewise to the last figure or the one before it.
    """
    dtype = affinity.dtype
    steps, figures = affinity.shape[1], affinity.shape[2]
    never = tf.cast(NEVER, dtype)
    closed = tf.where(skippable, tf.zeros([figures], dtype), tf.fill([figures], never))
    index = tf.range(figures)
    entry = tf.where(index == 0, tf.zeros([figures], dtype), tf.where(index == 1, closed[0], never))
    leave = tf.where(index == figures - 1, tf.zeros([figures], dtype), tf.where(index == figures - 2, closed[-1], never))
    jump = tf.concat([[never], closed[:-1]], 0)      # jump[c]: what it costs to land on c over c - 1

    alphas = [entry + affinity[:, 0]]
    for t in range(1, steps):
        last = alphas[-1]
        here = affinity[:, t] + _lse(last, _right(last, 1), _right(last, 2) + jump)
        alphas.append(tf.where((t < frame_counts)[:, None], here, last))
    total = tf.reduce_logsumexp(alphas[-1] + leave, axis=-1)

    def grad(g):
        beta = tf.broadcast_to(leave, tf.shape(alphas[0]))
        pieces = []
        for t in reversed(range(steps)):
            if t < steps - 1:
                onward = beta + affinity[:, t + 1]
                back = _lse(onward, _left(onward, 1), _left(onward, 2) + jump)
                beta = tf.where((t + 1 < frame_counts)[:, None], back, beta)
            share = tf.exp(alphas[t] + beta - total[:, None])
            pieces.append(tf.where((t < frame_counts)[:, None], share, tf.zeros_like(share)))
        return g[:, None, None] * tf.stack(pieces[::-1], axis=1), None, None

    return total, grad


def make_drift_penalty(options: DriftOptions = DriftOptions()):
    """Robust penalty of figure offsets, in beats. Returns ``drift_penalty(offsets [B, C], weights [B, C]) -> [B]``."""
    d = options.delta

    @tf.custom_gradient
    def drift_penalty(offsets, weights):
        z = tf.square(offsets / d)
        if options.kind == "pseudo":
            root = tf.sqrt(1.0 + z)
            rho, slope = d * d * (root - 1.0), offsets / root
        elif options.kind == "welsch":
            bell = tf.exp(-z)
            rho, slope = 0.5 * d * d * (1.0 - bell), offsets * bell
        else:
            raise ValueError(f"unknown kind {options.kind!r}")
        if options.normalise == "weights":
            size = tf.reduce_sum(weights, axis=-1, keepdims=True)
        else:
            size = tf.cast(tf.shape(offsets)[-1], offsets.dtype) * tf.ones_like(weights[..., :1])

        def grad(g):
            each = g[..., None] / size
            return each * weights * slope, each * rho

        return tf.reduce_sum(weights * rho, axis=-1) / size[..., 0], grad

    return drift_penalty


class CeilidhFollower(tf.Module):
    """Holds the temperature and gives the training loss of a batch of clips."""

    def __init__(self, options=DriftOptions(), name=None):
        super().__init__(name=name)
        self.log_scale = tf.Variable(2.0, name="log_scale")
        self.penalty = make_drift_penalty(options)

    def __call__(self, frames, figures, frame_counts, skippable):
        affinity = figure_affinity(frames, figures, self.log_scale)
        return -tf.reduce_mean(card_likelihood(affinity, frame_counts, skippable) / tf.cast(frame_counts, frames.dtype))


if __name__ == "__main__":
    model = CeilidhFollower()
    with tf.GradientTape() as tape:
        loss = model(tf.random.normal([2, 9, 8]), tf.random.normal([4, 8]), tf.constant([9, 7]), tf.constant([False, True, False, False]))
    print("loss", float(loss), "d/dlog_scale", float(tape.gradient(loss, model.log_scale)))
