from typing import Optional

import tensorflow as tf

__all__ = ["thin_plate_warp", "play_operator", "GearTrain", "fit_warp"]


def _radial(points, controls):
    offset = points[..., :, None, :] - controls
    return offset, tf.reduce_sum(offset * offset, axis=-1)


@tf.custom_gradient
def thin_plate_warp(points, controls, weights, affine):
    """Warp 2-D points with a thin plate spline.

    ``f(p) = [1, p] A + sum_k w_k U(|p - c_k|)`` with ``U(r) = r^2 log r`` and ``U(0) = 0``.  Only the
    squared distances are kept; the kernel matrix is formed again in the backward pass.

    Parameters
    ----------
    points : (..., N, 2)
        Points to move.  They may coincide with control points (on the fitting grid they do).
    controls : (K, 2)
        Control points, shared by the batch.
    weights : (K, 2)
        Bending coefficients.
    affine : (3, 2)
        Translation in the first row, linear part below.

    Returns
    -------
    (..., N, 2)
    """

    def kernel(sq):
        return 0.5 * tf.math.xlogy(sq, sq)

    _, sq = _radial(points, controls)
    warped = affine[0] + tf.matmul(points, affine[1:]) + tf.matmul(kernel(sq), weights)

    def grad(up):
        offset, _ = _radial(points, controls)
        apart = sq > 0.0
        steep = 1.0 + tf.math.log(tf.where(apart, sq, tf.ones_like(sq)))
        steep = tf.where(apart, steep, tf.zeros_like(steep))
        pull = (tf.matmul(up, weights, transpose_b=True) * steep)[..., None] * offset
        d_points = tf.matmul(up, affine[1:], transpose_b=True) + tf.reduce_sum(pull, axis=-2)
        flat_pull = tf.reshape(pull, tf.concat([[-1], tf.shape(controls)], 0))
        d_controls = -tf.reduce_sum(flat_pull, axis=0)

        flat_up = tf.reshape(up, [-1, 2])
        flat_u = tf.reshape(kernel(sq), [-1, tf.shape(controls)[0]])
        d_weights = tf.matmul(flat_u, flat_up, transpose_a=True)
        d_linear = tf.matmul(tf.reshape(points, [-1, 2]), flat_up, transpose_a=True)
        d_affine = tf.concat([tf.reduce_sum(flat_up, axis=0, keepdims=True), d_linear], axis=0)
        return d_points, d_controls, d_weights, d_affine

    return warped, grad


@tf.custom_gradient
def play_operator(drive, half_width, start):
    """Backlash (play) hysteresis of a geared joint.

    The output stays where it is until the drive side touches one of the two flanks, and then follows
    it at the distance of half the gap:
    ``y[t] = max(u[t] - r, min(u[t] + r, y[t-1]))``, ``y[-1] = start``.

    Args:
        drive: ``[batch, time, joints]`` angle of the driving gear (static number of steps).
        half_width: ``[joints]`` half of the gap, > 0.
        start: ``[batch, joints]`` angle of the driven gear before the first step.

    Returns:
        ``[batch, time, joints]`` angle of the driven gear.
    """
    steps = drive.shape[1]
    state = start
    trace = []
    for t in range(steps):
        state = tf.maximum(drive[:, t] - half_width, tf.minimum(drive[:, t] + half_width, state))
        trace.append(state)
    driven = tf.stack(trace, axis=1)

    def grad(upstream):
        # which flank touched is read off the outputs: the state before a step is the last output
        before = tf.concat([tf.zeros_like(driven[:, :1]), driven[:, :-1]], axis=1)
        pushed = drive - half_width > before
        dragged = drive + half_width < before
        carry = tf.zeros_like(start)
        zero = tf.zeros_like(carry)
        d_drive, d_gap = [], tf.zeros_like(carry)
        for t in reversed(range(steps)):
            total = upstream[:, t] + carry
            moving = tf.logical_or(pushed[:, t], dragged[:, t])
            d_drive.append(tf.where(moving, total, zero))
            d_gap += tf.where(dragged[:, t], total, zero) - tf.where(pushed[:, t], total, zero)
            carry = tf.where(moving, zero, total)
        return tf.stack(d_drive[::-1], axis=1), tf.reduce_sum(d_gap, axis=0), carry

    return driven, grad


class GearTrain(tf.Module):
    """Joints with learned backlash and transmission ratio."""

    def __init__(self, joints: int, gap: float = 0.02, name: Optional[str] = None):
        super().__init__(name=name)
        self.log_gap = tf.Variable(tf.fill([joints], tf.math.log(gap)))
        self.ratio = tf.Variable(tf.ones([joints]))

    def __call__(self, motor, start: Optional[tf.Tensor] = None):
        """motor: [batch, time, joints]; start: pose to resume from, zero when a run begins."""
        if start is None:
            start = tf.zeros_like(motor[:, 0])
        return play_operator(motor * self.ratio, tf.exp(self.log_gap), start)


def fit_warp(source, target, controls, steps: int = 200, rate: float = 1e-2, bending: float = 1e-3):
    """Fit a warp by gradient descent; the control points are refined together with the weights."""
    controls = tf.Variable(controls)
    weights = tf.Variable(tf.zeros_like(controls))
    affine = tf.Variable(tf.constant([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], controls.dtype))
    variables = [controls, weights, affine]
    for _ in range(steps):
        with tf.GradientTape() as tape:
            moved = thin_plate_warp(source, *(tf.convert_to_tensor(v) for v in variables))
            loss = tf.reduce_mean((moved - target) ** 2) + bending * tf.reduce_sum(weights**2)
        for v, g in zip(variables, tape.gradient(loss, variables)):
            v.assign_sub(rate * g)
    return controls, weights, affine
