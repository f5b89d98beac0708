"""Finding and naming the chapters of a podcast.

The transcript encoder turns an episode into a sequence of frame embeddings (about one a second).  Everything after the
encoder lives here: a leaky trace of the current topic, the similarity dip that suggests a boundary, pooling of the frames of
each chapter, and the loss of the tagger.  The derivatives are written out because the tape of a three-hour episode
does not fit into memory otherwise.
"""
from dataclasses import dataclass

import tensorflow as tf

# Frames whose length is below this are silence: they are scaled by the floor rather than by their own length.
SILENCE_FLOOR = 1e-3
IGNORED = -1


@dataclass(frozen=True)
class ChapterConfig:
    dim: int = 64
    max_chapters: int = 40
    pool: str = "mean"
    boundary_gap: int = 1


def _sum_to(value, like):
    """Sums `value` down to the shape of `like` (undoes NumPy broadcasting)."""
    target = like.shape
    lead = len(value.shape) - len(target)
    if lead > 0:
        value = tf.reduce_sum(value, axis=list(range(lead)))
    ones = [i for i, n in enumerate(target) if n == 1 and value.shape[i] != 1]
    if ones:
        value = tf.reduce_sum(value, axis=ones, keepdims=True)
    return value


@tf.custom_gradient
def leaky_topic_trace(frames, decay, cuts):
    """Leaky average of the frames that starts afresh wherever an editor's cut begins.

    Args:
        frames: [batch, time, dim] embeddings.
        decay: [dim], in (0, 1), learned; how much of the trace survives one frame.
        cuts: [batch, time], 1.0 at the first frame after a cut, else 0.0.  Nothing of the trace is carried into such a frame.

    Returns:
        [batch, time, dim], the trace after each frame.
    """
    keep = 1.0 - tf.stop_gradient(cuts)
    xs = tf.unstack(frames, axis=1)
    ks = [k[:, None] for k in tf.unstack(keep, axis=1)]
    state = tf.zeros_like(xs[0])
    before, after = [], []
    for x, k in zip(xs, ks):
        held = k * state
        state = decay * held + (1.0 - decay) * x
        before.append(held)
        after.append(state)

    def grad(upstream):
        ups = tf.unstack(upstream, axis=1)
        carry = tf.zeros_like(ups[0])
        d_decay = tf.zeros_like(decay)
        d_frames = [None] * len(ups)
        for t in reversed(range(len(ups))):
            total = ups[t] + ks[t] * carry
            d_frames[t] = (1.0 - decay) * total
            d_decay += tf.reduce_sum(total * (before[t] - xs[t]), axis=0)
            carry = decay * total
        return tf.stack(d_frames, axis=1), d_decay, None

    return tf.stack(after, axis=1), grad


@tf.custom_gradient
def paired_cosine(left, right):
    """Cosine of the last axis; the leading axes broadcast (e.g. one jingle template against all frames)."""
    floor = tf.cast(SILENCE_FLOOR ** 2, left.dtype)
    sq_l = tf.reduce_sum(left * left, axis=-1, keepdims=True)
    sq_r = tf.reduce_sum(right * right, axis=-1, keepdims=True)
    len_l = tf.sqrt(tf.maximum(sq_l, floor))
    len_r = tf.sqrt(tf.maximum(sq_r, floor))
    unit_l, unit_r = left / len_l, right / len_r
    cos = tf.reduce_sum(unit_l * unit_r, axis=-1, keepdims=True)

    def grad(upstream):
        up = upstream[..., None]
        loud_l = tf.cast(sq_l > floor, left.dtype)
        loud_r = tf.cast(sq_r > floor, left.dtype)
        d_left = up * (unit_r - loud_l * cos * unit_l) / len_l
        d_right = up * (unit_l - loud_r * cos * unit_r) / len_r
        return _sum_to(d_left, left), _sum_to(d_right, right)

    return tf.squeeze(cos, axis=-1), grad


def chapter_pool(num_chapters, mode="mean"):
    """Returns ``pool(frames, chapter_ids)``: [B, T, D] and int [B, T] -> [B, num_chapters, D].

    ``mode`` is "sum", "mean" or "energy" (mean square).  Frames whose id is negative (adverts) belong nowhere; a chapter
    without frames is all zeros.
    """
    if mode not in ("sum", "mean", "energy"):
        raise ValueError(f"unknown pooling mode {mode!r}")

    @tf.custom_gradient
    def pool(frames, chapter_ids):
        batch, dim = tf.shape(frames)[0], frames.shape[-1]
        inside = chapter_ids >= 0
        slot = tf.where(inside, chapter_ids + num_chapters * tf.range(batch)[:, None], -1)
        flat = tf.reshape(slot, [-1])
        values = frames * frames if mode == "energy" else frames
        rows = tf.reshape(values, [-1, dim])
        out = tf.math.unsorted_segment_sum(rows, flat, batch * num_chapters)
        size = tf.math.unsorted_segment_sum(tf.ones_like(rows[:, :1]), flat, batch * num_chapters)
        scale = tf.ones_like(size) if mode == "sum" else 1.0 / tf.maximum(size, 1.0)

        def grad(upstream):
            per_chapter = tf.reshape(upstream, [-1, dim]) * scale
            d = tf.gather(per_chapter, tf.maximum(flat, 0))
            d = tf.reshape(d, tf.shape(frames)) * tf.cast(inside, frames.dtype)[..., None]
            if mode == "energy":
                d = 2.0 * frames * d
            return d, None

        return tf.reshape(out * scale, [batch, num_chapters, dim]), grad

    return pool


def make_retention_nll(retention, smoothing=0.0):
    """Token loss in which a second counts as much as listeners stayed for it.

    Args:
        retention: [batch, time] non-negative weights, share of the audience still there.
        smoothing: label smoothing, share that is spread evenly over the classes.

    Returns:
        ``retention_nll(logits, labels)``: the weighted mean of the cross entropy over the frames whose label isn't -1.
    """

    @tf.custom_gradient
    def retention_nll(logits, labels):
        weights = tf.cast(retention, logits.dtype)
        classes = logits.shape[-1]
        valid = tf.cast(tf.not_equal(labels, IGNORED), logits.dtype)
        target = tf.one_hot(tf.maximum(labels, 0), classes, dtype=logits.dtype)
        target = (1.0 - smoothing) * target + smoothing / classes
        logp = tf.nn.log_softmax(logits, axis=-1)
        nll = -tf.reduce_sum(target * logp, axis=-1)
        loss = tf.reduce_sum(weights * valid * nll) / tf.maximum(tf.reduce_sum(weights * valid), 1e-6)

        def grad(upstream):
            frames = tf.maximum(tf.reduce_sum(valid), 1.0)
            delta = (tf.exp(logp) - target) * (weights * valid)[..., None]
            return upstream * delta / frames, None

        return loss, grad

    return retention_nll


class ChapterHead(tf.Module):
    """Boundary features and chapter embeddings of one batch of episodes."""

    def __init__(self, config=ChapterConfig()):
        super().__init__()
        self.config = config
        self.decay_logit = tf.Variable(tf.fill([config.dim], 2.0))
        self._pool = chapter_pool(config.max_chapters, config.pool)

    def boundary_dips(self, frames, cuts):
        trace = leaky_topic_trace(frames, tf.sigmoid(self.decay_logit), cuts)
        gap = self.config.boundary_gap
        return 1.0 - paired_cosine(trace[:, :-gap], frames[:, gap:])

    def __call__(self, frames, chapter_ids):
        return self._pool(frames, chapter_ids)
