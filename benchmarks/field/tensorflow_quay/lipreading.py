import collections

import tensorflow as tf

EPS = 1e-5
Clip = collections.namedtuple("Clip", "landmarks video audio lengths phones")

# phone -> viseme class
VISEME_OF = [0, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4, 5, 5, 6]
N_VISEMES = 1 + max(VISEME_OF)


def frame_mask(lengths, t, dtype):
    return tf.sequence_mask(lengths, t, dtype=dtype)


def _shift(x, k):
    # y[:, t] = x[:, t + k], silence outside the clip
    t = x.shape[1]
    if k >= 0:
        return tf.pad(x[:, k:], [[0, 0], [0, min(k, t)], [0, 0]])
    return tf.pad(x[:, : max(t + k, 0)], [[0, 0], [min(-k, t), 0], [0, 0]])


@tf.custom_gradient
def landmark_norm(x, mask, gain, bias):
    # x: (batch, time, points, 2); mask: (batch, time), 1 where the face was tracked
    # gain, bias: (points, 2)
    m = mask[:, :, None, None]
    count = tf.reduce_sum(m, axis=[1, 2], keepdims=True) * x.shape[2]
    count = tf.maximum(count, 1.0)
    mu = tf.reduce_sum(x * m, axis=[1, 2], keepdims=True) / count
    xc = (x - mu) * m
    var = tf.reduce_sum(xc * xc, axis=[1, 2], keepdims=True) / count
    rstd = tf.math.rsqrt(var + EPS)
    xhat = xc * rstd
    y = (xhat * gain + bias) * m

    def grad(dy):
        dy = dy * m
        dxhat = dy * gain
        mean_d = tf.reduce_mean(dxhat, axis=[1, 2], keepdims=True)
        mean_dx = tf.reduce_mean(dxhat * xhat, axis=[1, 2], keepdims=True)
        dx = rstd * (dxhat - mean_d - xhat * mean_dx) * m
        return dx, None, tf.reduce_sum(dy * xhat, [0, 1]), tf.reduce_sum(dy, [0, 1])

    return y, grad


class MouthPool(tf.keras.layers.Layer):
    FLOOR = 0.05

    def __init__(self, units, **kw):
        super().__init__(**kw)
        self.proj = tf.keras.layers.Dense(units)
        self.key = tf.keras.layers.Dense(1)

    @staticmethod
    @tf.custom_gradient
    def _pooled(x, logit, lengths):
        keep = tf.sequence_mask(lengths, x.shape[1])
        low = tf.fill(tf.shape(logit), tf.constant(-1e30, logit.dtype))
        safe = tf.where(keep, logit, low)
        e = tf.exp(safe - tf.reduce_max(safe, axis=1, keepdims=True))
        e = tf.where(keep, e, tf.zeros_like(e))
        total = tf.reduce_sum(e, axis=1, keepdims=True)
        p = tf.math.divide_no_nan(e, total)
        n = tf.cast(lengths, x.dtype)[:, None]
        flat = tf.math.divide_no_nan(tf.cast(keep, x.dtype), n)
        eps = MouthPool.FLOOR
        a = (1.0 - eps) * p + eps * flat
        out = tf.einsum("bt,btc->bc", a, x)

        def grad(dout):
            s = tf.einsum("bc,btc->bt", dout, x)
            dlogit = (1.0 - eps) * p * (s - tf.reduce_sum(p * s, axis=1, keepdims=True))
            return a[:, :, None] * dout[:, None, :], dlogit, None

        return out, grad

    def call(self, x, lengths):
        h = self.proj(x)
        return self._pooled(h, tf.squeeze(self.key(tf.tanh(h)), -1), lengths)


def make_sync_scores(max_lag):
    lags = range(-max_lag, max_lag + 1)

    @tf.custom_gradient
    def scores(video, audio, tau):
        n = video.shape[1]
        raw = tf.stack(
            [tf.reduce_sum(video * _shift(audio, k), axis=[1, 2]) for k in lags], axis=1
        ) / n

        def grad(g):
            w = g * tau / n
            dv = tf.add_n([w[:, i, None, None] * _shift(audio, k) for i, k in enumerate(lags)])
            da = tf.add_n([w[:, i, None, None] * _shift(video, k) for i, k in enumerate(lags)])
            return dv, da, tf.reduce_sum(g * raw)

        return raw * tau, grad

    return scores


def unit_frames(x):
    return x / (tf.norm(x, axis=-1, keepdims=True) + 1e-6)


def sync_loss(video, audio, tau, offset, max_lag=5):
    # offset: (batch,) true lag in frames
    s = make_sync_scores(max_lag)(unit_frames(video), unit_frames(audio), tau)
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=offset + max_lag, logits=s)
    )


class LipReader(tf.keras.Model):
    def __init__(self, points=20, units=64):
        super().__init__()
        self.gain = self.add_weight(shape=(points, 2), initializer="ones", name="gain")
        self.shift = self.add_weight(shape=(points, 2), initializer="zeros", name="shift")
        self.pool = MouthPool(units)
        self.head = tf.keras.layers.Dense(N_VISEMES)

    def call(self, clip):
        t = clip.landmarks.shape[1]
        mask = frame_mask(clip.lengths, t, clip.landmarks.dtype)
        x = landmark_norm(
            clip.landmarks, mask, tf.convert_to_tensor(self.gain), tf.convert_to_tensor(self.shift)
        )
        x = tf.reshape(x, [x.shape[0], t, -1])
        return self.head(self.pool(tf.concat([x, clip.video], -1), clip.lengths))


def train_step(model, opt, clip, tau):
    target = tf.gather(tf.constant(VISEME_OF), clip.phones)
    zero = tf.zeros_like(clip.lengths)
    with tf.GradientTape() as tape:
        logits = model(clip)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
        )
        loss += 0.1 * sync_loss(clip.video, clip.audio, tau, zero)
    v = model.trainable_variables
    opt.apply_gradients(zip(tape.gradient(loss, v), v))
    return loss


def main(steps=10):
    b, t = 4, 30
    clip = Clip(
        tf.random.normal([b, t, 20, 2]),
        tf.random.normal([b, t, 16]),
        tf.random.normal([b, t, 16]),
        tf.constant([30, 21, 17, 8]),
        tf.constant([1, 5, 9, 13]),
    )
    model, opt = LipReader(), tf.keras.optimizers.Adam(1e-3)
    for _ in range(steps):
        loss = train_step(model, opt, clip, tf.constant(8.0))
    return float(loss)


if __name__ == "__main__":
    main()
