import argparse

import numpy as np
import tensorflow as tf

EPS = 1e-5


def valid(lengths, steps, dtype):
    return tf.sequence_mask(lengths, steps, dtype=dtype)


@tf.custom_gradient
def rhythm_norm(x, gain, lengths):
    m = valid(lengths, tf.shape(x)[1], x.dtype)[..., None]
    n = tf.maximum(tf.reduce_sum(m, 1, keepdims=True), 1.0)

    def avg(v):
        return tf.reduce_sum(v * m, 1, keepdims=True) / n

    c = (x - avg(x)) * m
    r = tf.math.rsqrt(avg(c * c) + EPS)
    z = c * r

    def back(dy):
        dz = dy * gain * m
        dx = r * (dz - avg(dz) * m - z * avg(dz * z))
        return dx, tf.reduce_sum(dy * z, [0, 1]), None

    return z * gain, back


@tf.custom_gradient
def template_distance(probe, template, spread):
    z = (probe[:, None, :] - template[None, :, :]) / spread
    a = tf.abs(z)

    def back(dy):
        s = dy[:, :, None] * tf.sign(z) / spread
        return tf.reduce_sum(s, 1), -tf.reduce_sum(s, 0), -tf.einsum("ij,ijk->k", dy, a)

    return tf.reduce_sum(a, -1), back


def make_flight_times(order=1):
    # order 1: digraphs, 2: trigraphs, ...
    if order < 1:
        raise ValueError("order must be positive")

    @tf.custom_gradient
    def flight_times(press, release, tau):
        gap = press[:, order:] - release[:, :-order]
        # negative when the typist rolls over
        u = gap / tau
        y = tf.asinh(u)

        def back(dy):
            du = dy / tf.sqrt(1.0 + u * u)
            dgap = du / tau
            dpress = tf.pad(dgap, [[0, 0], [1, order - 1]])
            drelease = -tf.pad(dgap, [[0, 0], [0, order]])
            dtau = -tf.reduce_sum(dgap * u, 1, keepdims=True)
            return dpress, drelease, dtau

        return y, back

    return flight_times


class TypistEncoder(tf.Module):
    def __init__(self, orders=(1, 2), width=16, seed=0):
        super().__init__()
        self.flights = [make_flight_times(k) for k in orders]
        self.orders = orders
        rng = np.random.default_rng(seed)
        self.gain = tf.Variable(np.ones(len(orders) + 1), dtype=tf.float32)
        self.mix = tf.Variable(rng.normal(0, 0.3, (len(orders) + 1, width)), dtype=tf.float32)
        self.log_tau = tf.Variable(np.full((1, 1), -2.0), dtype=tf.float32)
        self.log_spread = tf.Variable(np.zeros(width), dtype=tf.float32)

    def features(self, press, release):
        tau = tf.exp(self.log_tau) * tf.ones_like(press[:, :1])
        cols = [release - press]
        for k, f in zip(self.orders, self.flights):
            cols.append(tf.pad(f(press, release, tau), [[0, 0], [0, k]]))
        return tf.stack(cols, -1)

    def embed(self, press, release, lengths):
        x = self.features(press, release)
        z = rhythm_norm(x, tf.convert_to_tensor(self.gain), lengths)
        h = tf.tanh(z @ self.mix)
        m = valid(lengths, tf.shape(h)[1], h.dtype)[..., None]
        return tf.reduce_sum(h * m, 1) / tf.reduce_sum(m, 1)

    def __call__(self, probe, enrolled):
        a = self.embed(*probe)
        b = self.embed(*enrolled)
        return template_distance(a, b, tf.exp(self.log_spread))


def fake_session(rng, people=6, keys=24):
    dwell = rng.uniform(0.06, 0.14, (people, keys))
    press = np.cumsum(rng.uniform(0.08, 0.3, (people, keys)), 1)
    lengths = rng.integers(keys // 2, keys + 1, people)
    return (
        tf.constant(press, tf.float32),
        tf.constant(press + dwell, tf.float32),
        tf.constant(lengths, tf.int32),
    )


def train(steps=100, rate=0.02, margin=1.0, seed=0):
    rng = np.random.default_rng(seed)
    model = TypistEncoder(seed=seed)
    enrolled = fake_session(rng)
    opt = tf.keras.optimizers.Adam(rate)
    history = []
    for _ in range(steps):
        probe = fake_session(rng)
        with tf.GradientTape() as tape:
            d = model(probe, enrolled)  # [6, 6]
            same = tf.linalg.diag_part(d)
            rest = tf.linalg.set_diag(d, tf.fill(tf.shape(same), 1e3))
            loss = tf.reduce_mean(tf.nn.relu(margin + same - tf.reduce_min(rest, 1)))
        slopes = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(slopes, model.trainable_variables))
        history.append(float(loss))
    return model, history


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=100)
    ap.add_argument("--rate", type=float, default=0.02)
    args = ap.parse_args()
    _, history = train(args.steps, args.rate)
    print(f"{history[0]:.4f} -> {history[-1]:.4f}")


if __name__ == "__main__":
    main()
