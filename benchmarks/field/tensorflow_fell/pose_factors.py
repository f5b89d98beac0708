"""Residuals for planar pose graphs and for two-view calibration."""
from typing import Tuple

import numpy as np
import tensorflow as tf


def wrap_angle(a):
    return a - 2.0 * np.pi * tf.round(a / (2.0 * np.pi))


def _relative(pi: tf.Tensor, pj: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    c, s = tf.cos(pi[:, 2]), tf.sin(pi[:, 2])
    dx, dy = pj[:, 0] - pi[:, 0], pj[:, 1] - pi[:, 1]
    rel = tf.stack([c * dx + s * dy, c * dy - s * dx, pj[:, 2] - pi[:, 2]], axis=1)
    return rel, c, s


@tf.custom_gradient
def pose_graph_residual(poses, edges, measured, sqrt_info):
    """Whitened residuals of the relative-pose factors of an SE(2) graph.

    For the edge (i, j) with measurement z the residual is

        r = S @ [R_i^T (t_j - t_i) - z_t,  wrap(theta_j - theta_i - z_theta)]

    where S is a square root of the information matrix, S^T S = Omega, as from
    ``np.linalg.cholesky(omega).T``.

    Args:
        poses: [N, 3] poses (x, y, theta).
        edges: [E, 2] integer node ids. Nodes may appear in any number of edges.
        measured: [E, 3] relative poses.
        sqrt_info: [E, 3, 3] square roots of the information matrices.

    Returns:
        [E, 3] residuals.
    """
    src, dst = edges[:, 0], edges[:, 1]
    pi, pj = tf.gather(poses, src), tf.gather(poses, dst)
    rel, c, s = _relative(pi, pj)
    err = rel - measured
    err = tf.concat([err[:, :2], wrap_angle(err[:, 2:])], axis=1)
    res = tf.einsum("eij,ej->ei", sqrt_info, err)

    def grad(g):
        ge = tf.einsum("eij,ej->ei", sqrt_info, g)
        gx, gy, gt = tf.unstack(ge, axis=1)
        # to the world frame
        wx, wy = c * gx - s * gy, s * gx + c * gy
        d_pj = tf.stack([wx, wy, gt], axis=1)
        d_pi = tf.stack([-wx, -wy, gx * rel[:, 1] - gy * rel[:, 0] - gt], axis=1)
        n = tf.shape(poses)[0]
        d_poses = tf.math.unsorted_segment_sum(d_pi, src, n)
        d_poses += tf.math.unsorted_segment_sum(d_pj, dst, n)
        d_info = g[:, :, None] * err[:, None, :]
        return d_poses, None, -ge, d_info

    return res, grad


def _homogeneous(x):
    return tf.concat([x, tf.ones_like(x[..., :1])], axis=-1)


@tf.custom_gradient
def sampson_error(fundamental: tf.Tensor, x1: tf.Tensor, x2: tf.Tensor):
    """First-order geometric (Sampson) error of point matches.

    ``(x2' F x1)^2 / ((F x1)_1^2 + (F x1)_2^2 + (F' x2)_1^2 + (F' x2)_2^2)``

    :param fundamental: fundamental matrices, ``[3, 3]`` (one for all pairs of
        images) or ``[B, 3, 3]``
    :param x1: points in the first image, ``[B, N, 2]``
    :param x2: points in the second image, ``[B, N, 2]``
    :return: ``[B, N]``; points on an epipole of both images are not allowed
    """
    shared = fundamental.shape.rank == 2
    mats = fundamental[None] if shared else fundamental
    h1, h2 = _homogeneous(x1), _homogeneous(x2)
    line2 = tf.matmul(h1, mats, transpose_b=True)
    line1 = tf.matmul(h2, mats)
    num = tf.reduce_sum(h2 * line2, axis=-1)
    den = tf.reduce_sum(line2[..., :2] ** 2, -1) + tf.reduce_sum(line1[..., :2] ** 2, -1)
    ratio = num / den

    def grad(g):
        g_num = (2.0 * g * ratio)[..., None]
        g_den = (-2.0 * g * ratio * ratio)[..., None]
        keep = tf.constant([1.0, 1.0, 0.0], dtype=x1.dtype)
        g_line2 = g_num * h2 + g_den * line2 * keep
        g_line1 = g_den * line1 * keep
        d_mats = tf.matmul(g_line2, h1, transpose_a=True)
        d_mats += tf.matmul(h2, g_line1, transpose_a=True)
        d_h1 = tf.matmul(g_line2, mats)
        d_h2 = g_num * line2 + tf.matmul(g_line1, mats, transpose_b=True)
        if shared:
            d_mats = tf.reduce_sum(d_mats, axis=0)
        return d_mats, d_h1[..., :2], d_h2[..., :2]

    return num * ratio, grad


def solve_graph(poses, edges, measured, sqrt_info, steps=100, lr=1e-2, anchor=0):
    """Plain gradient descent on the graph, with one node held fixed."""
    poses = tf.Variable(poses)
    hold = tf.one_hot(anchor, poses.shape[0], dtype=poses.dtype)[:, None]
    for _ in range(steps):
        with tf.GradientTape() as tape:
            r = pose_graph_residual(poses, edges, measured, sqrt_info)
            cost = 0.5 * tf.reduce_sum(r * r)
        poses.assign_sub(lr * (1.0 - hold) * tape.gradient(cost, poses))
    return poses.read_value()
