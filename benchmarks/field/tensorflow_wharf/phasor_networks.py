import tensorflow as tf

OMEGA0 = 2 * 3.141592653589793 * 50.0
Z_REF = 50.0


@tf.RegisterGradient("NodalSolve")
def _nodal_solve_grad(op, dv):
    y, v = op.inputs[0], op.outputs[0]
    flipped = not op.get_attr("adjoint")
    di = tf.linalg.solve(y, dv, adjoint=flipped)
    dy = -tf.matmul(di, v, adjoint_b=True)
    return dy, di


@tf.function
def nodal_solve(y, i, adjoint=False):
    # y: [..., n, n] admittances, i: [..., n, k] injections, real (dc) or complex (ac).
    # adjoint=True solves with the adjoint network, y^H v = i.
    graph = tf.compat.v1.get_default_graph()
    with graph.gradient_override_map({"MatrixSolve": "NodalSolve"}):
        return tf.linalg.solve(y, i, adjoint=adjoint)


def _complex(re):
    return tf.complex(re, tf.zeros_like(re))


@tf.custom_gradient
def load_power(v, zs, zl):
    # v: [batch, freq] source phasors, zs, zl: [freq]; watts into the load [batch, freq]
    z = zs + zl
    m2 = tf.math.real(z * tf.math.conj(z))
    a2 = tf.math.real(v * tf.math.conj(v))
    r = tf.math.real(zl)
    p = 0.5 * a2 * r / m2

    def back(g):
        dv = _complex(g * r / m2) * v
        shared = -_complex(tf.reduce_sum(g * a2, 0) * r / m2**2) * z
        own = _complex(0.5 * tf.reduce_sum(g * a2, 0) / m2)
        return dv, shared, shared + own

    return p, back


@tf.custom_gradient
def line_propagate(v, gamma, length):
    # v: [batch, freq] complex, gamma: [freq] complex (attenuation + 1j * phase constant),
    # length: real scalar
    c = _complex(length)
    e = tf.exp(-gamma * c)
    out = v * e

    def back(g):
        dv = g * tf.math.conj(e)
        dgamma = -c * tf.reduce_sum(g * out, axis=0)
        dlength = -tf.reduce_sum(tf.math.real(tf.math.conj(g) * gamma * out))
        return dv, dgamma, dlength

    return out, back


def stamp(n, branches, values):
    """branches [(from, to)], -1 = ground; values [m] -> [n, n] nodal matrix."""
    y = tf.zeros([n, n], values.dtype)
    for k, (a, b) in enumerate(branches):
        idx, sign = [], []
        for p, q, s in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
            if p >= 0 and q >= 0:
                idx.append([p, q])
                sign.append(s)
        y = tf.tensor_scatter_nd_add(y, idx, tf.cast(sign, values.dtype) * values[k])
    return y


def add_vccs(y, out, ctl, gm):
    # transconductance: current gm * v[ctl] drawn from node `out`
    return tf.tensor_scatter_nd_add(y, [[out, ctl]], [gm])


def branch_admittance(r, l, c, omega):
    z = tf.complex(r, omega * l)
    return 1.0 / z + tf.complex(tf.zeros_like(c), omega * c)


class Feeder(tf.Module):
    def __init__(self, n, branches, r, l, c, gm=0.0):
        super().__init__()
        self.n, self.branches = n, branches
        self.log_r = tf.Variable(tf.math.log(r))
        self.l = tf.Variable(l)
        self.c = tf.Variable(c)
        self.gm = tf.Variable(tf.cast(gm, r.dtype))

    def matrix(self, omega=OMEGA0):
        y = stamp(
            self.n, self.branches, branch_admittance(tf.exp(self.log_r), self.l, self.c, omega)
        )
        return add_vccs(y, 1, 0, _complex(self.gm))

    def voltages(self, i, omega=OMEGA0):
        return nodal_solve(self.matrix(omega), i)

    def transfer_to(self, probe, omega=OMEGA0):
        # one adjoint solve gives the transfer impedance from every node to the probe
        return tf.math.conj(nodal_solve(self.matrix(omega), probe, adjoint=True))


def fit_feeder(feeder, injections, probe, measured_v, measured_t, steps=50, lr=1e-3):
    opt = tf.keras.optimizers.Adam(lr)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            dv = feeder.voltages(injections) - measured_v
            dt = feeder.transfer_to(probe) - measured_t
            loss = tf.reduce_sum(tf.math.real(dv * tf.math.conj(dv))) + tf.reduce_sum(
                tf.math.real(dt * tf.math.conj(dt))
            )
        opt.apply_gradients(
            zip(tape.gradient(loss, feeder.trainable_variables), feeder.trainable_variables)
        )
    return loss


def matched_load(v, gamma, length, zs, steps=20, lr=0.5):
    # v [batch, freq], gamma / zs [freq]; climbs the delivered power
    zl = tf.Variable(tf.ones_like(zs) * Z_REF)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            p = tf.reduce_mean(load_power(line_propagate(v, gamma, length), zs, zl))
        zl.assign_add(tf.cast(lr, zl.dtype) * tape.gradient(p, zl))
    return zl
