"""Numerical building blocks of the Gaussian-process models."""

from __future__ import annotations

from typing import Callable, Optional

import tensorflow as tf

__all__ = [
    "cholesky_update",
    "chunked_kernel_matvec",
    "make_bicgstab_solver",
    "wright_omega",
]


def _reduce_to(grad: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Sums a broadcast gradient back to `shape`."""
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=shape, s1=tf.shape(grad))
    return tf.reshape(tf.reduce_sum(grad, axis=axes), shape)


@tf.custom_gradient
def wright_omega(x):
    """The solution w > 0 of w + log(w) = x, elementwise, for real x."""
    x = tf.convert_to_tensor(x)
    one = tf.ones_like(x)
    # Newton in y = log(w): e^y + y is convex, both starts lie right of the root.
    y = tf.where(x > 1.0, tf.math.log(tf.where(x > 1.0, x, one)), x)
    for _ in range(9):
        e = tf.exp(y)
        y = y - (e + y - x) / (e + one)
    w = tf.exp(y)

    def grad(dw):
        return dw * w / (one + w)

    return w, grad


def cholesky_update(chol, update_vector, multiplier=1.0, name=None):
    """Cholesky factor of a matrix after a rank-one change.

    Parameters
    ----------
    chol : Tensor, shape (..., n, n)
        Lower triangular factor with a positive diagonal. Entries above the
        diagonal are not read.
    update_vector : Tensor, shape (..., n)
        The vector ``u``.
    multiplier : Tensor or float, shape (...)
        The scalar ``m``; negative values are downdates, for which the changed
        matrix must stay positive definite.
    name : str, optional
        Name scope.

    Returns
    -------
    Tensor, shape (..., n, n)
        Factor of ``chol @ chol.T + m * u @ u.T``, over the broadcast batch.
    """
    with tf.name_scope(name or "cholesky_update"):
        chol = tf.convert_to_tensor(chol)
        u = tf.convert_to_tensor(update_vector, dtype=chol.dtype)
        m = tf.convert_to_tensor(multiplier, dtype=chol.dtype)
        return _cholesky_update(chol, u, m)


@tf.custom_gradient
def _cholesky_update(chol, u, m):
    n = chol.shape[-1]
    batch = tf.broadcast_dynamic_shape(
        tf.broadcast_dynamic_shape(tf.shape(chol)[:-2], tf.shape(u)[:-1]), tf.shape(m)
    )
    lower = tf.linalg.band_part(
        tf.broadcast_to(chol, tf.concat([batch, [n, n]], axis=0)), -1, 0
    )
    vec = tf.broadcast_to(u, tf.concat([batch, [n]], axis=0))
    mult = tf.broadcast_to(m, batch)

    omega, beta = vec, tf.ones_like(mult)
    columns = []
    rows = tf.range(n)
    for j in range(n):
        col = lower[..., :, j]
        diag, head = col[..., j], omega[..., j]
        new_diag = tf.sqrt(diag**2 + mult / beta * head**2)
        gamma = diag**2 * beta + mult * head**2
        omega = omega - (head / diag)[..., None] * col
        new_col = new_diag[..., None] * (
            col / diag[..., None] + (mult * head / gamma)[..., None] * omega
        )
        new_col = tf.where(rows < j, tf.zeros_like(new_col), new_col)
        new_col = tf.where(rows == j, new_diag[..., None] * tf.ones_like(new_col), new_col)
        columns.append(new_col)
        beta = beta + mult * head**2 / diag**2
    updated = tf.stack(columns, axis=-1)

    def grad(dupdated):
        inner = tf.matmul(updated, tf.linalg.band_part(dupdated, -1, 0), transpose_a=True)
        phi = tf.linalg.band_part(inner, -1, 0)
        phi = tf.linalg.set_diag(phi, 0.5 * tf.linalg.diag_part(phi))
        half = tf.linalg.triangular_solve(updated, phi, adjoint=True)
        full = tf.linalg.triangular_solve(updated, tf.linalg.matrix_transpose(half), adjoint=True)
        sym = 0.5 * (full + tf.linalg.matrix_transpose(full))
        sym_u = tf.linalg.matvec(sym, vec)
        dchol = tf.linalg.band_part(2.0 * tf.matmul(sym, lower), -1, 0)
        du = 2.0 * mult[..., None] * sym_u
        dm = tf.reduce_sum(vec * sym_u, axis=-1)
        return (
            _reduce_to(dchol, tf.shape(chol)),
            _reduce_to(du, tf.shape(u)),
            _reduce_to(dm, tf.shape(m)),
        )

    return updated, grad


def chunked_kernel_matvec(x1, x2, v, amplitude, length_scale, *, chunk_size: int = 512):
    """Product of an exponentiated-quadratic kernel matrix with vectors.

    The kernel matrix is formed `chunk_size` rows at a time and never kept.

    Args:
        x1: `[n, d]` index points of the rows.
        x2: `[m, d]` index points of the columns.
        v: `[m, k]` vectors.
        amplitude: Scalar; the kernel is scaled by its square.
        length_scale: Scalar, or `[d]` for one scale a dimension.
        chunk_size: Rows of the kernel matrix held at once.

    Returns:
        `[n, k]` tensor `K(x1, x2) @ v`.
    """

    def block(z1, z2, amp):
        d2 = (
            tf.reduce_sum(z1**2, -1)[:, None]
            - 2.0 * tf.matmul(z1, z2, transpose_b=True)
            + tf.reduce_sum(z2**2, -1)[None, :]
        )
        return amp**2 * tf.exp(-0.5 * tf.maximum(d2, 0.0))

    @tf.custom_gradient
    def matvec(x1, x2, v, amp, scale):
        z1, z2 = x1 / scale, x2 / scale
        n = x1.shape[0]
        starts = range(0, n, chunk_size)
        out = tf.concat(
            [tf.matmul(block(z1[s : s + chunk_size], z2, amp), v) for s in starts], axis=0
        )

        def grad(dout):
            dz1, dz2, dv = [], tf.zeros_like(z2), tf.zeros_like(v)
            dlog_amp = tf.zeros_like(amp)
            dlog_scale = tf.zeros_like(z1[0])
            for s in starts:
                z = z1[s : s + chunk_size]
                g = dout[s : s + chunk_size]
                k = block(z, z2, amp)
                dv += tf.matmul(k, g, transpose_a=True)
                w = k * tf.matmul(g, v, transpose_b=True)
                row, col = tf.reduce_sum(w, 1)[:, None], tf.reduce_sum(w, 0)[:, None]
                wz2 = tf.matmul(w, z2)
                dz1.append(wz2 - row * z)
                dz2 += tf.matmul(w, z, transpose_a=True) - col * z2
                dlog_amp += 2.0 * tf.reduce_sum(w)
                dlog_scale += (
                    tf.reduce_sum(row * z**2, 0)
                    - 2.0 * tf.reduce_sum(z * wz2, 0)
                    + tf.reduce_sum(col * z2**2, 0)
                )
            dx1 = tf.concat(dz1, axis=0) / scale
            dx2 = dz2 / scale
            return dx1, dx2, dv, dlog_amp / amp, _reduce_to(dlog_scale, tf.shape(scale))

        return out, grad

    x1 = tf.convert_to_tensor(x1)
    x2, v, amplitude, length_scale = (
        tf.convert_to_tensor(t, dtype=x1.dtype) for t in (x2, v, amplitude, length_scale)
    )
    return matvec(x1, x2, v, amplitude, length_scale)


def _bicgstab(matvec, b, tol, max_iters):
    threshold = tol * tf.norm(b)
    zero = tf.zeros_like(b)
    one = tf.ones([], b.dtype)

    def cond(i, x, r, p, q, rho, alpha, omega):
        return tf.logical_and(i < max_iters, tf.norm(r) > threshold)

    def body(i, x, r, p, q, rho, alpha, omega):
        rho_next = tf.reduce_sum(b * r)
        beta = (rho_next / rho) * (alpha / omega)
        p = r + beta * (p - omega * q)
        q = matvec(p)
        alpha = rho_next / tf.reduce_sum(b * q)
        s = r - alpha * q
        t = matvec(s)
        omega = tf.math.divide_no_nan(tf.reduce_sum(t * s), tf.reduce_sum(t * t))
        return i + 1, x + alpha * p + omega * s, s - omega * t, p, q, rho_next, alpha, omega

    state = (tf.constant(0), zero, b, zero, zero, one, one, one)
    return tf.while_loop(cond, body, state)[1]


def make_bicgstab_solver(
    matvec: Callable[[tf.Tensor], tf.Tensor],
    tol: float = 1e-10,
    max_iters: Optional[int] = None,
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Builds a differentiable matrix-free solver for a general square operator.

    :param matvec: linear map from a vector of shape ``[n]`` to one of the same
        shape; it need not be symmetric, and may read ``tf.Variable`` s, which
        then receive gradients.
    :param tol: relative size of the residual at which the iteration stops.
    :param max_iters: bound on the iterations, ten times ``n`` if ``None``.
    :return: a function from the right-hand side to the solution.
    """

    def run(b):
        limit = 10 * tf.size(b) if max_iters is None else max_iters
        return _bicgstab(matvec, b, tol, limit)

    @tf.custom_gradient
    def solve(b):
        x = tf.stop_gradient(run(b))

        def grad(dx, variables=None):
            adjoint = run(dx)
            if not variables:
                return adjoint
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                residual = matvec(x)
            dvars = tape.gradient(residual, variables, output_gradients=-adjoint)
            return adjoint, dvars

        return x, grad

    return solve
