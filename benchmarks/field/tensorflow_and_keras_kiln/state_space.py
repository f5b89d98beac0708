from __future__ import annotations

from typing import Any, Callable, Sequence

import tensorflow as tf


@tf.custom_gradient
def log_abs_det(matrix: tf.Tensor) -> tf.Tensor:
    """Logarithm of the absolute determinant of (a batch of) invertible matrices.

    :param matrix: tensor of shape ``(..., n, n)``.
    :return: tensor of shape ``(...)``.
    """
    _, log_det = tf.linalg.slogdet(matrix)

    def grad(upstream):
        inverse = tf.linalg.inv(matrix)
        return upstream[..., tf.newaxis, tf.newaxis] * inverse

    return log_det, grad


def jittered_cholesky(matrix: tf.Tensor, jitter: tf.Tensor | float = 1e-6) -> tf.Tensor:
    """Cholesky factor of the symmetric part of ``matrix`` plus ``jitter * I``.

    :param matrix: ``(..., n, n)``; only its symmetric part enters.
    :param jitter: scalar added to every diagonal entry; it may be learned.
    :return: lower triangular ``(..., n, n)``.
    """
    matrix = tf.convert_to_tensor(matrix)
    jitter = tf.convert_to_tensor(jitter, dtype=matrix.dtype)
    return _jittered_cholesky(matrix, jitter)


@tf.custom_gradient
def _jittered_cholesky(matrix, jitter):
    sym = 0.5 * (matrix + tf.linalg.matrix_transpose(matrix))
    factor = tf.linalg.cholesky(
        tf.linalg.set_diag(sym, tf.linalg.diag_part(sym) + jitter)
    )

    def grad(upstream):
        inner = tf.linalg.matmul(factor, upstream, transpose_a=True)
        inner = tf.linalg.band_part(inner, -1, 0)
        inner = tf.linalg.set_diag(inner, 0.5 * tf.linalg.diag_part(inner))
        left = tf.linalg.triangular_solve(factor, inner, adjoint=True)
        # left @ inv(factor), written as a solve on the transposed system
        full = tf.linalg.matrix_transpose(
            tf.linalg.triangular_solve(
                factor, tf.linalg.matrix_transpose(left), adjoint=True
            )
        )
        d_matrix = 0.5 * (full + tf.linalg.matrix_transpose(full))
        return d_matrix, tf.reduce_sum(tf.linalg.trace(d_matrix))

    return factor, grad


def segment_demean(values, weights, segment_ids, num_segments: int):
    """Remove from each row the weighted mean of the segment that it belongs to.

    :param values: ``(rows, features)``.
    :param weights: non-negative ``(rows,)``.
    :param segment_ids: integer ``(rows,)``, in any order.
    :param num_segments: number of segments, empty ones included.
    :return: ``(rows, features)``; differentiable in values and weights.
    """

    def pool(rows):
        return tf.math.unsorted_segment_sum(rows, segment_ids, num_segments)

    @tf.custom_gradient
    def demean(x, w):
        total = pool(w)[:, tf.newaxis]
        mean = tf.math.divide_no_nan(pool(w[:, tf.newaxis] * x), total)
        centred = x - tf.gather(mean, segment_ids)

        def grad(dy):
            pulled = tf.math.divide_no_nan(pool(w[:, tf.newaxis] * dy), total)
            dx = dy - tf.gather(pulled, segment_ids)
            share = tf.math.divide_no_nan(pool(dy), total)
            dw = -tf.reduce_sum(centred * tf.gather(share, segment_ids), axis=-1)
            return dx, dw

        return centred, grad

    return demean(tf.convert_to_tensor(values), tf.convert_to_tensor(weights))


def make_midpoint_integrator(
    rhs: Callable[[float, tf.Tensor, Any], tf.Tensor],
    grid: Sequence[float],
) -> Callable[[tf.Tensor, Any], tf.Tensor]:
    """Build an explicit midpoint integrator with a discrete adjoint.

    Only the states on the grid are kept; each step is replayed on the way back.

    :param rhs: ``rhs(t, state, params)``, the time derivative of the state.
    :param grid: increasing times at which the solution is reported. The first
        is the time of the initial state; spacing may vary.
    :return: ``integrate(state, params)`` giving ``(len(grid), *state.shape)``,
        with ``params`` any nest of tensors.
    """
    starts = [float(t) for t in grid[:-1]]
    steps = [float(b) - float(a) for a, b in zip(grid[:-1], grid[1:])]

    def advance(t, h, state, params):
        half = state + 0.5 * h * rhs(t, state, params)
        return state + h * rhs(t + 0.5 * h, half, params)

    @tf.custom_gradient
    def integrate(state, params):
        states = [state]
        for t, h in zip(starts, steps):
            states.append(advance(t, h, states[-1], params))

        def grad(upstream):
            cotangents = tf.unstack(upstream)
            adjoint = cotangents[-1]
            leaves = tf.nest.flatten(params)
            d_leaves = [tf.zeros_like(leaf) for leaf in leaves]
            tape_items = zip(
                reversed(states[:-1]), reversed(starts), steps, reversed(cotangents[:-1])
            )
            for y, t, h, cotangent in tape_items:
                with tf.GradientTape() as tape:
                    tape.watch([y] + leaves)
                    following = advance(t, h, y, params)
                d_y, *d_step = tape.gradient(
                    following,
                    [y] + leaves,
                    output_gradients=adjoint,
                    unconnected_gradients=tf.UnconnectedGradients.ZERO,
                )
                adjoint = d_y + cotangent
                d_leaves = [total + part for total, part in zip(d_leaves, d_step)]
            return adjoint, tf.nest.pack_sequence_as(params, d_leaves)

        return tf.stack(states), grad

    return integrate
