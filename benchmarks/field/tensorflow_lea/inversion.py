import numpy as np
import tensorflow as tf

WGS84_A = 6378137.0
WGS84_F = 1.0 / 298.257223563


def _fold(g, shape):
    lead = len(g.shape) - len(shape)
    if lead:
        g = tf.reduce_sum(g, axis=list(range(lead)))
    axes = [i for i, s in enumerate(shape) if s == 1 and g.shape[i] != 1]
    return tf.reduce_sum(g, axis=axes, keepdims=True) if axes else g


@tf.custom_gradient
def _omori_integral(t, k, c, p):
    u = 1.0 - p
    span = tf.math.log1p(t / c)
    near = tf.abs(u) < 1e-4
    u_ = tf.where(near, tf.ones_like(u), u)
    growth = tf.where(
        near, span * (1.0 + 0.5 * u * span), tf.math.expm1(u_ * span) / u_
    )
    unit = c**u * growth
    count = k * unit

    def grad(g):
        end = (t + c) ** (-p)
        dt = g * k * end
        dk = g * unit
        dc = g * k * (end - c ** (-p))
        far = ((t + c) ** u * tf.math.log(t + c) - c**u * tf.math.log(c) - unit) / u_
        du = tf.where(near, c**u * span**2 * (0.5 + u * span / 3.0), far)
        dp = -g * k * du
        return tuple(_fold(d, v.shape) for d, v in zip((dt, dk, dc, dp), (t, k, c, p)))

    return count, grad


def expected_aftershocks(t, k, c=0.05, p=1.0):
    """Modified Omori law, number of events in [0, t] days. p = 1 is Omori's own."""
    t = tf.convert_to_tensor(t)
    k, c, p = (tf.convert_to_tensor(v, t.dtype) for v in (k, c, p))
    return _omori_integral(t, k, c, p)


def geodetic_to_ecef(lat, lon, h, a=WGS84_A, f=WGS84_F, degrees=False):
    e2 = f * (2.0 - f)
    unit = np.pi / 180.0 if degrees else 1.0

    @tf.custom_gradient
    def ecef(lat, lon, h):
        sp, cp = tf.sin(lat * unit), tf.cos(lat * unit)
        sl, cl = tf.sin(lon * unit), tf.cos(lon * unit)
        w2 = 1.0 - e2 * sp * sp
        n = a / tf.sqrt(w2)
        rho = (n + h) * cp
        x, y = rho * cl, rho * sl
        z = (n * (1.0 - e2) + h) * sp + tf.zeros_like(x)

        def grad(gx, gy, gz):
            m = n * (1.0 - e2) / w2 + h
            radial = gx * cl + gy * sl
            dlat = unit * m * (gz * cp - radial * sp)
            dlon = unit * rho * (gy * cl - gx * sl)
            dh = radial * cp + gz * sp
            return _fold(dlat, lat.shape), _fold(dlon, lon.shape), _fold(dh, h.shape)

        return (x, y, z), grad

    return ecef(*(tf.convert_to_tensor(v) for v in (lat, lon, h)))


# no gradient for this op upstream
@tf.RegisterGradient("Lu")
def _lu_grad(op, g_lu, g_perm):
    lu, perm = op.outputs
    strict = lambda m: tf.linalg.band_part(m, -1, 0) - tf.linalg.band_part(m, 0, 0)
    upper = lambda m: tf.linalg.band_part(m, 0, -1)
    low = tf.linalg.set_diag(strict(lu), tf.ones_like(tf.linalg.diag_part(lu)))
    up = upper(lu)
    phi = strict(tf.matmul(low, strict(g_lu), adjoint_a=True))
    phi += upper(tf.matmul(upper(g_lu), up, adjoint_b=True))
    x = tf.linalg.triangular_solve(low, phi, lower=True, adjoint=True)
    x = tf.linalg.adjoint(
        tf.linalg.triangular_solve(up, tf.linalg.adjoint(x), lower=False)
    )
    return tf.gather(x, perm, axis=-2, batch_dims=len(perm.shape) - 1)


def lu_factor(a):
    """Packed factors and row permutation of square matrices (..., n, n)."""
    return tf.linalg.lu(a)


def lu_logabsdet(a):
    lu, _ = lu_factor(a)
    return tf.reduce_sum(tf.math.log(tf.abs(tf.linalg.diag_part(lu))), axis=-1)


@tf.custom_gradient
def resistivity_transform(rho, h, lam):
    """Layered half-space, Pekeris recursion. rho (L,), h (L-1,), lam (N,) -> (N,)."""
    layers = rho.shape[0]
    t = rho[-1] * tf.ones_like(lam)
    below, ths = [None] * layers, [None] * layers
    for i in reversed(range(layers - 1)):
        below[i], ths[i] = t, tf.tanh(lam * h[i])
        t = rho[i] * (t + rho[i] * ths[i]) / (rho[i] + t * ths[i])

    def grad(g):
        drho, dh, dlam = [], [], tf.zeros_like(lam)
        for i in range(layers - 1):
            r, b, th = rho[i], below[i], ths[i]
            num, den = b + r * th, r + b * th
            sech2 = 1.0 - th * th
            drho.append(tf.reduce_sum(g * ((num + r * th) / den - r * num / den**2)))
            dth = g * r * (r * r - b * b) / den**2 * sech2
            dh.append(tf.reduce_sum(dth * lam))
            dlam += dth * h[i]
            g = g * r * r * sech2 / den**2
        drho.append(tf.reduce_sum(g))
        return tf.stack(drho), tf.stack(dh) if dh else tf.zeros_like(h), dlam

    return t, grad


def fit_sounding(lam, observed, rho0, h0, steps=200, lr=0.05):
    log_rho = tf.Variable(np.log(rho0))
    log_h = tf.Variable(np.log(h0))
    opt = tf.keras.optimizers.Adam(lr)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            pred = resistivity_transform(tf.exp(log_rho), tf.exp(log_h), lam)
            loss = tf.reduce_mean((tf.math.log(pred) - tf.math.log(observed)) ** 2)
        params = [log_rho, log_h]
        opt.apply_gradients(zip(tape.gradient(loss, params), params))
    return np.exp(log_rho.numpy()), np.exp(log_h.numpy())
