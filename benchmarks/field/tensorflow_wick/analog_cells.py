import numpy as np
import tensorflow as tf

UT = 0.02585     # V, 27 C
SLOPE_N = 1.35
C_PAR = 0.8      # top-plate parasitic, in unit caps
A_VT = 3.2       # mV um
S_VT = 0.004     # mV / um

PROCESS = {
    "n": dict(vt0=0.42, beta=2.7e-4, lam=0.08),
    "p": dict(vt0=0.45, beta=0.9e-4, lam=0.12),
}


def unbroadcast(g, like):
    while g.shape.rank > like.shape.rank:
        g = tf.reduce_sum(g, 0)
    for ax, size in enumerate(like.shape):
        if size == 1:
            g = tf.reduce_sum(g, ax, keepdims=True)
    return g


def drain_current(vg, vd, vs, wl, polarity="n"):
    """EKV drain current in uA, bulk referred; everything broadcasts.

    polarity "n": positive into the drain; "p": all voltages and the current change sign.
    Either end may act as the source.
    """
    par = PROCESS[polarity]
    s = 1.0 if polarity == "n" else -1.0

    @tf.custom_gradient
    def ekv(vg, vd, vs, wl):
        vp = (s * vg - par["vt0"]) / SLOPE_N
        uf = (vp - s * vs) / (2 * UT)
        ur = (vp - s * vd) / (2 * UT)
        lf, lr = tf.math.softplus(uf), tf.math.softplus(ur)
        i0 = 1e6 * 2 * SLOPE_N * par["beta"] * UT ** 2
        core = lf ** 2 - lr ** 2
        vds = s * (vd - vs)
        mod = 1 + par["lam"] * tf.abs(vds)
        out = s * i0 * wl * core * mod

        def grad(up):
            qf = lf * tf.sigmoid(uf) / UT
            qr = lr * tf.sigmoid(ur) / UT
            k = up * i0 * wl
            early = k * core * par["lam"] * tf.sign(vds)
            return (
                unbroadcast(k * mod * (qf - qr) / SLOPE_N, vg),
                unbroadcast(k * mod * qr + early, vd),
                unbroadcast(-k * mod * qf - early, vs),
                unbroadcast(up * s * i0 * core * mod, wl),
            )

        return out, grad

    return ekv(*(tf.convert_to_tensor(a) for a in (vg, vd, vs, wl)))


class CrossbarDense(tf.Module):
    """Differential memristor layer: two conductances per weight, sense resistor on each column pair.

    i_j = sum_i x_i (g+_ij - g-_ij) / (1 + r_sense sum_i (g+_ij + g-_ij))
    x: (..., rows). r_sense=0 is the ideal virtual ground.
    """

    def __init__(self, rows, cols, r_sense=0.0, dtype=tf.float32, seed=0):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.gp = tf.Variable(rng.uniform(0.1, 1.0, (rows, cols)), dtype=dtype, name="gp")
        self.gn = tf.Variable(rng.uniform(0.1, 1.0, (rows, cols)), dtype=dtype, name="gn")
        self.r_sense = r_sense

    def __call__(self, x):
        r = self.r_sense

        @tf.custom_gradient
        def read(x):
            w = self.gp - self.gn
            load = 1 + r * tf.reduce_sum(self.gp + self.gn, 0)
            raw = tf.einsum("...i,ij->...j", x, w)
            y = raw / load

            def grad(dy, variables=None):
                dr = dy / load
                dx = tf.einsum("...j,ij->...i", dr, w)
                flat_x = tf.reshape(x, [-1, x.shape[-1]])
                flat_r = tf.reshape(dr, [-1, dr.shape[-1]])
                pull = tf.reduce_sum(tf.reshape(dr * y, [-1, dr.shape[-1]]), 0)
                dg = tf.matmul(flat_x, flat_r, transpose_a=True) - r * pull
                table = {self.gp.ref(): dg, self.gn.ref(): -dg}
                return dx, [table[v.ref()] for v in variables or []]

            return y, grad

        return read(x)

    def clip(self, lo=0.02, hi=1.2):
        for g in (self.gp, self.gn):
            g.assign(tf.clip_by_value(g, lo, hi))


def static_curve(codes, nbits, fit="raw"):
    """Static transfer of a capacitive DAC at measured integer codes (repeats allowed, first != last).

    fit: "raw" the voltages, "endpoint" deviation from the line first-last, "best" deviation from least squares.
    """
    codes = np.asarray(codes)
    bits = ((codes[:, None] >> np.arange(nbits)) & 1).astype(float)
    frac = (codes - codes[0]) / (codes[-1] - codes[0])
    q, _ = np.linalg.qr(np.stack([np.ones(len(codes)), frac], 1))

    def detrend(v):
        if fit == "best":
            qt = tf.constant(q, v.dtype)
            return v - tf.matmul(tf.matmul(v, qt), qt, transpose_b=True)
        if fit == "endpoint":
            f = tf.constant(frac, v.dtype)
            return v - v[:, :1] * (1 - f) - v[:, -1:] * f
        return v

    def detrend_back(g):
        if fit == "endpoint":
            f = tf.constant(frac, g.dtype)
            a = tf.reduce_sum(g * (1 - f), 1, keepdims=True)
            b = tf.reduce_sum(g * f, 1, keepdims=True)
            return tf.concat([g[:, :1] - a, g[:, 1:-1], g[:, -1:] - b], 1)
        return detrend(g)

    @tf.custom_gradient
    def curve(caps, vref):
        # caps (chips, nbits) LSB first; vref (chips, 1), (1, 1) or scalar
        b = tf.constant(bits, caps.dtype)
        total = tf.reduce_sum(caps, 1, keepdims=True) + C_PAR
        share = tf.matmul(caps, b, transpose_b=True) / total

        def grad(dy):
            g = detrend_back(dy)
            gv = g * vref / total
            dcaps = tf.matmul(gv, b) - tf.reduce_sum(gv * share, 1, keepdims=True)
            return dcaps, unbroadcast(g * share, vref)

        return detrend(vref * share), grad

    return curve


def _put(ids, rows, like):
    return tf.tensor_scatter_nd_update(tf.zeros_like(like), ids[:, None], rows)


@tf.custom_gradient
def pair_sigma(xy, area, pairs):
    """Pelgrom threshold mismatch in mV for device pairs.

    xy (devices, 2) um, area (devices,) um2, pairs (k, 2) int32.
    """
    i, j = pairs[:, 0], pairs[:, 1]
    ai, aj = tf.gather(area, i), tf.gather(area, j)
    d = tf.gather(xy, i) - tf.gather(xy, j)
    sigma = tf.sqrt(0.5 * A_VT ** 2 * (1 / ai + 1 / aj) + S_VT ** 2 * tf.reduce_sum(d * d, 1))

    def grad(g):
        h = g / sigma
        dd = S_VT ** 2 * h[:, None] * d
        both = tf.concat([i, j], 0)
        da = -0.25 * A_VT ** 2 * tf.concat([h / ai ** 2, h / aj ** 2], 0)
        return _put(both, tf.concat([dd, -dd], 0), xy), _put(both, da, area), None

    return sigma, grad


def size_pairs(xy, area, pairs, target=1.0, steps=100, rate=0.5):
    """Grow devices until every pair meets the target sigma."""
    area = tf.Variable(area)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            miss = tf.nn.relu(pair_sigma(xy, area.read_value(), pairs) - target)
            cost = tf.reduce_sum(miss ** 2) + 1e-3 * tf.reduce_sum(area)
        area.assign_sub(rate * tape.gradient(cost, area))
    return area


def main():
    layer = CrossbarDense(16, 4, r_sense=0.05)
    x = tf.random.normal([8, 16])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(layer(x) ** 2)
    print(float(loss), [g.shape for g in tape.gradient(loss, layer.trainable_variables)])
    print(static_curve(np.arange(16), 4, "endpoint")(tf.constant([[1.0, 2.02, 3.97, 8.1]]), tf.constant(1.2)))


if __name__ == "__main__":
    main()
