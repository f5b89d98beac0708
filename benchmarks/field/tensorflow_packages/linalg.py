"""Dense linear algebra and root finding with cheap backward passes."""

from typing import Callable, NamedTuple

import tensorflow as tf


class SolveResult(NamedTuple):
    solution: tf.Tensor
    log_abs_det: tf.Tensor


def _transpose(x):
    return tf.linalg.matrix_transpose(x)


def hpsd_quadratic_form_solve(matrix: tf.Tensor, rhs: tf.Tensor) -> tf.Tensor:
    """Evaluate ``rhs^T matrix^{-1} rhs`` for a positive definite matrix.

    Parameters
    ----------
    matrix : tf.Tensor
        Shape ``[..., n, n]``. Only its symmetric part takes part.
    rhs : tf.Tensor
        Shape ``[..., n, k]`` with the same batch shape.

    Returns
    -------
    tf.Tensor
        Shape ``[..., k, k]``.
    """

    @tf.custom_gradient
    def _form(matrix, rhs):
        sym = 0.5 * (matrix + _transpose(matrix))
        chol = tf.linalg.cholesky(sym)
        solved = tf.linalg.cholesky_solve(chol, rhs)
        half = tf.linalg.triangular_solve(chol, rhs)

        def grad(g):
            g_sym = 0.5 * (g + _transpose(g))
            d_matrix = -tf.matmul(tf.matmul(solved, g_sym), solved, transpose_b=True)
            d_rhs = 2.0 * tf.matmul(solved, g_sym)
            return d_matrix, d_rhs

        return tf.matmul(half, half, transpose_a=True), grad

    return _form(matrix, rhs)


@tf.custom_gradient
def _solve_logdet(matrix, rhs):
    lu, perm = tf.linalg.lu(matrix)
    solution = tf.linalg.lu_solve(lu, perm, rhs)
    log_abs_det = tf.reduce_sum(
        tf.math.log(tf.abs(tf.linalg.diag_part(lu))), axis=-1
    )

    def grad(d_solution, d_log_abs_det):
        adjoint = tf.linalg.solve(matrix, d_solution, adjoint=True)
        d_matrix = -tf.matmul(adjoint, solution, transpose_b=True)
        return d_matrix, adjoint

    return (solution, log_abs_det), grad


def solve_with_logdet(matrix, rhs) -> SolveResult:
    """Solve ``matrix @ x = rhs`` and return ``log|det matrix|`` from the same LU.

    :param matrix: invertible, shape ``[..., n, n]``
    :param rhs: shape ``[..., n, k]``
    :returns: a :class:`SolveResult`; both of its fields are differentiable.
    """
    matrix = tf.convert_to_tensor(matrix)
    rhs = tf.convert_to_tensor(rhs, dtype=matrix.dtype)
    return SolveResult(*_solve_logdet(matrix, rhs))


def make_monotone_inverse(
    fn: Callable[..., tf.Tensor],
    *,
    low: float,
    high: float,
    num_steps: int = 100,
) -> Callable[..., tf.Tensor]:
    """Build the inverse of an elementwise increasing function.

    Parameters
    ----------
    fn : callable
        ``fn(x, *params)``, elementwise and strictly increasing in ``x``. It may
        read ``tf.Variable`` objects; their gradients are propagated.
    low, high : float
        Ends of the bracket that holds every root.
    num_steps : int
        Bisection steps.

    Returns
    -------
    callable
        ``inverse(y, *params)`` where ``y`` has the full broadcast shape.
    """

    @tf.custom_gradient
    def inverse(y, *params):
        lo = tf.fill(tf.shape(y), tf.constant(low, y.dtype))
        hi = tf.fill(tf.shape(y), tf.constant(high, y.dtype))
        for _ in range(num_steps):
            mid = 0.5 * (lo + hi)
            below = fn(mid, *params) < y
            lo = tf.where(below, mid, lo)
            hi = tf.where(below, hi, mid)
        root = 0.5 * (lo + hi)

        def grad(dy, variables=None):
            with tf.GradientTape(persistent=True) as tape:
                x = tf.identity(root)
                tape.watch(x)
                tape.watch(params)
                out = fn(x, *params)
            slope = tape.gradient(out, x)
            dx = dy / slope
            d_params = [
                tape.gradient(out, p, output_gradients=-dx,
                              unconnected_gradients="zero")
                for p in params
            ]
            if variables is None:
                return [dx] + d_params
            d_vars = [
                tape.gradient(out, v, output_gradients=-dx,
                              unconnected_gradients="zero")
                for v in variables
            ]
            return [dx] + d_params, d_vars

        return root, grad

    return inverse
