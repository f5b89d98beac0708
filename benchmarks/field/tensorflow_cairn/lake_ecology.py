"""Physical and demographic building blocks of the lake model.

Everything here is written for calibration with first-order optimisers: hourly forcing on one side, hypsography and
gas-exchange coefficients on the other, so the derivatives are spelled out instead of being traced.
"""

import tensorflow as tf

GRAVITY = 9.80665
_SC_REF = 600.0
_WIND_SMOOTH = 3.7  # m/s; below it the surface is hydraulically smooth


def _sum_to(x, shape_of):
    """Sum ``x`` over the axes along which ``shape_of`` was broadcast."""
    target = shape_of.shape
    extra = len(x.shape) - len(target)
    if extra > 0:
        x = tf.reduce_sum(x, axis=list(range(extra)))
    axes = [i for i, n in enumerate(target) if n == 1 and x.shape[i] != 1]
    return tf.reduce_sum(x, axis=axes, keepdims=True) if axes else x


def _schmidt_exponent(wind):
    two_thirds = tf.cast(2.0 / 3.0, wind.dtype)
    half = tf.cast(0.5, wind.dtype)
    return tf.where(wind < _WIND_SMOOTH, two_thirds, half)


@tf.custom_gradient
def gas_transfer_velocity(wind, schmidt, coeffs):
    """Gas transfer velocity of a lake surface after Cole & Caraco, in cm/h.

    ``k = (a + b * wind ** p) * (schmidt / 600) ** -n`` where ``n`` is 2/3 over a smooth surface (wind below 3.7 m/s)
    and 1/2 over a rough one.

    Parameters
    ----------
    wind : tf.Tensor
        Wind speed at 10 m in m/s, non-negative, any shape.
    schmidt : tf.Tensor
        Schmidt number of the gas at the water temperature, positive; broadcasts against ``wind`` (one value per lake
        against an hourly series, for instance).
    coeffs : tf.Tensor
        ``(a, b, p)``, shape (3,), with ``p > 1``. Cole & Caraco give (2.07, 0.215, 1.7).

    Returns
    -------
    tf.Tensor
        Transfer velocity with the broadcast shape of ``wind`` and ``schmidt``.
    """
    a, b, p = coeffs[0], coeffs[1], coeffs[2]
    ratio = tf.pow(schmidt / _SC_REF, -_schmidt_exponent(wind))
    wind_p = tf.pow(wind, p)
    k = (a + b * wind_p) * ratio

    def grad(upstream):
        d_wind = upstream * b * p * tf.pow(wind, p - 1.0) * ratio
        d_schmidt = -0.5 * upstream * k / schmidt
        up_k600 = upstream * ratio
        log_wind = tf.where(wind > 0, tf.math.log(tf.where(wind > 0, wind, tf.ones_like(wind))), tf.zeros_like(wind))
        d_coeffs = tf.stack([
            tf.reduce_sum(up_k600),
            tf.reduce_sum(up_k600 * wind_p),
            tf.reduce_sum(up_k600 * b * wind_p * log_wind),
        ])
        return _sum_to(d_wind, wind), _sum_to(d_schmidt, schmidt), d_coeffs

    return k, grad


def _density_excess(t):
    """Fresh water density minus 1000 kg/m3 and its temperature derivative (t in deg C)."""
    num = (t + 288.9414) * tf.square(t - 3.9863)
    den = 508929.2 * (t + 68.12963)
    excess = -1000.0 * num / den
    d_num = tf.square(t - 3.9863) + 2.0 * (t + 288.9414) * (t - 3.9863)
    slope = -1000.0 * (d_num * den - num * 508929.2) / tf.square(den)
    return excess, slope


@tf.custom_gradient
def schmidt_stability(temperature, area, depth, thickness):
    """Schmidt stability (J/m2) of a stratified water column.

    St = g / A_0 * sum_k (z_k - z_v) * rho_k * A_k * dz_k, with z_v the depth of the centre of volume.

    Parameters
    ----------
    temperature : tf.Tensor, shape (..., L)
        Water temperature per layer in deg C, surface first.
    area : tf.Tensor, shape (L,)
        Hypsography: lake area at the middle of each layer, m2. ``area[0]`` is the surface area A_0.
    depth : tf.Tensor, shape (L,)
        Depth of the middle of each layer, m.
    thickness : tf.Tensor, shape (L,)
        Layer thickness, m.

    Returns
    -------
    tf.Tensor, shape (...)

    Notes
    -----
    The first moment of the layer volumes about z_v vanishes, so only the density anomaly against the volume mean enters
    any of the derivatives with respect to the geometry.
    """
    rho, slope = _density_excess(temperature)
    volume = area * thickness
    total = tf.reduce_sum(volume)
    arm = depth - tf.reduce_sum(depth * volume) / total
    scale = GRAVITY / area[0]
    stability = scale * tf.reduce_sum(arm * rho * volume, axis=-1)

    def grad(upstream):
        up = upstream[..., tf.newaxis]
        d_temperature = up * scale * arm * volume * slope
        anomaly = rho - tf.reduce_sum(rho * volume, axis=-1, keepdims=True) / total
        pooled = tf.reduce_sum(tf.reshape(up * anomaly, [-1, tf.shape(area)[0]]), axis=0)
        d_volume = scale * arm * pooled
        d_area = d_volume * thickness
        at_surface = tf.one_hot(0, tf.shape(area)[0], dtype=area.dtype)
        d_area -= at_surface * tf.reduce_sum(upstream * stability) / area[0]
        return d_temperature, d_area, scale * volume * pooled, d_volume * area

    return stability, grad


@tf.RegisterGradient("GuardedCumprod")
def _guarded_cumprod_grad(op, grad):
    """Gradient of ``tf.math.cumprod`` that never divides by its input.

    The stock gradient is ``cumsum(out * grad) / x`` and turns to NaN as soon as one age class has zero survival. With
    P_i the product of what comes before i and R_i = g_i + x_{i+1} R_{i+1} the derivative is P_i R_i, two linear passes.
    """
    x, axis = op.inputs
    exclusive = op.get_attr("exclusive")
    reverse = op.get_attr("reverse")
    rank = tf.rank(x)
    axis = tf.where(axis < 0, axis + tf.cast(rank, axis.dtype), axis)
    axis = tf.cast(axis, tf.int32)
    others = tf.boolean_mask(tf.range(rank), tf.not_equal(tf.range(rank), axis))
    perm = tf.concat([[axis], others], axis=0)
    xt, gt = tf.transpose(x, perm), tf.transpose(grad, perm)
    if reverse:
        xt, gt = tf.reverse(xt, [0]), tf.reverse(gt, [0])

    before = tf.math.cumprod(xt, axis=0, exclusive=True)
    pad = tf.zeros_like(gt[:1])
    x_next = tf.concat([xt[1:], pad], axis=0)
    g_here = tf.concat([gt[1:], pad], axis=0) if exclusive else gt

    def step(later, elems):
        g_i, x_i = elems
        return g_i + x_i * later

    tail = tf.scan(step, (g_here, x_next), initializer=tf.zeros_like(gt[0]), reverse=True)
    out = before * tail
    if reverse:
        out = tf.reverse(out, [0])
    return tf.transpose(out, tf.math.invert_permutation(perm)), None


@tf.function
def survivorship(survival, axis=-1):
    """Survivorship to the start of each age class, l_0 = 1, from yearly survival in [0, 1]."""
    graph = tf.compat.v1.get_default_graph()
    with graph.gradient_override_map({"Cumprod": "GuardedCumprod"}):
        return tf.math.cumprod(survival, axis=axis, exclusive=True)


def net_reproduction(survival, fecundity):
    """R0 of a fish population: eggs per recruit over its life, ages on the last axis."""
    return tf.reduce_sum(survivorship(survival) * fecundity, axis=-1)
