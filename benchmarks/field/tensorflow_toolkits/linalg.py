"""Matrix functions for Gaussian models."""

from typing import Optional

import tensorflow as tf


def symmetric_sqrtm(matrix: tf.Tensor, inverse: bool = False, name: Optional[str] = None) -> tf.Tensor:
    """Principal square root of symmetric positive definite matrices.

    Only the symmetric part of `matrix` is used.

    Parameters
    ----------
    matrix : tf.Tensor
        Shape ``[..., n, n]``.
    inverse : bool
        Return the inverse square root instead.
    name : str, optional
        Name scope.

    Returns
    -------
    tf.Tensor
        Shape ``[..., n, n]``, symmetric.
    """

    @tf.custom_gradient
    def _sqrtm(a):
        eigvals, eigvecs = tf.linalg.eigh(0.5 * (a + tf.linalg.matrix_transpose(a)))
        roots = tf.sqrt(eigvals)
        scaled = eigvecs / roots[..., None, :] if inverse else eigvecs * roots[..., None, :]
        value = tf.linalg.matmul(scaled, eigvecs, transpose_b=True)

        def grad(dy):
            sym = 0.5 * (dy + tf.linalg.matrix_transpose(dy))
            inner = tf.linalg.matmul(eigvecs, tf.linalg.matmul(sym, eigvecs), transpose_a=True)
            left, right = roots[..., :, None], roots[..., None, :]
            inner = inner / (left + right)
            if inverse:
                inner = -inner / (left * right)
            return tf.linalg.matmul(eigvecs, tf.linalg.matmul(inner, eigvecs, transpose_b=True))

        return value, grad

    with tf.name_scope(name or "symmetric_sqrtm"):
        return _sqrtm(tf.convert_to_tensor(matrix))


class CholeskyFactor:
    """Settings shared by the whitening helpers.

    Args:
      validate: check static shapes when solving.
    """

    def __init__(self, validate: bool = True):
        self.validate = validate

    def whiten(self, chol: "Float[Tensor, '*b n n']", rhs: "Float[Tensor, '*b n m']", *, adjoint: bool = False):
        """Solves ``chol @ x = rhs``, or ``chol^T @ x = rhs`` if `adjoint`.

        Args:
          chol: lower triangular factors; entries above the diagonal are not read.
          rhs: right-hand sides with the batch shape of `chol`.
          adjoint: solve with the transpose of the factor.

        Returns:
          The solution `x`, shaped like `rhs`.
        """
        if self.validate and chol.shape[-1] != rhs.shape[-2]:
            raise ValueError(f"shapes {chol.shape} and {rhs.shape} do not match")

        @tf.custom_gradient
        def _whiten(chol, rhs):
            x = tf.linalg.triangular_solve(chol, rhs, lower=True, adjoint=adjoint)

            def grad(dx):
                d_rhs = tf.linalg.triangular_solve(chol, dx, lower=True, adjoint=not adjoint)
                d_chol = -tf.linalg.matmul(d_rhs, x, transpose_b=True)
                return tf.linalg.band_part(d_chol, -1, 0), d_rhs

            return x, grad

        return _whiten(chol, rhs)
