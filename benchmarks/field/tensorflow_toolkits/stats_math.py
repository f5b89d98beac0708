"""Special functions and noise transforms used by the distribution classes."""

import tensorflow as tf

__all__ = [
    "log_pochhammer",
    "dilogarithm",
    "log_bessel_ke",
    "root_with_finite_grad",
    "inverse_gaussian_from_noise",
]

_STIRLING_MIN = 10.0


def _sum_to_shape(value, like):
    """Sums `value` over the axes along which `like` was broadcast."""
    target = tf.shape(like)
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=target, s1=tf.shape(value))
    return tf.reshape(tf.reduce_sum(value, axis=axes), target)


def _stirling_tail(z):
    w = 1.0 / z
    w2 = w * w
    return w * (
        1 / 12 - w2 * (1 / 360 - w2 * (1 / 1260 - w2 * (1 / 1680 - w2 / 1188)))
    )


def _digamma_tail(z):
    w = 1.0 / z
    w2 = w * w
    series = 1 / 12 - w2 * (1 / 120 - w2 * (1 / 252 - w2 * (1 / 240 - w2 / 132)))
    return -0.5 * w - w2 * series


def _digamma_gap(x, delta):
    """digamma(x + delta) - digamma(x)."""
    total = x + delta
    large = tf.minimum(x, total) > _STIRLING_MIN
    ones = tf.ones_like(total)
    xs = tf.where(large, x * ones, 20.0 * ones)
    ds = tf.where(large, delta * ones, 0.0 * ones)
    asymptotic = tf.math.log1p(ds / xs) + _digamma_tail(xs + ds) - _digamma_tail(xs)
    xd = tf.where(large, ones, x * ones)
    td = tf.where(large, ones, total)
    return tf.where(large, asymptotic, tf.math.digamma(td) - tf.math.digamma(xd))


@tf.custom_gradient
def log_pochhammer(x, delta):
    """Logarithm of the rising factorial, ``lgamma(x + delta) - lgamma(x)``.

    Parameters
    ----------
    x : tf.Tensor
        Positive floating point tensor.
    delta : tf.Tensor
        Tensor of the same dtype, broadcastable with `x`, with
        ``x + delta > 0``.

    Returns
    -------
    tf.Tensor
        Tensor of the broadcast shape. For large arguments the difference is
        formed from Stirling's series, so no digits are lost.
    """
    x = tf.convert_to_tensor(x)
    delta = tf.convert_to_tensor(delta, dtype=x.dtype)
    total = x + delta
    large = tf.minimum(x, total) > _STIRLING_MIN
    ones = tf.ones_like(total)
    xs = tf.where(large, x * ones, 20.0 * ones)
    ds = tf.where(large, delta * ones, 0.0 * ones)
    asymptotic = (
        (xs + ds - 0.5) * tf.math.log1p(ds / xs)
        + ds * (tf.math.log(xs) - 1.0)
        + _stirling_tail(xs + ds)
        - _stirling_tail(xs)
    )
    direct = tf.math.lgamma(total) - tf.math.lgamma(x)
    value = tf.where(large, asymptotic, direct)

    def grad(dy):
        return (
            _sum_to_shape(dy * _digamma_gap(x, delta), x),
            _sum_to_shape(dy * tf.math.digamma(total), delta),
        )

    return value, grad


@tf.custom_gradient
def dilogarithm(x):
    x = tf.convert_to_tensor(x)
    # Li2(x) for real x < 1.
    value = tf.math.special.spence(1.0 - x)

    def grad(dy):
        small = tf.abs(x) < 1e-3
        x_off = tf.where(small, tf.fill(tf.shape(x), tf.cast(0.5, x.dtype)), x)
        x_on = tf.where(small, x, tf.zeros_like(x))
        ratio = -tf.math.log1p(-x_off) / x_off
        series = 1.0 + x_on * (
            1 / 2 + x_on * (1 / 3 + x_on * (1 / 4 + x_on * (1 / 5 + x_on / 6)))
        )
        return dy * tf.where(small, series, ratio)

    return value, grad


def log_bessel_ke(z, order=0):
    """log(exp(z) * K_order(z)) for z > 0 and an integer order of 0 or 1."""
    if order not in (0, 1):
        raise ValueError(f"order must be 0 or 1, got {order}")

    @tf.custom_gradient
    def _log_bessel_ke(z):
        k0 = tf.math.special.bessel_k0e(z)
        k1 = tf.math.special.bessel_k1e(z)

        def grad(dy):
            if order == 0:
                return dy * (1.0 - k1 / k0)
            return dy * (1.0 - k0 / k1)

        return tf.math.log(k1 if order else k0), grad

    return _log_bessel_ke(tf.convert_to_tensor(z))


def root_with_finite_grad(x, degree: int = 2, grad_at_zero: float = 0.0):
    """The `degree`-th root of a non-negative tensor, with a finite gradient at 0.

    The derivative of the root is infinite at zero. There (and only there) the
    gradient is replaced by `grad_at_zero` times the incoming gradient; at every
    positive input it is the ordinary derivative.

    Args:
      x: floating point tensor, non-negative.
      degree: integer of at least 2, which gives the square root.
      grad_at_zero: finite stand-in for the derivative where `x` equals 0.

    Returns:
      A tensor shaped like `x`.
    """

    @tf.custom_gradient
    def _root(x):
        y = tf.sqrt(x) if degree == 2 else tf.pow(x, 1.0 / degree)

        def grad(dy):
            at_zero = tf.equal(x, 0)
            x_safe = tf.where(at_zero, tf.ones_like(x), x)
            y_safe = tf.where(at_zero, tf.ones_like(y), y)
            slope = y_safe / (degree * x_safe)
            return dy * tf.where(at_zero, grad_at_zero * tf.ones_like(x), slope)

        return y, grad

    return _root(tf.convert_to_tensor(x))


@tf.custom_gradient
def inverse_gaussian_from_noise(loc, concentration, normal, uniform):
    """Turns fixed noise into inverse Gaussian (Wald) draws.

    The two roots of Michael, Schucany and Haas are formed from the squared
    normal variate; the uniform variate says which of them is kept. The path
    derivative with respect to `loc` and `concentration` holds the noise and the
    chosen root fixed. The noise tensors are constants: they get no gradient.

    :param loc: mean of the distribution, positive.
    :param concentration: shape of the distribution, positive, broadcastable
        with `loc`.
    :param normal: standard normal noise of the sample's shape.
    :param uniform: noise in (0, 1) of the sample's shape.
    :returns: draws of the sample's shape.
    """
    half_ratio = loc * tf.square(normal) / (2.0 * concentration)
    spread = tf.sqrt(half_ratio * (half_ratio + 2.0))
    small_root = 1.0 / (1.0 + half_ratio + spread)
    keep_small = uniform * (1.0 + small_root) <= 1.0
    scale = tf.where(keep_small, small_root, 1.0 / small_root)
    draws = loc * scale

    def grad(dy):
        elasticity = tf.sqrt(half_ratio / (half_ratio + 2.0))
        d_loc = dy * scale * (1.0 - elasticity)
        d_concentration = dy * draws * elasticity / concentration
        return (
            _sum_to_shape(d_loc, loc),
            _sum_to_shape(d_concentration, concentration),
            None,
            None,
        )

    return draws, grad
