"""Pieces of a turn-taking model for multi-party dialogue (flat/ragged layouts, TensorFlow)."""

import tensorflow as tf


@tf.custom_gradient
def turn_softmax(scores, row_splits, log_temperature):
    # scores           [n_turns, heads]  all dialogues one after another
    # row_splits       [n_dialogues + 1] as in tf.RaggedTensor; dialogues without turns are fine
    # log_temperature  [heads]
    # -> weights       [n_turns, heads], each dialogue's weights sum to one per head
    rows = tf.ragged.row_splits_to_segment_ids(row_splits)
    n_rows = tf.shape(row_splits)[0] - 1
    z = scores * tf.exp(-log_temperature)
    peak = tf.gather(tf.math.unsorted_segment_max(z, rows, n_rows), rows)
    e = tf.exp(z - peak)
    p = e / tf.gather(tf.math.unsorted_segment_sum(e, rows, n_rows), rows)

    def grad(upstream):
        gp = upstream * p
        gz = gp - p * tf.gather(tf.math.unsorted_segment_sum(gp, rows, n_rows), rows)
        return gz * tf.exp(-log_temperature), None, -tf.reduce_sum(gz * z, axis=0)

    return p, grad


@tf.custom_gradient
def speaker_carry(turns, speakers, decay):
    """Leaky memory of what each speaker said so far.

    Every speaker has an own memory; when speaker ``s`` talks at turn ``t``::

        memory[s] <- decay[s] * memory[s] + turns[t]
        out[t]    <- memory[s]

    Args:
        turns: float tensor [T, D], the turn embeddings in order of time.
        speakers: int tensor [T], ids in ``[0, S)``.
        decay: float tensor [S].

    Returns:
        [T, D], the memory of the talking speaker after the turn.
    """
    n_turns = turns.shape[0]
    n_speakers = decay.shape[0]
    memory = tf.zeros([n_speakers, turns.shape[1]], turns.dtype)
    outs = []
    for t in range(n_turns):
        s = speakers[t]
        row = decay[s] * memory[s] + turns[t]
        memory = tf.tensor_scatter_nd_update(memory, [[s]], row[None])
        outs.append(row)
    out = tf.stack(outs)

    def grad(upstream):
        held = tf.zeros_like(memory)
        reverse = []
        for t in reversed(range(n_turns)):
            s = speakers[t]
            total = upstream[t] + held[s]
            held = tf.tensor_scatter_nd_update(held, [[s]], (decay[s] * total)[None])
            reverse.append(total)
        g_turns = tf.stack(reverse[::-1])
        previous = tf.concat([tf.zeros_like(out[:1]), out[:-1]], axis=0)
        g_decay = tf.math.unsorted_segment_sum(
            tf.reduce_sum(g_turns * previous, axis=1), speakers, n_speakers
        )
        return g_turns, None, g_decay

    return out, grad


def make_overlap_penalty(power=1.0, per_pair=True):
    """Builds the penalty on simultaneous speech of neighbouring turns.

    The overlap of turns ``i`` and ``i + 1`` is measured in units of the shorter of the two, raised to
    ``power`` (at least 1) and summed over the dialogue; with ``per_pair`` it is averaged over the pairs.

    The function that is returned takes ``start`` and ``end`` [B, N] (seconds, turns of positive duration sorted
    by start, zero padded) and ``lengths`` [B] and gives [B].  Dialogues of zero or one turn give zero.
    """

    @tf.custom_gradient
    def overlap_penalty(start, end, lengths):
        s0, s1, e0, e1 = start[:, :-1], start[:, 1:], end[:, :-1], end[:, 1:]
        pairs = tf.maximum(lengths - 1, 0)
        valid = tf.sequence_mask(pairs, maxlen=s0.shape[1])
        first_ends = e0 <= e1
        overlap = tf.where(first_ends, e0, e1) - s1
        first_shorter = (e0 - s0) <= (e1 - s1)
        shorter = tf.where(valid, tf.where(first_shorter, e0 - s0, e1 - s1), tf.ones_like(e0))
        active = valid & (overlap > 0)
        ratio = tf.where(active, overlap / shorter, tf.ones_like(overlap))
        count = (
            tf.cast(tf.maximum(pairs, 1), start.dtype)[:, None]
            if per_pair
            else tf.ones_like(start[:, :1])
        )
        terms = tf.where(active, ratio**power, tf.zeros_like(ratio))
        value = tf.reduce_sum(terms / count, axis=1)

        def grad(upstream):
            zero = tf.zeros_like(ratio)
            g_ratio = tf.where(
                active, upstream[:, None] / count * power * ratio ** (power - 1.0), zero
            )
            g_overlap = g_ratio / shorter
            g_shorter = -g_ratio * ratio / shorter
            g_first = tf.where(first_shorter, g_shorter, zero)
            g_second = g_shorter - g_first
            g_e0 = tf.where(first_ends, g_overlap, zero) + g_first
            g_e1 = tf.where(first_ends, zero, g_overlap) + g_second
            left, right = [[0, 0], [0, 1]], [[0, 0], [1, 0]]
            g_start = tf.pad(-g_first, left) + tf.pad(-g_overlap - g_second, right)
            g_end = tf.pad(g_e0, left) + tf.pad(g_e1, right)
            return g_start, g_end, None

        return value, grad

    return overlap_penalty


class TurnAttention(tf.keras.layers.Layer):
    """Pools the speaker memories of a dialogue into one vector per head."""

    def __init__(self, heads, n_speakers, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads
        self.n_speakers = n_speakers
        self.score = tf.keras.layers.Dense(heads)

    def build(self, input_shape):
        self.log_temperature = self.add_weight(
            name="log_temperature", shape=(self.heads,), initializer="zeros"
        )
        self.decay = self.add_weight(
            name="decay", shape=(self.n_speakers,), initializer=tf.keras.initializers.Constant(0.8)
        )

    def call(self, turns, speakers, row_splits):
        parts = []
        splits = [int(i) for i in row_splits]
        for lo, hi in zip(splits[:-1], splits[1:]):
            if hi > lo:
                parts.append(
                    speaker_carry(turns[lo:hi], speakers[lo:hi], tf.convert_to_tensor(self.decay))
                )
        memory = tf.concat(parts, axis=0)
        weights = turn_softmax(
            self.score(memory), row_splits, tf.convert_to_tensor(self.log_temperature)
        )
        rows = tf.ragged.row_splits_to_segment_ids(row_splits)
        return tf.math.unsorted_segment_sum(
            weights[:, :, None] * memory[:, None, :], rows, len(splits) - 1
        )
