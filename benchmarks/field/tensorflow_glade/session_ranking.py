"""Session encoders and slate objectives for the feed ranker."""
import numpy as np
import tensorflow as tf

_COMBINERS = ("sum", "mean", "sqrtn")


def recency_weights(age_days: np.ndarray, half_life: float = 7.0) -> np.ndarray:
    return np.exp2(-np.asarray(age_days, np.float32) / half_life)


def make_session_pool(num_sessions: int, combiner: str = "mean"):
    """Weighted pooling of a ragged batch of item vectors into sessions.

    Args:
      num_sessions: number of rows of the result.
      combiner: ``"sum"`` gives ``sum_i w_i v_i``; ``"mean"`` divides that by ``sum_i w_i`` and
        ``"sqrtn"`` by ``sqrt(sum_i w_i**2)``, as in `tf.nn.embedding_lookup_sparse`.

    Returns:
      ``pool(values, weights, session)`` with values [L, D], positive weights [L] and int session
      [L] in any order, with repeats. A session without items is a row of zeros.
    """
    if combiner not in _COMBINERS:
        raise ValueError(f"combiner must be one of {_COMBINERS}, got {combiner!r}")

    def normaliser(weights, session):
        if combiner == "sum":
            return tf.ones([num_sessions], weights.dtype)
        if combiner == "mean":
            return tf.math.unsorted_segment_sum(weights, session, num_sessions)
        return tf.sqrt(tf.math.unsorted_segment_sum(weights * weights, session, num_sessions))

    @tf.custom_gradient
    def pool(values, weights, session):
        norm = normaliser(weights, session)
        summed = tf.math.unsorted_segment_sum(values * weights[:, None], session, num_sessions)
        pooled = tf.math.divide_no_nan(summed, norm[:, None])

        def grad(upstream):
            g = tf.gather(upstream, session) / tf.gather(norm, session)[:, None]
            d_values = g * weights[:, None]
            # the normaliser moves with the weights too
            centred = values if combiner == "sum" else values - tf.gather(pooled, session)
            d_weights = tf.reduce_sum(g * centred, axis=-1)
            return d_values, d_weights, None

        return pooled, grad

    return pool


def _discounts(kind: str, length: int, persistence: float) -> np.ndarray:
    rank = np.arange(1, length + 1, dtype=np.float64)
    if kind == "reciprocal":
        return 1.0 / rank
    if kind == "log2":
        return 1.0 / np.log2(1.0 + rank)
    if kind == "geometric":
        return persistence ** (rank - 1.0)
    raise ValueError(kind)


def make_expected_gain(discount: str = "reciprocal", persistence: float = 0.8):
    """Expected gain of a reader who scans a list and stops at the first item that satisfies.

    With probabilities ``p`` the gain is ``sum_n c_n p_n prod_{m < n} (1 - p_m)`` over the shown
    items, ``n`` their rank among the shown ones and ``c_n`` the discount; ``"reciprocal"`` is
    expected reciprocal rank.

    The returned function takes p [B, L] in the closed interval [0, 1], in the order of the list,
    and shown [B, L] (bool; entries that are not shown take no rank, wherever they are), and
    returns [B].
    """

    @tf.custom_gradient
    def gain(p, shown):
        table = tf.constant(_discounts(discount, int(p.shape[1]), persistence), p.dtype)
        live = tf.cast(shown, p.dtype)
        rank = tf.maximum(tf.cumsum(tf.cast(shown, tf.int32), axis=-1) - 1, 0)
        c = tf.gather(table, rank)
        reach = tf.math.cumprod(1.0 - live * p, axis=-1, exclusive=True)

        # value of what follows, from the end: no division, so p = 1 is fine
        value = tf.zeros_like(p[:, 0])
        after = []
        for n in reversed(range(int(p.shape[1]))):
            after.append(value)
            q = live[:, n] * p[:, n]
            value = q * c[:, n] + (1.0 - q) * value
        after = tf.stack(after[::-1], axis=-1)

        def grad(upstream):
            return upstream[:, None] * live * reach * (c - after), None

        return value, grad

    return gain


def make_slate_gate(k: int, temperature: float = 1.0):
    """0/1 indicator of the ``k`` best entries along the last axis (first index wins ties).

    The indicator has no useful derivative. On purpose the backward pass is that of
    ``k * softmax(scores / temperature)`` instead, a straight-through estimator; it is not the
    gradient of what is returned.
    """

    @tf.custom_gradient
    def gate(scores):
        _, top = tf.math.top_k(scores, k=k)
        hard = tf.reduce_sum(tf.one_hot(top, tf.shape(scores)[-1], dtype=scores.dtype), axis=-2)

        def grad(upstream):
            soft = tf.nn.softmax(scores / temperature, axis=-1)
            inner = tf.reduce_sum(upstream * soft, axis=-1, keepdims=True)
            return (k / temperature) * soft * (upstream - inner)

        return hard, grad

    return gate


class SessionRanker(tf.Module):
    """Dot product of a pooled session with candidate items."""

    def __init__(self, num_items: int, dim: int, combiner: str = "mean", slate: int = 3, seed: int = 0):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.items = tf.Variable(0.1 * rng.standard_normal((num_items, dim)).astype(np.float32))
        self.combiner = combiner
        self.gate = make_slate_gate(slate)
        self.gain = make_expected_gain()

    def __call__(self, history, age_days, session, candidates):
        values = tf.gather(self.items, history)
        weights = tf.constant(recency_weights(age_days))
        pooled = make_session_pool(candidates.shape[0], self.combiner)(values, weights, session)
        return tf.einsum("bd,bld->bl", pooled, tf.gather(self.items, candidates))

    def loss(self, history, age_days, session, candidates, shown, utility):
        scores = self(history, age_days, session, candidates)
        revenue = tf.reduce_sum(self.gate(scores) * utility, axis=-1)
        return tf.reduce_mean(-self.gain(tf.sigmoid(scores), shown) - 0.1 * revenue)
