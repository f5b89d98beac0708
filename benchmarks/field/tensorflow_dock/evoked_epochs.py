import numpy as np
import tensorflow as tf

BANDS = {"theta": (4.0, 8.0), "alpha": (8.0, 13.0), "beta": (13.0, 30.0)}
MONTAGE = ["Fp1", "Fp2", "C3", "C4", "O1", "O2", "M1", "M2"]


def picks(names, montage=MONTAGE):
    return [montage.index(n) for n in names]


# ---------------------------------------------------------------- leads

CHAIN = [("Fp1", "C3"), ("C3", "O1"), ("Fp2", "C4"), ("C4", "O2")]


def make_leads(pairs):
    """pairs: (first, second) channel numbers of each lead. An electrode may serve in any
    number of leads, on either side."""
    first = tf.constant([[a] for a, _ in pairs])
    second = tf.constant([[b] for _, b in pairs])

    @tf.custom_gradient
    def leads(v):  # v: (epochs, channels, samples) -> (epochs, leads, samples)
        by_channel = tf.transpose(v, [1, 0, 2])
        out = tf.gather_nd(by_channel, first) - tf.gather_nd(by_channel, second)

        def grad(g):
            g = tf.transpose(g, [1, 0, 2])
            dv = tf.tensor_scatter_nd_update(tf.zeros_like(by_channel), first, g)
            dv = tf.tensor_scatter_nd_sub(dv, second, g)
            return tf.transpose(dv, [1, 0, 2])

        return tf.transpose(out, [1, 0, 2]), grad

    return leads


# ---------------------------------------------------------------- baseline

def make_baseline(times, window, mode="mean"):
    """
    Parameters
    ----------
    times : sequence of float, seconds, one per sample
    window : (start, stop), both included
    mode : 'mean'     v - m
           'ratio'    v / m
           'percent'  (v - m) / m

    The result is a function on (..., samples), m being the mean of v in the window.
    For the last two m must not be nought (they are meant for power).
    """
    if mode not in ("mean", "ratio", "percent"):
        raise ValueError(mode)
    times = np.asarray(times)
    inside = (times >= window[0]) & (times <= window[1])
    n = int(inside.sum())
    if n == 0:
        raise ValueError("empty baseline window")

    @tf.custom_gradient
    def baseline(v):
        w = tf.constant(inside, dtype=tf.bool)
        w = tf.cast(w, v.dtype) / n
        m = tf.reduce_sum(v * w, axis=-1, keepdims=True)
        if mode == "mean":
            out = v - m
        elif mode == "ratio":
            out = v / m
        else:
            out = (v - m) / m

        def grad(g):
            if mode == "mean":
                return g - tf.cast(inside, g.dtype) * tf.reduce_sum(
                    g * w, axis=-1, keepdims=True)
            # 'percent' is 'ratio' less a constant
            pull = tf.reduce_sum(g * v, axis=-1, keepdims=True) / (m * m)
            return g / m - w * pull

        return out, grad

    return baseline


# ---------------------------------------------------------------- spatial filters

def make_csp_power(relative=True):
    """Log power of spatially filtered epochs, the features of a common-spatial-pattern decoder.

    The function returned takes

        v        (epochs, channels, samples)
        filters  (components, channels)
        lengths  (epochs,) int, samples recorded in each epoch, at least 2

    and gives (epochs, components). What is stored after the end of an epoch is not
    used. With ``relative`` the powers of an epoch are divided by their sum.
    """

    @tf.custom_gradient
    def csp_power(v, filters, lengths):
        keep = tf.sequence_mask(lengths, v.shape[-1], dtype=v.dtype)[:, None]
        n = tf.cast(lengths, v.dtype)[:, None, None]
        y = tf.einsum("kc,bct->bkt", filters, v)
        y = (y - tf.reduce_sum(y * keep, -1, keepdims=True) / n) * keep
        power = tf.reduce_sum(y * y, -1) / n[..., 0]
        out = tf.math.log(power)
        if relative:
            out -= tf.math.log(tf.reduce_sum(power, -1, keepdims=True))

        def grad(g):
            gp = g / power
            if relative:
                gp -= tf.reduce_sum(g, -1, keepdims=True) / tf.reduce_sum(
                    power, -1, keepdims=True)
            gy = 2.0 * gp[..., None] * y / n
            return (
                tf.einsum("kc,bkt->bct", filters, gy),
                tf.einsum("bkt,bct->kc", gy, v),
                None,
            )

        return out, grad

    return csp_power


class Decoder(tf.Module):
    def __init__(self, leads=CHAIN, components=3, classes=2, seed=0):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.filters = tf.Variable(rng.normal(size=(components, len(leads))), dtype=tf.float32)
        self.readout = tf.Variable(np.zeros((components, classes)), dtype=tf.float32)
        self.bias = tf.Variable(np.zeros(classes), dtype=tf.float32)
        self.leads = make_leads([picks(pair) for pair in leads])
        self.features = make_csp_power()

    def __call__(self, v, lengths, times, window=(-0.2, 0.0)):
        v = make_baseline(times, window)(self.leads(v))
        f = self.features(v, tf.identity(self.filters), lengths)
        return f @ self.readout + self.bias


def fit(decoder, v, lengths, labels, times, steps=50, lr=0.05):
    history = []
    for _ in range(steps):
        with tf.GradientTape() as tape:
            logits = decoder(v, lengths, times)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        for var, g in zip(decoder.trainable_variables,
                          tape.gradient(loss, decoder.trainable_variables)):
            var.assign_sub(lr * g)
        history.append(float(loss))
    return history
