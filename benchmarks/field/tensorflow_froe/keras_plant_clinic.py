"""Houseplant clinic: what ails the plant on the photo, and how long will it take to recover?

Three parts of the model carry their own gradient (written with keras.ops, so they run on every backend):

* ``view_agreement``: the two-photo clustering objective for the unlabelled pictures,
* ``leaf_histogram``: a soft hue histogram of the leaf's pixels,
* ``recovery_days``:  draws from the gardener's three-point guess.
"""

import keras
from keras import ops


def _upstream(args, upstream):
    # torch hands the cotangent over by name, the others as the only argument
    return args[-1] if upstream is None else upstream


def _fit(grad, like):
    """Sum grad over everything along which `like` was broadcast."""
    extra = len(grad.shape) - len(like.shape)
    if extra:
        grad = ops.sum(grad, axis=tuple(range(extra)))
    ones = tuple(i for i, n in enumerate(like.shape) if n == 1 and grad.shape[i] != 1)
    return ops.sum(grad, axis=ones, keepdims=True) if ones else grad


def make_view_agreement(symmetric=True):
    """Negative mutual information of the cluster assignments of two photos of the same plant.

    p, q: (plants, clusters) softmax outputs of the two views, weight: (plants,) non-negative trust in
    the pair. The joint table is the weighted average of the outer products; ``symmetric`` averages it
    with its transpose, since neither photo is the first one.
    """

    @ops.custom_gradient
    def view_agreement(p, q, weight):
        mass = ops.sum(weight)
        raw = ops.einsum("nk,nl->kl", p * weight[:, None], q) / mass
        joint = 0.5 * (raw + ops.transpose(raw)) if symmetric else raw
        rows = ops.sum(joint, axis=1, keepdims=True)
        cols = ops.sum(joint, axis=0, keepdims=True)
        gain = ops.log(joint) - ops.log(rows) - ops.log(cols)
        loss = -ops.sum(joint * gain)

        def grad(*args, upstream=None):
            up = _upstream(args, upstream)
            table = up * (1.0 - gain)
            if symmetric:
                table = 0.5 * (table + ops.transpose(table))
            p_side = ops.einsum("nk,kl->nl", p, table)
            share = (weight / mass)[:, None]
            d_p = share * ops.einsum("nl,kl->nk", q, table)
            d_q = share * p_side
            d_weight = (ops.sum(p_side * q, axis=1) - ops.sum(table * raw)) / mass
            return d_p, d_q, d_weight

        return loss, grad

    return view_agreement


def make_leaf_histogram(width):
    """Soft histogram with triangular bins of half-width `width`.

    The returned function takes hues (leaves, pixels), bin centres (bins,) in rising order and the
    leaf mask (leaves, pixels), 1 on the leaf and 0 on the background, and gives the share of the
    leaf's pixels in each bin, (leaves, bins). The outermost bins are open: a hue below the first
    centre counts fully in the first bin, a hue above the last centre fully in the last.
    """

    @ops.custom_gradient
    def leaf_histogram(hue, centres, mask):
        bins = centres.shape[0]
        first = ops.arange(bins) == 0
        last = ops.arange(bins) == bins - 1
        offset = (hue[..., None] - centres) / width
        member = ops.relu(1.0 - ops.abs(offset))
        open_end = ops.logical_or(
            ops.logical_and(first, offset < 0), ops.logical_and(last, offset > 0)
        )
        member = ops.where(open_end, ops.ones_like(member), member)
        total = ops.sum(mask, axis=1, keepdims=True)
        total = ops.where(total > 0, total, ops.ones_like(total))
        share = ops.sum(member * mask[..., None], axis=1) / total

        def grad(*args, upstream=None):
            up = _upstream(args, upstream) / total
            near = ops.cast(ops.abs(offset) < 1.0, offset.dtype)
            slope = -ops.sign(offset) * near / width
            pull = up[:, None, :] * slope * mask[..., None]
            d_mask = ops.sum(up[:, None, :] * (member - share[:, None, :]), axis=-1)
            return ops.sum(pull, axis=-1), -ops.sum(pull, axis=(0, 1)), d_mask

        return share, grad

    return leaf_histogram


@ops.custom_gradient
def recovery_days(u, low, mode, high):
    """Quantile u of the triangular distribution on [low, high] with its peak at mode.

    All four broadcast against each other; 0 < u < 1, low <= mode <= high and low < high. A guess
    whose best case is also the likeliest (mode == low) is common, and so is mode == high.
    """
    span = high - low
    rising = u < (mode - low) / span
    falling = ops.logical_not(rising)
    front = u * span * (mode - low)
    back = (1.0 - u) * span * (high - mode)
    r = ops.sqrt(ops.where(rising, front, ops.ones_like(front)))
    s = ops.sqrt(ops.where(falling, back, ops.ones_like(back)))
    days = ops.where(rising, low + r, high - s)

    def grad(*args, upstream=None):
        up = _upstream(args, upstream)

        def half(root, over, used):
            over = over + ops.zeros_like(root)
            return 0.5 * root / ops.where(used, over, ops.ones_like(over))

        r_span, s_span = half(r, span, rising), half(s, span, falling)
        r_mode, s_mode = half(r, mode - low, rising), half(s, high - mode, falling)
        d_u = ops.where(rising, half(r, u, rising), half(s, 1.0 - u, falling))
        d_low = ops.where(rising, 1.0 - r_span - r_mode, s_span)
        d_mode = ops.where(rising, r_mode, s_mode)
        d_high = ops.where(rising, r_span, 1.0 - s_span - s_mode)
        return (
            _fit(up * d_u, u),
            _fit(up * d_low, low),
            _fit(up * d_mode, mode),
            _fit(up * d_high, high),
        )

    return days, grad


class HueBins(keras.layers.Layer):
    """Hue histogram with trainable centres."""

    def __init__(self, bins=8, **kwargs):
        super().__init__(**kwargs)
        self.bins = bins
        self.histogram = make_leaf_histogram(1.0 / bins)

    def build(self, input_shape):
        start = keras.ops.convert_to_numpy(ops.linspace(0.5 / self.bins, 1.0 - 0.5 / self.bins, self.bins))
        self.centres = self.add_weight(
            shape=(self.bins,), initializer=lambda shape, dtype=None: ops.cast(start, dtype or "float32"), name="centres"
        )

    def call(self, hue, mask):
        centres = ops.multiply(self.centres, 1)  # a tensor: TensorFlow refuses the variable itself
        return self.histogram(hue, centres, ops.cast(mask, hue.dtype))
