"""Linear algebra and densities with analytic gradients."""
import numpy as np
import tensorflow as tf


@tf.custom_gradient
def log_abs_det(a):
    """log|det A| of a batch of square matrices.

    Args:
      a: Tensor `[..., n, n]`.

    Returns:
      Tensor `[...]`.
    """
    _, value = tf.linalg.slogdet(a)

    def grad(dv):
        return dv[..., None, None] * tf.linalg.inv(a)

    return value, grad


@tf.custom_gradient
def linear_solve(a, b):
    x = tf.linalg.solve(a, b)

    def grad(dx):
        db = tf.linalg.solve(a, dx, adjoint=True)
        return -tf.matmul(db, x, transpose_b=True), db

    return x, grad


def _unbroadcast(g, like):
    """Sum `g` down to the shape of `like`."""
    shape = like.shape
    extra = g.shape.rank - shape.rank
    if extra:
        g = tf.reduce_sum(g, axis=list(range(extra)))
    ones = [i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1]
    if ones:
        g = tf.reduce_sum(g, axis=ones, keepdims=True)
    return g


@tf.custom_gradient
def student_t_logpdf(x, df, loc, scale):
    """Log density of a location-scale Student t; the arguments broadcast.

    Parameters
    ----------
    x, df, loc, scale : tensors with broadcastable shapes, df > 0 and scale > 0

    Returns
    -------
    tensor of the broadcast shape
    """
    z = (x - loc) / scale
    half = 0.5 * (df + 1.0)
    q = z * z / df
    norm = tf.math.lgamma(half) - tf.math.lgamma(0.5 * df)
    value = norm - 0.5 * tf.math.log(df * np.pi) - tf.math.log(scale) - half * tf.math.log1p(q)

    def grad(dv):
        dz = -(df + 1.0) * z / (df + z * z)
        d_df = 0.5 * (
            tf.math.digamma(half)
            - tf.math.digamma(0.5 * df)
            - 1.0 / df
            - tf.math.log1p(q)
            + (df + 1.0) * q / (df + z * z)
        )
        gx = dv * dz / scale
        return (
            _unbroadcast(gx, x),
            _unbroadcast(dv * d_df, df),
            _unbroadcast(-gx, loc),
            _unbroadcast(-dv * (1.0 + z * dz) / scale, scale),
        )

    return value, grad
