"""Closed-form model pieces: densities, divergences, option quotes and cameras."""

import math
from typing import Dict, NamedTuple

import tensorflow as tf


def _sum_to(value, like):
    shape = tf.shape(like)
    _, axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(value), s1=shape)
    return tf.reshape(tf.reduce_sum(value, axes), shape)


# ----------------------------------------------------------------- densities


def _half_step_lgamma(y):
    """lgamma(y + 1/2) - lgamma(y) - log(y) / 2 and its derivative."""
    far = y > 25.0
    near = tf.where(far, tf.ones_like(y), y)
    away = tf.where(far, y, 25.0 * tf.ones_like(y))
    r = 1.0 / away
    r2 = r * r
    value = -r * (1 / 8 - r2 * (1 / 192 - r2 * (1 / 640 - r2 * (17 / 14336))))
    slope = r2 * (1 / 8 - r2 * (1 / 64 - r2 * (1 / 128 - r2 * (17 / 2048))))
    value_near = tf.math.lgamma(near + 0.5) - tf.math.lgamma(near) - 0.5 * tf.math.log(near)
    slope_near = tf.math.digamma(near + 0.5) - tf.math.digamma(near) - 0.5 / near
    return tf.where(far, value, value_near), tf.where(far, slope, slope_near)


def student_t_log_density(x, df, loc=0.0, scale=1.0):
    """Log density of the location-scale Student t; all four arguments broadcast."""
    x = tf.convert_to_tensor(x)
    df, loc, scale = (tf.convert_to_tensor(a, dtype=x.dtype) for a in (df, loc, scale))

    @tf.custom_gradient
    def log_density(x, df, loc, scale):
        z = (x - loc) / scale
        z2 = tf.square(z)
        norm, norm_slope = _half_step_lgamma(0.5 * df)
        tail = tf.math.log1p(z2 / df)
        out = norm - 0.5 * math.log(2.0 * math.pi) - tf.math.log(scale) - 0.5 * (df + 1.0) * tail

        def grad(upstream):
            d_z = -(df + 1.0) * z / (df + z2)
            d_x = upstream * d_z / scale
            d_df = 0.5 * (norm_slope - tail + (df + 1.0) * z2 / (df * (df + z2)))
            d_scale = -(1.0 + z * d_z) / scale
            return (
                _sum_to(d_x, x),
                _sum_to(upstream * d_df, df),
                _sum_to(-d_x, loc),
                _sum_to(upstream * d_scale, scale),
            )

        return out, grad

    return log_density(x, df, loc, scale)


class DiagonalPrior(NamedTuple):
    """Independent normal prior: `loc` and `scale` broadcast against the mean."""

    loc: tf.Tensor
    scale: tf.Tensor


def tril_gaussian_kl(mean: tf.Tensor, scale_tril: tf.Tensor, prior: DiagonalPrior) -> tf.Tensor:
    """KL divergence from `N(mean, L L^T)` to a diagonal normal prior.

    Args:
      mean: Shape `[..., d]`.
      scale_tril: Shape `[..., d, d]`; only the lower triangle is read.
      prior: Location and scale, each of a shape that broadcasts to `mean`.

    Returns:
      Shape `[...]`, in nats.
    """
    mean = tf.convert_to_tensor(mean)
    scale_tril = tf.convert_to_tensor(scale_tril, dtype=mean.dtype)
    loc = tf.convert_to_tensor(prior.loc, dtype=mean.dtype)
    scale = tf.convert_to_tensor(prior.scale, dtype=mean.dtype)

    @tf.custom_gradient
    def divergence(mean, scale_tril, loc, scale):
        lower = tf.linalg.band_part(scale_tril, -1, 0)
        diag = tf.linalg.diag_part(lower)
        wide = tf.broadcast_to(scale, tf.shape(mean))
        precision = 1.0 / tf.square(wide)
        delta = mean - loc
        second = tf.reduce_sum(tf.square(lower), -1) + tf.square(delta)
        terms = second * precision - 1.0 + 2.0 * (tf.math.log(wide) - tf.math.log(tf.abs(diag)))
        out = 0.5 * tf.reduce_sum(terms, -1)

        def grad(upstream):
            g = upstream[..., tf.newaxis]
            d_mean = g * delta * precision
            d_tril = lower * precision[..., tf.newaxis] - tf.linalg.diag(1.0 / diag)
            d_scale = g * (1.0 - second * precision) / wide
            return (
                d_mean,
                g[..., tf.newaxis] * d_tril,
                _sum_to(-d_mean, loc),
                _sum_to(d_scale, scale),
            )

        return out, grad

    return divergence(mean, scale_tril, loc, scale)


# -------------------------------------------------------------------- quotes


def _ndtr(x):
    return 0.5 * tf.math.erfc(-x * math.sqrt(0.5))


def _black_terms(sigma, spot, strike, tau, rate):
    root = sigma * tf.sqrt(tau)
    d1 = (tf.math.log(spot / strike) + rate * tau) / root + 0.5 * root
    return d1, d1 - root, strike * tf.exp(-rate * tau)


def implied_volatility(price, spot, strike, tau, *, rate=0.0, kind="call", upper=8.0, steps=60):
    """
    Volatility at which the Black-Scholes price meets a quoted price.

    Parameters
    ----------
    price, spot, strike, tau : tf.Tensor
        Quote, underlying, strike and time to expiry in years, of one
        broadcastable shape. Quotes lie strictly inside the no-arbitrage bounds.
    rate : float, optional
        Continuously compounded rate.
    kind : {"call", "put"}, optional
    upper : float, optional
        Largest volatility that is searched.
    steps : int, optional
        Bisection steps.

    Returns
    -------
    tf.Tensor
        Annualised volatility, differentiable in the four tensors.
    """
    if kind not in ("call", "put"):
        raise ValueError(f"unknown kind {kind!r}")
    price = tf.convert_to_tensor(price)
    spot, strike, tau = (tf.convert_to_tensor(a, dtype=price.dtype) for a in (spot, strike, tau))
    flag = 1.0 if kind == "call" else -1.0

    @tf.custom_gradient
    def solve(price, spot, strike, tau):
        low = tf.zeros_like(price + spot + strike + tau)
        high = low + upper
        for _ in range(steps):
            mid = 0.5 * (low + high)
            d1, d2, bond = _black_terms(mid, spot, strike, tau, rate)
            model = flag * (spot * _ndtr(flag * d1) - bond * _ndtr(flag * d2))
            above = model > price
            low, high = tf.where(above, low, mid), tf.where(above, mid, high)
        sigma = 0.5 * (low + high)

        def grad(upstream):
            d1, d2, bond = _black_terms(sigma, spot, strike, tau, rate)
            density = tf.exp(-0.5 * tf.square(d1)) / math.sqrt(2.0 * math.pi)
            vega = spot * density * tf.sqrt(tau)
            g = upstream / vega
            delta = flag * _ndtr(flag * d1)
            carry = flag * _ndtr(flag * d2)
            per_tau = 0.5 * spot * density * sigma / tf.sqrt(tau) + rate * bond * carry
            return (
                _sum_to(g, price),
                _sum_to(-g * delta, spot),
                _sum_to(g * carry * bond / strike, strike),
                _sum_to(-g * per_tau, tau),
            )

        return sigma, grad

    return solve(price, spot, strike, tau)


# ------------------------------------------------------------------- cameras


class PinholeProjector:
    """Perspective camera with an optional shear between the sensor axes.

    Attributes:
      skew: Shear coefficient in pixels, zero for a rectangular sensor.
      flip: Whether the vertical pixel axis points up.
    """

    def __init__(self, skew: float = 0.0, flip: bool = False):
        self.skew = skew
        self.flip = flip

    def project(self, points: "[..., 3]", intrinsics: Dict[str, tf.Tensor]):
        """Maps camera-frame points to pixels.

        Args:
          points: Points in front of the camera.
          intrinsics: `{"focal": [2], "center": [2]}`.

        Returns:
          `(pixels, inverse_depth)` of shapes `[..., 2]` and `[...]`.
        """
        points = tf.convert_to_tensor(points)
        focal = tf.convert_to_tensor(intrinsics["focal"], dtype=points.dtype)
        center = tf.convert_to_tensor(intrinsics["center"], dtype=points.dtype)
        skew = tf.constant(self.skew, points.dtype)
        sign = tf.constant(-1.0 if self.flip else 1.0, points.dtype)

        @tf.custom_gradient
        def run(points, focal, center):
            inv = 1.0 / points[..., 2]
            u = points[..., 0] * inv
            v = points[..., 1] * inv
            col = focal[0] * u + skew * v
            row = sign * focal[1] * v
            pixels = tf.stack([col, row], -1) + center

            def grad(d_pixels, d_inv):
                d_col = d_pixels[..., 0]
                d_row = d_pixels[..., 1]
                d_u = d_col * focal[0]
                d_v = sign * d_row * focal[1]
                d_depth = -inv * (d_col * col + d_row * row + d_inv * inv)
                d_points = tf.stack([d_u * inv, d_v * inv, d_depth], -1)
                d_focal = tf.stack([tf.reduce_sum(d_col * u), sign * tf.reduce_sum(d_row * v)])
                d_center = tf.reduce_sum(tf.reshape(d_pixels, [-1, 2]), 0)
                return d_points, d_focal, d_center

            return (pixels, inv), grad

        return run(points, focal, center)
