import tensorflow as tf

R_GAS = 8.31446261815324


def _match(g, ref):
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(ref), s1=tf.shape(g))
    return tf.reshape(tf.reduce_sum(g, axes), tf.shape(ref))


@tf.custom_gradient
def redlich_kister(x, coeffs):
    n = x.shape[-1]
    order = coeffs.shape[0]
    pairs = tf.linalg.set_diag(tf.linalg.band_part(tf.ones([n, n], x.dtype), 0, -1), tf.zeros([n], x.dtype))
    xi, xj = x[..., :, None], x[..., None, :]
    diff = xi - xj
    powers = tf.stack([diff**k for k in range(order)], axis=-3)
    c = coeffs * pairs
    s = tf.reduce_sum(c * powers, axis=-3)
    gex = tf.reduce_sum(xi * xj * s, axis=(-2, -1))

    def grad(dy):
        ds = tf.zeros_like(s)
        for k in range(1, order):
            ds += k * c[k] * powers[..., k - 1, :, :]
        prod = xi * xj
        dx = tf.reduce_sum(xj * s + prod * ds, axis=-1) + tf.reduce_sum(xi * s + prod * ds, axis=-2)
        dc = dy[..., None, None, None] * prod[..., None, :, :] * powers * pairs
        return dy[..., None] * dx, _match(dc, coeffs)

    return gex, grad


def _basis(t):
    return tf.stack([t, t**2 / 2, t**3 / 3, t**4 / 4, t**5 / 5, tf.ones_like(t), tf.zeros_like(t)], -1)


@tf.custom_gradient
def nasa7_enthalpy(temperature, low, high, t_switch):
    """H/R in kelvin from NASA-7 rows ``low``/``high`` (species, 7); temperature broadcasts against (species,)."""
    t = temperature + tf.zeros_like(t_switch)
    hot = t >= t_switch
    row = tf.where(hot[..., None], high, low)
    basis = _basis(t)
    h = tf.reduce_sum(row * basis, -1)

    def grad(g):
        cp = row[..., 0] + t * (row[..., 1] + t * (row[..., 2] + t * (row[..., 3] + t * row[..., 4])))
        per_row = g[..., None] * basis
        cold = tf.cast(~hot, g.dtype)[..., None]
        return (
            _match(g * cp, temperature),
            _match(per_row * cold, low),
            _match(per_row * (1 - cold), high),
            tf.zeros_like(t_switch),
        )

    return h, grad


def mixture_enthalpy(x, temperature, low, high, t_switch, coeffs):
    """Molar enthalpy of a non-ideal mixture, J/mol; x is (batch, species), temperature (batch, 1)."""
    ideal = tf.reduce_sum(x * nasa7_enthalpy(temperature, low, high, t_switch), -1)
    return R_GAS * ideal + redlich_kister(x, coeffs)
