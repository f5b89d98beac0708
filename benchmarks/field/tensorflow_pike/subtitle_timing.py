"""Subtitle cue timing: places cues on the clock and matches them to lines of the script."""

import keras
from keras import ops


@ops.custom_gradient
def cue_onsets(gaps, tempo):
    # gaps (clips, cues): any sign; tempo (clips, 1): seconds per unit
    step = ops.softplus(gaps)
    track = ops.cumsum(step, axis=-1)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        tail = ops.flip(ops.cumsum(ops.flip(upstream, axis=-1), axis=-1), axis=-1)
        return tail * tempo * ops.sigmoid(gaps), ops.sum(upstream * track, axis=-1, keepdims=True)

    return track * tempo, grad


@ops.custom_gradient
def line_match(cue, line, metric):
    # cue (clips, cues, d), line (clips, lines, d), metric (d, d); gives (clips, cues, lines)
    left = ops.matmul(cue, metric)
    score = ops.matmul(left, ops.swapaxes(line, -1, -2))

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        pulled = ops.matmul(upstream, line)
        d_cue = ops.matmul(pulled, metric)
        d_line = ops.matmul(ops.swapaxes(upstream, -1, -2), left)
        d_metric = ops.sum(ops.matmul(ops.swapaxes(cue, -1, -2), pulled), axis=0)
        return d_cue, d_line, d_metric

    return score, grad


class CueAligner(keras.layers.Layer):
    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.cue_proj = keras.layers.Dense(width)
        self.line_proj = keras.layers.Dense(width)
        self.gap_head = keras.layers.Dense(1)

    def build(self, cue_shape, line_shape):
        self.cue_proj.build(cue_shape)
        self.line_proj.build(line_shape)
        self.gap_head.build(tuple(cue_shape[:-1]) + (self.width,))
        self.metric = self.add_weight(
            shape=(self.width, self.width), initializer="identity", name="metric"
        )
        self.log_tempo = self.add_weight(shape=(1, 1), initializer="zeros", name="log_tempo")

    def call(self, cue, line):
        c = ops.tanh(self.cue_proj(cue))
        s = line_match(c, ops.tanh(self.line_proj(line)), self.metric * 1.0)
        gaps = ops.squeeze(self.gap_head(c), axis=-1)
        tempo = ops.exp(self.log_tempo) * ops.ones_like(gaps[:, :1])
        return s, cue_onsets(gaps, tempo)


def alignment_loss(scores, onsets, target_line, target_onset, slack=0.25):
    """Cross entropy over script lines plus a hinge on onsets more than `slack` seconds off."""
    ce = keras.losses.sparse_categorical_crossentropy(target_line, scores, from_logits=True)
    off = ops.relu(ops.abs(onsets - target_onset) - slack)
    return ops.mean(ce) + ops.mean(off)


def reading_speed(texts, onsets, end):
    """Characters per second of each cue, for the proofing report.

    texts: list of strings; onsets: their starts in seconds, ascending; end: the end of the last cue.
    """
    starts = [float(t) for t in onsets] + [float(end)]
    return [len(t) / max(b - a, 1e-3) for t, a, b in zip(texts, starts, starts[1:])]


def too_fast(texts, onsets, end, limit=17.0):
    return [i for i, v in enumerate(reading_speed(texts, onsets, end)) if v > limit]


def as_srt(texts, onsets, end):
    def clock(t):
        ms = round(t * 1000)
        h, ms = divmod(ms, 3_600_000)
        m, ms = divmod(ms, 60_000)
        s, ms = divmod(ms, 1000)
        return f"{h:02d}:{m:02d}:{s:02d},{ms:03d}"

    stops = list(onsets[1:]) + [end]
    blocks = []
    for i, (text, a, b) in enumerate(zip(texts, onsets, stops), 1):
        blocks.append(f"{i}\n{clock(float(a))} --> {clock(float(b))}\n{text}\n")
    return "\n".join(blocks)
