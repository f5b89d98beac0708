import keras
from keras import ops


def soft_nearest_neighbor(features, temperature, labels):
    """Soft nearest neighbour loss (entanglement of classes).

    features: [n, d]; temperature: positive scalar tensor, learned; labels: [n] integers.
    Samples without another one of their class are left out of the mean; a batch in which
    no sample has one gives zero.
    """
    same = ops.equal(labels[:, None], labels[None, :])
    off_diagonal = ops.logical_not(ops.cast(ops.eye(ops.shape(features)[0]), "bool"))
    positive = ops.logical_and(same, off_diagonal)

    @ops.custom_gradient
    def loss(x, t):
        keep = ops.any(positive, axis=1)
        n_keep = ops.sum(ops.cast(keep, x.dtype))
        n_keep = ops.where(n_keep > 0, n_keep, 1.0)
        diff = x[:, None, :] - x[None, :, :]
        dist = ops.sum(ops.square(diff), axis=-1)

        def weights(mask):
            s = ops.where(mask, -dist / t, -1e30)
            top = ops.max(s, axis=1, keepdims=True)
            e = ops.where(mask, ops.exp(s - top), 0.0)
            total = ops.sum(e, axis=1, keepdims=True)
            total = ops.where(total > 0, total, 1.0)
            return e / total, (top + ops.log(total))[:, 0]

        w_all, lse_all = weights(off_diagonal)
        w_pos, lse_pos = weights(positive)
        value = ops.sum(ops.where(keep, lse_all - lse_pos, 0.0)) / n_keep

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            d_score = g * ops.where(keep[:, None], w_all - w_pos, 0.0) / n_keep
            d_dist = -d_score / t
            pull = d_dist + ops.transpose(d_dist)
            d_x = 2.0 * ops.sum(pull[:, :, None] * diff, axis=1)
            return d_x, ops.sum(d_score * dist) / (t * t)

        return value, grad

    return loss(features, temperature)


def instrument_affine(traces, log_gain, offset, instrument_ids):
    """Per-instrument gain and offset on [batch, time, channels]; tables are [instruments, channels]."""
    rows = ops.cast(instrument_ids, "int32")

    @ops.custom_gradient
    def apply(x, lg, off):
        gain = ops.exp(ops.take(lg, rows, axis=0))[:, None, :]
        scaled = x * gain

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            index = rows[:, None]
            d_lg = ops.scatter_update(ops.zeros_like(lg), index, ops.sum(g * scaled, axis=1))
            d_off = ops.scatter_update(ops.zeros_like(off), index, ops.sum(g, axis=1))
            return g * gain, d_lg, d_off

        return scaled + ops.take(off, rows, axis=0)[:, None, :], grad

    return apply(traces, log_gain, offset)


class EvoNormS0(keras.layers.Layer):
    def __init__(self, groups=1, epsilon=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.groups = groups
        self.epsilon = epsilon

    def build(self, shape):
        c = (shape[-1],)
        self.gamma = self.add_weight(shape=c, initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=c, initializer="zeros", name="beta")
        self.v = self.add_weight(shape=c, initializer="ones", name="v")

    def call(self, inputs):
        rule = make_evonorm(self.groups, self.epsilon)
        return rule(inputs, 1.0 * self.gamma, 1.0 * self.beta, 1.0 * self.v)


def make_evonorm(groups=1, epsilon=1e-5):
    @ops.custom_gradient
    def evonorm(x, gamma, beta, v):
        b, h, w, c = x.shape
        grouped = (b, h, w, groups, c // groups)

        def spread(stat):
            return ops.reshape(ops.broadcast_to(stat, grouped), (b, h, w, c))

        xg = ops.reshape(x, grouped)
        count = h * w * (c // groups)
        centred = xg - ops.sum(xg, axis=(1, 2, 4), keepdims=True) / count
        var = ops.sum(ops.square(centred), axis=(1, 2, 4), keepdims=True) / count
        inv = ops.rsqrt(var + epsilon)
        gate = ops.sigmoid(v * x)
        num = x * gate
        normed = num * spread(inv)

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            gn = g * gamma
            d_num = gn * spread(inv)
            d_inv = ops.sum(ops.reshape(gn * num, grouped), axis=(1, 2, 4), keepdims=True)
            d_var = -0.5 * d_inv * inv * inv * inv
            d_stat = ops.reshape(2.0 * d_var * centred, (b, h, w, c)) / (h * w * c)
            slope = gate * (1.0 - gate)
            d_x = d_num * (gate + x * v * slope) + d_stat
            axes = (0, 1, 2)
            return (
                d_x,
                ops.sum(g * normed, axis=axes),
                ops.sum(g, axis=axes),
                ops.sum(d_num * x * x * slope, axis=axes),
            )

        return normed * gamma + beta, grad

    return evonorm
