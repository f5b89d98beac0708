import tensorflow as tf

EPS = 1e-7
OMEGA = 20.0


def _rows(t):
    return tf.reshape(t, [-1, tf.shape(t)[-1]])


def _outer(x, g):
    # [..., I], [..., O] -> [I, O]
    return tf.matmul(_rows(x), _rows(g), transpose_a=True)


def _others(f):
    # product of all the other factors along axis -2
    left = tf.math.cumprod(f, axis=-2, exclusive=True)
    right = tf.math.cumprod(f, axis=-2, exclusive=True, reverse=True)
    return left * right


def hard_sigmoid(b):
    return tf.nn.relu6(b + 3.0) / 6.0


def make_nac(gating="soft"):
    if gating not in ("soft", "hard"):
        raise ValueError(gating)

    def factors(a, b):
        if gating == "soft":
            return tf.tanh(a), tf.sigmoid(b)
        return tf.clip_by_value(a, -1.0, 1.0), hard_sigmoid(b)

    @tf.custom_gradient
    def nac(x, a, b):
        t, s = factors(a, b)
        w = t * s
        y = tf.tensordot(x, w, 1)

        def grad(g):
            gw = _outer(x, g)
            if gating == "soft":
                dt, ds = 1.0 - t * t, s * (1.0 - s)
            else:
                dt = tf.cast(tf.abs(a) < 1.0, a.dtype)
                ds = 0.2 * tf.cast(tf.abs(b) < 2.5, b.dtype)
            return tf.tensordot(g, tf.transpose(w), 1), gw * s * dt, gw * t * ds

        return y, grad

    return nac


@tf.custom_gradient
def nmu(x, w):
    # y_o = prod_i (w_io x_i + 1 - w_io)
    f = w * (x[..., None] - 1.0) + 1.0
    y = tf.reduce_prod(f, axis=-2)

    def grad(g):
        h = g[..., None, :] * _others(f)
        gw = h * (x[..., None] - 1.0)
        lead = tf.range(tf.rank(x) - 1)
        return tf.reduce_sum(h * w, -1), tf.reduce_sum(gw, lead)

    return y, grad


def make_log_path(eps=EPS, omega=OMEGA):
    # x any sign, w in [-1, 1]; magnitude in log space, sign by product
    @tf.custom_gradient
    def log_path(x, w):
        size = tf.maximum(tf.abs(x), eps)
        log_x = tf.math.log(size)
        z = tf.tensordot(log_x, w, 1)
        m = tf.exp(tf.minimum(z, omega))
        aw = tf.abs(w)
        sgn = tf.reduce_prod(tf.sign(x)[..., None] * aw + 1.0 - aw, axis=-2)
        y = m * sgn

        def grad(g):
            gz = tf.where(z < omega, g * y, tf.zeros_like(z))
            inside = tf.cast(tf.abs(x) > eps, x.dtype)
            gx = tf.tensordot(gz, tf.transpose(w), 1) * inside * tf.sign(x) / size
            return gx, _outer(log_x, gz)

        return y, grad

    return log_path


class NAC(tf.Module):
    def __init__(self, n_in, n_out, gating="soft", dtype=tf.float32, name=None):
        super().__init__(name)
        init = tf.initializers.GlorotUniform()
        self.a = tf.Variable(init([n_in, n_out], dtype))
        self.b = tf.Variable(init([n_in, n_out], dtype))
        self.rule = make_nac(gating)

    def __call__(self, x):
        return self.rule(x, tf.convert_to_tensor(self.a), tf.convert_to_tensor(self.b))


class NMU(tf.Module):
    def __init__(self, n_in, n_out, dtype=tf.float32, name=None):
        super().__init__(name)
        self.w = tf.Variable(tf.random.uniform([n_in, n_out], 0.25, 0.75, dtype))

    def __call__(self, x):
        return nmu(x, tf.convert_to_tensor(self.w))

    def clamp(self):
        self.w.assign(tf.clip_by_value(self.w, 0.0, 1.0))


class INALU(tf.Module):
    def __init__(self, n_in, n_out, dtype=tf.float32, name=None):
        super().__init__(name)
        self.add = NAC(n_in, n_out, dtype=dtype)
        self.wm = tf.Variable(tf.random.uniform([n_in, n_out], -0.5, 0.5, dtype))
        self.gate = tf.Variable(tf.zeros([n_out], dtype))
        self.path = make_log_path()

    def __call__(self, x):
        g = tf.sigmoid(self.gate)
        return g * self.add(x) + (1.0 - g) * self.path(x, tf.convert_to_tensor(self.wm))


def fit(unit, x, y, steps=500, rate=1e-2):
    # x [B, I], y [B, O]
    opt = tf.keras.optimizers.Adam(rate)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(unit(x) - y))
        vs = unit.trainable_variables
        opt.apply_gradients(zip(tape.gradient(loss, vs), vs))
        if hasattr(unit, "clamp"):
            unit.clamp()
    return float(loss)


def main():
    x = tf.random.uniform([256, 5], -2.0, 2.0)
    y = tf.stack([x[:, 0] + x[:, 1], x[:, 2] - x[:, 3]], -1)
    print("nac", fit(NAC(5, 2, "hard"), x, y))
    print("nmu", fit(NMU(5, 1), x, x[:, :1] * x[:, 4:]))
    print("inalu", fit(INALU(5, 1), x, x[:, :1] * x[:, 4:]))


if __name__ == "__main__":
    main()
